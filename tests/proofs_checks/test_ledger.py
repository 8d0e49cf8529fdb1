"""Every claim holds as the ledger expects, and every wrong variant of it is rejected."""

import re

import pytest

from proofs_checks.claim import Claim
from proofs_checks.ledger import ledger

CLAIMS = ledger()
MUTANTS = [(claim, name) for claim in CLAIMS for name in claim.mutants]


def _name(value: object) -> str:
    text = f"{value.id} {value.title}" if isinstance(value, Claim) else str(value)
    return re.sub(r"\W+", "-", text)


@pytest.mark.parametrize("claim", CLAIMS, ids=_name)
def test_claim_comes_out_as_expected(claim: Claim) -> None:
    record = claim.run(fast=True)
    assert record.verdict == claim.expected, record.counterexample
    if claim.expected == "refuted_as_stated":
        assert record.counterexample


@pytest.mark.parametrize(("claim", "mutant"), MUTANTS, ids=_name)
def test_wrong_variant_is_rejected(claim: Claim, mutant: str) -> None:
    assert not claim.run_mutant(mutant).passed


def test_claims_are_named_once() -> None:
    names = [(claim.id, claim.title) for claim in CLAIMS]
    assert len(set(names)) == len(names)
