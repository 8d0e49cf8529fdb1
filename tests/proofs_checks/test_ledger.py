"""Every claim holds as the ledger expects, and every wrong variant of it is rejected."""

import inspect
import re
from dataclasses import replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from proofs_checks.claim import Claim
from proofs_checks.ledger import ledger

CLAIMS = ledger()
VARIANTS = [(claim, name) for claim in CLAIMS for name in claim.variants]
NOT_VARIED = {"fast", "seed"}
"""Keywords of checks that change what is covered, not what is claimed."""


def _name(value: object) -> str:
    text = f"{value.id} {value.title}" if isinstance(value, Claim) else str(value)
    return re.sub(r"\W+", "-", text)


@pytest.mark.parametrize("claim", CLAIMS, ids=_name)
def test_claim_comes_out_as_expected(claim: Claim) -> None:
    record = claim.run(fast=True)
    assert record.verdict == claim.expected, record.counterexample
    if claim.expected == "refuted_as_stated":
        assert record.counterexample


@pytest.mark.parametrize(("claim", "variant"), VARIANTS, ids=_name)
def test_wrong_variant_is_rejected(claim: Claim, variant: str) -> None:
    assert not claim.run_mutant(variant).passed


@pytest.mark.parametrize("claim", CLAIMS, ids=_name)
def test_every_keyword_of_a_check_has_its_variants(claim: Claim) -> None:
    assert not _left_over(claim)


@pytest.mark.parametrize("claim", CLAIMS, ids=_name)
def test_a_hypothesis_cannot_be_deleted_unnoticed(claim: Claim) -> None:
    """Without it in the ledger, the keyword that dropped it is left over."""
    for hypothesis in claim.hypotheses:
        kept = {name: some for name, some in claim.hypotheses.items() if name != hypothesis}
        assert _left_over(replace(claim, hypotheses=kept)), hypothesis


def _left_over(claim: Claim) -> list[str]:
    """Keywords of a check, or listed values of one, that no variant sets."""
    found = []
    for keyword, wanted in _other_values(claim).items():
        given = {repr(kw[keyword]) for kw in claim.variants.values() if keyword in kw}
        missing = {repr(value) for value in wanted} - given
        found += [keyword] if not given else [f"{keyword}={value}" for value in sorted(missing)]
    return found


def _other_values(claim: Claim) -> dict[str, tuple[Any, ...]]:
    """Keywords of a check, each with the values besides its default, where they are listed."""
    hints = get_type_hints(claim.check)
    found: dict[str, tuple[Any, ...]] = {}
    for name, parameter in inspect.signature(claim.check).parameters.items():
        if name in NOT_VARIED:
            continue
        listed = get_args(hints[name]) if get_origin(hints[name]) is Literal else ()
        every = (True, False) if hints[name] is bool else listed
        found[name] = tuple(value for value in every if value != parameter.default)
    return found


def test_every_condition_is_a_hypothesis_with_a_variant_that_drops_it() -> None:
    for claim in CLAIMS:
        assert all(claim.hypotheses.values()), claim.title
        if claim.expected != "refuted_as_stated":
            stated = claim.conditions
            for hypothesis in claim.hypotheses:
                assert stated.startswith(hypothesis), (claim.id, claim.title)
                stated = stated.removeprefix(hypothesis).removeprefix("; ")
            rest = stated if claim.hypotheses else stated.removeprefix("none")
            assert not rest or rest.startswith(" ("), claim.title


def test_claims_are_named_once() -> None:
    names = [(claim.id, claim.title) for claim in CLAIMS]
    assert len(set(names)) == len(names)
