"""The option that an unknown one was probably meant to be, over the flags of `lt2`."""

import pytest

from lt2theory.cli.app import main
from lt2theory.cli.suggestions import flags_of, meant, misspelt

FLAGS = [
    "learning-rates",
    "model.indexer-loss",
    "model.loop-state",
    "model.no-tie-embeddings",
    "model.num-loops",
    "model.pattern",
    "optimiser.learning-rate",
    "seed",
    "task.knobs",
    "task.name",
]


@pytest.mark.parametrize(
    ("unknown", "known"),
    [
        ("model.mixer", "--model.pattern"),
        ("mixer", "--model.pattern"),
        ("lr", "--optimiser.learning-rate"),
        ("learning-rate", "--optimiser.learning-rate"),
        ("optimizer.learning-rate", "--optimiser.learning-rate"),
        ("model.seed", "--seed"),
        ("sed", "--seed"),
        ("loops", "--model.num-loops"),
        ("model.state", "--model.loop-state"),
        ("model.num_lops", "--model.num-loops"),
        ("task.group", "--task.knobs group=... of group_word"),
        ("task.groups", "--task.knobs groups=..."),
        ("task.nam", "--task.name"),
        ("tokens", "--task.knobs tokens=... of group_word"),
        ("depth", "--task.knobs depth=... of dyck"),
        ("model.tokens", None),
        ("model.zzz", None),
        ("x", None),
    ],
)
def test_what_was_meant(unknown: str, known: str | None) -> None:
    assert meant(unknown, FLAGS) == known


def test_flags_are_read_from_the_left_column_alone() -> None:
    text = "│ --model.width INT   Width, see --steps. │\n│ -----\n│ --fast, --no-fast │\n      --x"
    assert flags_of(text) == ["fast", "model.width", "no-fast"]


def test_only_an_option_like_the_missing_one_is_its_misspelling() -> None:
    assert misspelt("seed", ["--sed=3"], FLAGS) == "--sed"
    assert misspelt("seed", ["--task.name", "x", "--", "--zzz"], FLAGS) is None
    assert misspelt("seed", ["--seed", "3"], FLAGS) is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "curriculum run s3 --model.mixer gdn",
            "--model.mixer: no such option, perhaps you meant ",
        ),
        (
            "train --dta x --steps 2",
            "--dta: no such option, perhaps you meant --data (see lt2 train",
        ),
        (
            "curriculum run s3 --tokens generators",
            "--tokens: no such option, perhaps you meant --task.knobs tokens=... of group_word (s",
        ),
        ("data prepare --source x", "--source: no such option, perhaps you meant --sources"),
    ],
)
def test_at_the_command_line(line: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == 2
    assert f"lt2: error: {said}" in capsys.readouterr().err
