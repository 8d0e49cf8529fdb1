"""Parsing: flags to configurations, and every refusal one line with field, value and range."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from pydantic import Field, ValidationError, model_validator

from lt2theory.cli.errors import UsageError, one_line
from lt2theory.cli.parsing import leading_name, parse
from lt2theory.fields import Frozen


class Model(Frozen):
    """A nested part."""

    num_loops: int = Field(1, ge=1, description="Loops T.")
    kind: Literal["rescan", "accumulate"] = Field("rescan", description="Semantics.")


class Config(Frozen):
    """A configuration with each kind of field."""

    model: Model = Field(Model(), description="The model.")
    knobs: dict[str, str | int | float | bool | None] = Field({"group": "S5"}, description="Knobs.")
    stages: tuple[int, ...] = Field((1, 2), description="Stages.")
    threads: int | None = Field(None, ge=1, description="Threads.")
    betas: tuple[float, float] = Field((0.9, 0.95), description="Rates.")
    pass_mark: float = Field(0.9, gt=0, le=1, description="Pass mark.")

    @model_validator(mode="after")
    def _check(self) -> "Config":
        if len(self.stages) > 3:
            raise ValueError(f"stages: {self.stages} has too many entries; at most 3")
        return self


@dataclass(frozen=True)
class Options:
    """Where results go."""

    out: Path | None = None
    """Folder."""
    overwrite: bool = False
    """Replace what is there."""


@dataclass(frozen=True)
class Required:
    """A part with a required field."""

    size: int
    """How many."""


def parsed(*argv: str) -> tuple[Config, Options]:
    config, options = parse("lt2 verb", argv, "Does it.", config=Config(), options=Options)
    return config, options


def test_defaults() -> None:
    assert parsed() == (Config(), Options())


def test_nested_fields_and_parts_side_by_side() -> None:
    config, options = parsed("--model.num-loops", "2", "--out", "x", "--overwrite")
    assert config == Config(model=Model(num_loops=2))
    assert options == Options(Path("x"), True)


def test_an_instance_is_the_default() -> None:
    start = Config(pass_mark=0.5)
    (config,) = parse("lt2 verb", ["--stages", "3"], "Does it.", config=start)
    assert config == Config(pass_mark=0.5, stages=(3,))


def test_underscores_and_hyphens_are_the_same() -> None:
    assert parsed("--model.num_loops", "2") == parsed("--model.num-loops", "2")


def test_mappings_read_json_scalars() -> None:
    words = "group=S3 size=3 rate=0.5 dense=true text=a=b a=False b=None c=null"
    config, _ = parsed("--knobs", *words.split())
    expected = {"group": "S3", "size": 3, "rate": 0.5, "dense": True, "text": "a=b", "a": False}
    assert config.knobs == {**expected, "b": None, "c": None}
    types = [str, int, float, bool, str, bool, type(None), type(None)]
    assert [type(value) for value in config.knobs.values()] == types


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (
            "--model.num-loops 0",
            "--model.num-loops: 0 is not allowed (should be greater than or equal to 1)",
        ),
        ("--model.num-loops q", "--model.num-loops: 'q' is not allowed (expected INT)"),
        ("--model.num-loops", "--model.num-loops: no value given (expected INT)"),
        (
            "--model.kind both",
            "--model.kind: 'both' is not allowed (choose from rescan, accumulate)",
        ),
        (
            "--model.num-lops 2",
            "--model.num-lops: no such option, perhaps you meant --model.num-loops",
        ),
        ("--num-loops 2", "--num-loops: no such option, perhaps you meant --model.num-loops"),
        ("--zzzzzz 2", "--zzzzzz: no such option"),
        ("--bogus 2", "--bogus: no such option"),
        ("--threads abc", "--threads: 'abc' is not allowed (expected {None}|INT)"),
        ("--threads 0", "--threads: 0 is not allowed (should be greater than or equal to 1)"),
        ("--betas 0.9", "--betas: too few values given (expected FLOAT FLOAT)"),
        ("stray", "stray: only options stand here"),
        ("--pass-mark 1.5", "--pass-mark: 1.5 is not allowed (should be less than or equal to 1)"),
        ("--stages 1 b", "--stages: ['1', 'b'] is not allowed (expected [INT [INT ...]])"),
        ("--stages 1 2 3 4", "--stages: (1, 2, 3, 4) has too many entries; at most 3"),
        ("--knobs group", "--knobs: 'group' is not allowed (expected [KEY=VALUE ...])"),
    ],
)
def test_refusals_are_one_line(argv: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        parsed(*argv.split())
    assert str(refused.value) == f"{message} (see lt2 verb --help)"


def test_a_required_field_is_named() -> None:
    with pytest.raises(UsageError, match=r"^--size: no value given \(required\)"):
        parse("lt2 verb", [], "Does it.", part=Required)
    with pytest.raises(UsageError, match=r"^--size: no value given \(required\)"):
        parse("lt2 verb", ["--bogus", "3"], "Does it.", part=Required)


@pytest.mark.parametrize("argv", [["--sise", "3"], ["--sise=3"]])
def test_a_required_field_that_is_misspelt_is_unknown_and_not_missing(argv: list[str]) -> None:
    said = r"^--sise: no such option, perhaps you meant --size \(see lt2 verb --help\)$"
    with pytest.raises(UsageError, match=said):
        parse("lt2 verb", argv, "Does it.", part=Required)


def test_help_explains_every_field(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        parsed("--help")
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    for phrase in ("Does it.", "--model.num-loops", "Loops T.", "Knobs.", "--pass-mark", "--out"):
        assert phrase in text


def test_library_errors_become_one_line() -> None:
    with pytest.raises(ValidationError) as refused:
        Config.model_validate({"model": {"num_loops": -1}, "threads": 0})
    assert one_line(refused.value) == (
        "model.num_loops: -1 is not allowed (should be greater than or equal to 1); "
        "threads: 0 is not allowed (should be greater than or equal to 1)"
    )
    with pytest.raises(ValidationError) as refused:
        Config.model_validate({"model": {"num_lops": 3}})
    assert one_line(refused.value) == (
        "model.num_lops: no such field, perhaps you meant num_loops (choose from num_loops, kind)"
    )


def test_system_errors_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as refused:
        (tmp_path / "absent").read_text()
    assert one_line(refused.value) == f"{tmp_path / 'absent'}: no such file or directory"


class TestLeadingName:
    """The name in front of the flags."""

    names = ("group_word", "mqar")

    def take(self, *argv: str, default: str | None = None) -> tuple[str, list[str]]:
        return leading_name(argv, self.names, usage="lt2 x", what="task", default=default)

    @pytest.mark.parametrize("spelt", ["group_word", "group-word"])
    def test_both_spellings(self, spelt: str) -> None:
        assert self.take(spelt, "--stage", "8") == ("group_word", ["--stage", "8"])

    def test_default_where_a_flag_begins(self) -> None:
        assert self.take("--stage", "8", default="mqar") == ("mqar", ["--stage", "8"])

    @pytest.mark.parametrize("argv", [(), ("--stage", "8")])
    def test_missing(self, argv: tuple[str, ...]) -> None:
        with pytest.raises(UsageError, match=r"^task: no name given \(choose from group_word, mqa"):
            self.take(*argv)

    def test_unknown(self) -> None:
        with pytest.raises(
            UsageError, match=r"^task: 'grop' is not allowed \(choose from group_word"
        ):
            self.take("grop")

    def test_help_lists_the_names(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            self.take("--help")
        assert "mqar" in capsys.readouterr().out
