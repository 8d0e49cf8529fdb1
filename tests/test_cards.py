"""How objects show themselves in a notebook: small, complete, and escaped."""

from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from lt2theory.analysis import DPLROperator
from lt2theory.cards import MOST_ROWS, MOST_TEXT, card, listing
from lt2theory.models import LoopedConfig
from lt2theory.runs import RunFolder, Study, study_run
from lt2theory.training import CurriculumConfig, TaskConfig, load_summary, run_curriculum
from lt2theory.training.lm.config import LmConfig
from proofs_checks.ledger import ledger

EVIL = '<script>alert("x")</script> & more'
LARGEST = 20_000  # bytes of what one object shows


class Reader(HTMLParser):
    """Collects text and checks that every tag is closed."""

    def __init__(self, html):
        super().__init__()
        self.open, self.words, self.tags = [], [], set()
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(self.words)


def shown(thing) -> Reader:
    html = thing._repr_html_()
    assert len(html) < LARGEST
    found = Reader(html)
    assert found.tags <= {"div", "strong", "table", "tr", "th", "td", "details", "summary", "p"}
    return found


def test_all_text_is_escaped() -> None:
    for html in (card(EVIL, {EVIL: EVIL}, more={EVIL: EVIL}), listing(EVIL, [EVIL], [[EVIL]])):
        read = Reader(html)
        assert "script" not in read.tags
        assert EVIL in read.words


def test_long_values_and_lists_are_cut() -> None:
    assert max(map(len, Reader(card("x", {"y": "z" * 10_000})).words)) == MOST_TEXT
    read = Reader(listing("x", ["n"], [[n] for n in range(MOST_ROWS + 5)]))
    assert "and 5 more" in read.words
    assert str(MOST_ROWS - 1) in read.words
    assert str(MOST_ROWS) not in read.words


def test_a_config_shows_what_was_changed_and_folds_the_rest() -> None:
    read = shown(LoopedConfig(num_loops=3))
    assert "num_loops" in read.words
    assert read.words.index("num_loops") < read.words.index("vocab_size")
    assert "details" in read.tags


def test_a_run_config_names_task_and_label() -> None:
    config = CurriculumConfig(task=TaskConfig(name="parity"), label=EVIL)
    read = shown(config)
    assert EVIL in read.words
    assert "name='parity'" in read.words
    shown(config.task)
    shown(LmConfig(model=LoopedConfig(), steps=1))
    shown(config.optimiser)


def test_an_operator_shows_its_spectrum() -> None:
    one = DPLROperator.from_factor(torch.tensor([3.0, 4.0]) / 5, torch.tensor(2.0))
    read = shown(one)
    assert read.words[read.words.index("rank") + 1] == "1"
    assert "2" in read.words
    assert "one operator" in read.words
    many = DPLROperator.identity((2, 3), 4)
    assert "[2, 3]" in shown(many).words


def test_an_operator_without_columns_can_be_shown() -> None:
    read = shown(DPLROperator.identity((), 4))
    assert read.words[read.words.index("singular values") + 1] == "none"


def test_claims_and_records_show_their_statement() -> None:
    for claim in ledger():
        assert claim.title in shown(claim).text
    record = next(claim for claim in ledger() if claim.id == "R2").run(fast=True)
    assert record.verdict in shown(record).words


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    config = CurriculumConfig(
        task=TaskConfig(name="parity"),
        model=LoopedConfig(width=8, num_layers=1, num_heads=1, pattern="deltanet"),
        stages=(16,),
        step_budget=2,
        evaluation_size=64,
        confirmation_size=64,
        test_size=64,
        threads=1,
    )
    folder = tmp_path_factory.mktemp("runs") / "parity"
    run_curriculum(config, folder)
    return folder


def test_runs_and_their_summaries_are_shown(run: Path) -> None:
    assert "done" in shown(RunFolder.open(run)).words
    read = shown(load_summary(run))
    assert "budget_exhausted" in read.words
    assert "16" in read.words


def test_a_study_lists_its_runs(tmp_path: Path) -> None:
    names = [SimpleNamespace(label=f"arm {n}", seed=n) for n in range(3)]
    runs = [study_run({"n": n.seed}, vars(n) | {"task": "parity"}) for n in names]
    read = shown(Study.create(tmp_path, runs, kind="curriculum"))
    assert {"arm 0", "arm 1", "arm 2", "absent"} <= set(read.words)
