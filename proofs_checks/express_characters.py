"""E10: the fewest factors for S_n over all faithful representations."""

import itertools
import random
from collections.abc import Sequence
from typing import Literal

from flint import fmpq, fmpq_mat

from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import column, identity, matrix, product
from proofs_checks.express_permutations import cycles_of, of_type, partitions, permutation_matrix
from proofs_checks.express_reflections import moved, reflect, scherk_keys
from proofs_checks.symmetric_characters import Tokens, fewest_factors, orthonormal

Start = Literal["powers", "line"]


@claim(
    "E10",
    "S_n needs 2 floor((n-1)/2), from characters",
    statement=(
        "Over the real representations of S_n the least T = max_g rank(I - rho(g)), g over the "
        "tokens, is 2 floor((n-1)/2): for even n one less than permutation matrices need."
    ),
    scope="n = 3..12, every set of irreducible representations (all of S_n's are real)",
    source="derivation; Murnaghan-Nakayama rule",
    evidence="exact",
    hypotheses={
        "n >= 3": {"n = 2": {"smallest": 2}},
        "rho faithful": {"without faithfulness": {"faithful": False}},
        "every element is a token": {
            "transpositions as the only tokens": {"tokens": "transpositions"}
        },
    },
    mutants={
        "n - 1, as permutation matrices need": {"formula": "permutations"},
        "the permutation representation only": {"standard_only": True},
    },
)
def symmetric_groups(
    *,
    fast: bool,
    formula: Literal["characters", "permutations"] = "characters",
    smallest: int = 3,
    faithful: bool = True,
    standard_only: bool = False,
    tokens: Tokens = "all",
) -> Finding:
    """First the characters themselves: rows orthonormal, degrees squared summing to n!."""
    most = 7 if fast else 12
    for size in range(smallest, most + 1):
        shapes = list(partitions(size))
        if not orthonormal(shapes):
            return Finding(False, counterexample=f"S_{size}: characters are not orthonormal")
        offered = [(size - 1, 1)] if standard_only else shapes
        least = fewest_factors(size, offered, faithful=faithful, tokens=tokens)
        wanted = size - 1 if formula == "permutations" else 2 * ((size - 1) // 2)
        if least != wanted:
            return Finding(False, counterexample=f"S_{size}: {least}, not {wanted}")
    scope = "n = 3..7, every set of irreducible representations" if fast else None
    return Finding(True, scope=scope)


@claim(
    "E10",
    "the representation written out",
    statement=(
        "For even n, rho(sigma) = sign(sigma) P (I - J/n) + J/n (J all ones) is an orthogonal "
        "rational representation on d_k = n channels; each rho(sigma) is a product of at most "
        "n - 2 reflections with rational keys. For odd n the permutation matrices have n - 1. "
        "Different sigma take the start to different states: so S_6 is solved exactly with T = 4."
    ),
    scope="n = 3..8, all cycle types; products on 100 pairs each; the orbit for n <= 6",
    source="derivation; E1 for the keys",
    evidence="exact",
    hypotheses={
        "n >= 3": {"n = 2": {"smallest": 2}},
        "a start with a full orbit": {"start (1..n)": {"start": "line"}},
    },
    where="such as (1, 2, 4, 8, 16, 32); from (1..6) an odd sigma may coincide with an even one",
    mutants={
        "without the sign": {"signed": False},
        "the sign on all n channels": {"whole": True},
    },
)
def written_out(
    *,
    fast: bool,
    smallest: int = 3,
    signed: bool = True,
    start: Start = "powers",
    whole: bool = False,
) -> Finding:
    """Scherk's construction for one element of each cycle type; conjugates need as many."""
    rng = random.Random(10)
    for size in (smallest, 4, 6) if fast else range(smallest, 9):
        most = 2 * ((size - 1) // 2)
        for cycles in partitions(size):
            operator = _signed(of_type(cycles), signed, whole)
            keys = scherk_keys(operator)
            built = product([identity(size), *(reflect(key) for key in keys)])
            if built != operator or len(keys) > most or len(keys) != moved(operator):
                return Finding(False, counterexample=f"n = {size}, cycle type {cycles}")
        for _ in range(10 if fast else 100):
            g, h = (rng.sample(range(size), size) for _ in range(2))
            both = _signed([h[i] for i in g], signed, whole)
            if both != _signed(h, signed, whole) * _signed(g, signed, whole):
                return Finding(False, counterexample=f"n = {size}: not a representation")
        if size <= 6 and not _full_orbit(size, start, signed, whole):
            return Finding(False, counterexample=f"n = {size}: two elements share a state")
    return Finding(True, scope="n = 3, 4, 6, all cycle types" if fast else None)


def _signed(images: Sequence[int], signed: bool, whole: bool) -> fmpq_mat:
    size = len(images)
    operator = permutation_matrix(images)
    if size % 2 or not signed:
        return operator
    sign = (-1) ** (size - len(cycles_of(images)))
    if whole:
        return operator * fmpq(sign)
    mean = matrix([[(1, size)] * size for _ in range(size)])
    return operator * (identity(size) - mean) * fmpq(sign) + mean


def _full_orbit(size: int, start: Start, signed: bool, whole: bool) -> bool:
    first = column([2**i if start == "powers" else i + 1 for i in range(size)])
    every = list(itertools.permutations(range(size)))
    return len({str((_signed(g, signed, whole) * first).entries()) for g in every}) == len(every)


CLAIMS: tuple[Claim, ...] = (symmetric_groups, written_out)
