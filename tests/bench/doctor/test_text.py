"""What the doctor prints: 100 columns, every failure with its reason, a refusal once."""

from lt2theory.bench.doctor.cases import Case
from lt2theory.bench.doctor.choices import Served
from lt2theory.bench.doctor.environment import describe_environment
from lt2theory.bench.doctor.measure import Outcome
from lt2theory.bench.doctor.text import (
    COLUMNS,
    OutcomeTable,
    advice_lines,
    environment_lines,
    served_lines,
    summary_line,
)
from lt2theory.mixers import MIXERS

CASE = Case("gated_deltaproduct", "reference", "bfloat16", 128, 131, "continued")
RIGHT = Outcome(CASE, "right", "", 1e-3, 2e-3, "initial_state", 2e-2)
LONG = "because " * 40


def text(lines: list[str]) -> str:
    assert all(len(line) <= COLUMNS for line in lines)
    assert all(line == line.rstrip() for line in lines)
    return "\n".join(lines)


def test_rows_stand_under_their_columns():
    table = OutcomeTable()
    title, names = table.head(7, full=False)
    assert "7 cases, first kernel configuration that runs" in title
    (row,) = table.rows(RIGHT)
    assert text([title, names, row])
    for name, value in {"width": "  128", "values": "1.0e-03", "worst": "initial_state"}.items():
        end = names.index(name) + (len(name) if name != "worst" else len(value))
        assert row[:end].endswith(value)
    assert row.endswith(" right")
    longest = max(MIXERS, key=len)
    assert row.startswith(f"{longest} ")


def test_a_failure_shows_its_reason_every_time():
    table = OutcomeTable()
    for _ in range(2):
        said = text(table.rows(Outcome(CASE, "crashed", LONG)))
        assert said.split("\n")[0].endswith("crashed")
        assert "    crashed: because because" in said
    wrong = Outcome(CASE, "wrong", "gradient of k: error inf", 1e-3, None, "k", 2e-2)
    assert " 1.0e-03     inf k " in table.rows(wrong)[0]


def test_a_refusal_shows_once_a_mixer_and_its_reason_once():
    table = OutcomeTable()
    refused = Outcome(CASE, "refused", LONG)
    assert "    refused: because" in text(table.rows(refused))
    assert table.rows(refused) == []
    other = Outcome(Case("gdn", *list(CASE.to_json().values())[1:]), "refused", LONG)
    assert len(table.rows(other)) == 1


def test_choices_say_an_objection_once():
    pairs = (("fla", LONG),)
    said = text(served_lines([Served(name, "float32", "chunked", "why", pairs) for name in "ab"]))
    assert said.count("because because because because because because\n") > 1
    assert said.count("not fla       because") == 1
    assert said.count("not fla       as above") == 1
    assert "nothing       RuntimeError" in text(served_lines([Served("a", "", "", "RuntimeError")]))


def test_environment_and_summary():
    said = text(environment_lines(describe_environment("cpu")))
    assert "\n  torch " in said
    assert "\n  device     cpu\n" in said
    outcomes = [RIGHT, RIGHT, Outcome(CASE, "hung", "")]
    assert summary_line(outcomes) == "3 cases: 2 right, 1 hung"
    assert summary_line([]) == "0 cases: nothing to measure"


def test_advice_keeps_links_whole():
    link = "https://github.com/fla-org/flash-linear-attention/issues/640"
    assert link in text(advice_lines([f"{LONG[:80]}{link}"]))
