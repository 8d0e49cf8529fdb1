"""`lt2 verify`: records, exit codes, files."""

import json
from pathlib import Path

import pytest

import proofs_checks.runner as runner
from lt2theory.cli import main
from proofs_checks.claim import Claim, Finding
from proofs_checks.ledger import ledger

KEYS = {
    "id", "title", "statement", "conditions", "scope", "source", "evidence", "verdict", "margin",
    "counterexample", "seconds",
}  # fmt: skip


def fake(id: str, *, passed: bool, expected: str = "holds", crash: bool = False) -> Claim:
    def check(*, fast: bool) -> Finding:
        if crash:
            raise ZeroDivisionError("on purpose")
        return Finding(passed, margin=0.5, counterexample="k = (1, 0) <b>")

    return Claim(id, "title", "says", "if", "all", "here", "exact", expected, check)  # type: ignore[arg-type]


@pytest.fixture
def claims(monkeypatch: pytest.MonkeyPatch):
    def put(*every: Claim) -> None:
        monkeypatch.setattr(runner, "ledger", lambda: every)

    return put


def test_records_and_exit_code(claims, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    claims(fake("R1", passed=True), fake("W4", passed=True, expected="refuted_as_stated"))
    out, page = tmp_path / "r.json", tmp_path / "r.html"
    argv = ["verify", "--workers", "1", "--json", str(out), "--html", str(page)]
    assert main(argv) == 0
    records = json.loads(out.read_text())
    assert [set(record) for record in records] == [KEYS, KEYS]
    assert [record["verdict"] for record in records] == ["holds", "refuted_as_stated"]
    assert "&lt;b&gt;" in page.read_text()
    assert capsys.readouterr().out.endswith("2 of 2 claims as expected\n")


def test_a_failed_claim_is_exit_1(claims, capsys: pytest.CaptureFixture[str]) -> None:
    claims(
        fake("R1", passed=False),
        fake("W4", passed=False, expected="refuted_as_stated"),
        fake("L1", passed=True, crash=True),
        fake("E1", passed=True),
    )
    assert main(["verify", "--workers", "1"]) == 1
    said = capsys.readouterr().out
    assert "unexpected: R1 title: refuted_as_stated, the ledger expects holds" in said
    assert "unexpected: W4 title: not_run, the ledger expects refuted_as_stated" in said
    assert "unexpected: L1 title: not_run, the ledger expects holds; crashed: ZeroDivision" in said
    assert said.endswith("1 of 4 claims as expected\n")


def test_only_some(claims, capsys: pytest.CaptureFixture[str]) -> None:
    claims(fake("R1", passed=True), fake("R12", passed=True), fake("E1", passed=True))
    assert main(["verify", "--workers", "1", "--only", "R"]) == 0
    assert "2 of 2" in capsys.readouterr().out
    assert main(["verify", "--workers", "1", "--only", "R1", "E1"]) == 0
    assert "2 of 2" in capsys.readouterr().out
    assert main(["verify", "--only", "Q9"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "'Q9' is not allowed (" in error


@pytest.mark.parametrize("argv", [["--only"], ["--only", "--fast"]])
def test_only_nothing_is_not_everything(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", *argv]) == 2
    said = "lt2: error: --only: no value given (leave it out for all)\n"
    assert capsys.readouterr().err == said


def test_files_are_refused_before_the_work(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "--json", "/nowhere/at/all.json"]) == 2
    assert "--json" in capsys.readouterr().err
    assert main(["verify", "--fast", "--page", "theory.md"]) == 2
    assert "--page: needs a full run" in capsys.readouterr().err


def test_several_workers_give_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    ids = {claim.id for claim in ledger()}
    assert "R1" in ids
    assert main(["verify", "--fast", "--only", "R1", "R2", "--workers", "2"]) == 0
