"""E8: few letters that reach all of S_n, and what they cost."""

from collections.abc import Sequence

from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.express_permutations import partitions
from proofs_checks.symmetric_characters import Few, fewest_factors

EXOTIC = 6
"""n where S_n has an outer automorphism: a 6-cycle becomes (1 2 3)(4 5), a swap three swaps."""


@claim(
    "E8",
    "generators as tokens: a swap and the longest cycle cost what all elements do",
    statement=(
        "Fed (1 2) and (1 2 .. n) alone, which generate S_n, the least T over the real "
        "representations is the same 2 floor((n-1)/2) that all elements need (E10): two for S_3 "
        "and S_4, four for S_5. S_6 needs three, not four: its outer automorphism turns the "
        "6-cycle into (1 2 3)(4 5)."
    ),
    scope="n = 3..12, every set of irreducible representations (all of S_n's are real)",
    source="derivation; Murnaghan-Nakayama rule",
    evidence="exact",
    hypotheses={
        "n >= 3": {"n = 2": {"sizes": (2,)}},
        "n is not 6": {"n = 6": {"fewer": ()}},
        "rho faithful": {"without faithfulness": {"faithful": False}},
        "the longest cycle is a token": {
            "transpositions as the only tokens": {"tokens": "transpositions"}
        },
    },
    mutants={"the permutation representation only": {"standard_only": True}},
)
def few_letters(
    *,
    fast: bool,
    sizes: Sequence[int] = (),
    fewer: Sequence[int] = (EXOTIC,),
    faithful: bool = True,
    standard_only: bool = False,
    tokens: Few = "generators",
) -> Finding:
    """The same minimum over two classes and over all."""
    for size in sizes or range(3, 8 if fast else 13):
        shapes = [(size - 1, 1)] if standard_only else list(partitions(size))
        few, every = (
            fewest_factors(size, shapes, faithful=faithful, tokens=heard)
            for heard in (tokens, "all")
        )
        wanted = 2 * ((size - 1) // 2)
        if (few, every) != (wanted - (size in fewer), wanted):
            return Finding(False, counterexample=f"S_{size}: {few} by few letters, {every} by all")
    return Finding(True, scope="n = 3..7, every set of them" if fast else None)


CLAIMS: tuple[Claim, ...] = (few_letters,)
