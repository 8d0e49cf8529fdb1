"""How objects show themselves in a notebook: small, complete, and escaped."""

from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from lt2theory.analysis import DPLROperator
from lt2theory.cards import MOST_ROWS, MOST_TEXT, card, listing
from lt2theory.linearize import (
    Sources,
    Start,
    Teacher,
    build_student,
    recipe_a,
    run_recipe,
    student_config,
)
from lt2theory.linearize.evaluation import EvaluationConfig
from lt2theory.models import LoopedConfig
from lt2theory.runs import RunFolder, Study, study_run
from lt2theory.training import CurriculumConfig, TaskConfig, load_summary, run_curriculum
from lt2theory.training.lm import Execution, LmConfig, run_lm
from proofs_checks.ledger import ledger
from tests.linearize.runs import make_recipe, make_sources

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
    assert "parity" in read.words
    assert "16" in read.words


def test_a_study_lists_its_runs(tmp_path: Path) -> None:
    names = [SimpleNamespace(label=f"arm {n}", seed=n) for n in range(3)]
    runs = [study_run({"n": n.seed}, vars(n) | {"task": "parity"}) for n in names]
    read = shown(Study.create(tmp_path, runs, kind="curriculum"))
    assert {"arm 0", "arm 1", "arm 2", "absent"} <= set(read.words)


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> Sources:
    return make_sources(tmp_path_factory.mktemp("sources"))


def test_a_corpus_shows_its_splits(sources: Sources) -> None:
    read = shown(sources.corpus)
    assert {"train", "eval", "test", "documents"} <= set(read.words)


def test_a_run_on_text_shows_its_outcome(sources: Sources, tmp_path: Path) -> None:
    model = sources.teacher.model.config
    config = LmConfig(model=model, steps=1, batch_size=2, sequence_length=16, evaluate_every=1)
    read = shown(run_lm(config, Execution(), data=sources.corpus.folder, folder=tmp_path / "run"))
    assert {"Run lm", "finished", "held out (bits per byte)"} <= set(read.words)


def test_recipes_list_their_stages() -> None:
    read = shown(recipe_a("kda"))
    assert {"attention", "hidden", "distillation", "kda", "0.0004"} <= set(read.words)
    assert "Stage(" not in read.text
    shown(Start(decay="own"))
    shown(EvaluationConfig())


def test_teachers_and_students_show_what_they_are(sources: Sources) -> None:
    model = sources.teacher.model
    assert EVIL in shown(Teacher(EVIL, model, "memory")).text
    tokens = torch.arange(32)[None]
    config = student_config(model.config, "gdn")
    read = shown(build_student(model, config, calibration=tokens))
    assert {"gdn", "cosine"} <= set(read.words)
    biased = model.config.model_copy(update={"output_gate": True})
    left = build_student(type(model)(biased), student_config(biased, "gdn"), calibration=tokens)
    assert "left out in layer 1" in shown(left).words


def test_a_linearization_shows_the_way_to_its_teacher(sources: Sources, tmp_path: Path) -> None:
    recipe = make_recipe()
    short = recipe.model_copy(update={"stages": recipe.stages[:1]})
    summary = run_recipe(short, Execution(), sources, folder=tmp_path / "run")
    read = shown(summary)
    assert {"before", "attention", "agreement", f"{summary.start.kl:.4g}"} <= set(read.words)
    unmeasured = summary.model_copy(update={"start": None})
    assert f"{summary.start.kl:.4g}" not in shown(unmeasured).words
