"""docs/theory.md is what the ledger says."""

from pathlib import Path

import pytest

from lt2theory.report import ledger_page
from proofs_checks.ledger import ledger
from proofs_checks.runner import run

PAGE = Path(__file__).parents[2] / "docs" / "theory.md"

IDS = [
    *(f"R{n}" for n in range(1, 15)),
    *(f"E{n}" for n in range(1, 11)),
    *(f"L{n}" for n in range(1, 8)),
    *(f"W{n}" for n in range(1, 8)),
    *("S1", "S2", "S3", "C1", "C2", "C3"),
    *(f"M{n}" for n in range(1, 7)),
    *("G1", "G2", "H1", "H2"),
]


def test_every_id_is_there() -> None:
    assert {claim.id for claim in ledger()} == set(IDS)


def test_every_claim_is_on_the_page() -> None:
    page = PAGE.read_text()
    for claim in ledger():
        assert f"**{claim.id} {claim.title}**" in page
        assert f"Check: `{claim.code}`." in page


@pytest.mark.slow
def test_the_page_is_what_a_full_run_gives() -> None:
    claims = ledger()
    records = [outcome.record.to_json() for outcome in run(claims, workers=2)]
    assert PAGE.read_text() == ledger_page(records, [claim.code for claim in claims])
