"""E7: what diagonal transitions cannot tell apart."""

from collections.abc import Sequence

import torch
from sympy import Matrix, Symbol, diag, expand, eye, symbols

from lt2theory.ops import linear_recurrence
from proofs_checks.claim import Claim, Finding, claim
from tasks.groups import group

NON_ABELIAN = ("S3", "D4", "A4", "S4", "A5", "S5")


@claim(
    "E7",
    "diagonal transitions see the multiset only",
    statement=(
        "If the diagonal factors of a token depend on that token alone, their product over a word "
        "depends only on the multiset of its tokens, for any number of loops."
    ),
    scope="all",
    source="derivation: exchange of two neighbours, which sort any word",
    evidence="symbolic",
    hypotheses={
        "diagonal factors": {"factors with an erasure": {"erases": True}},
        "each depends on the current token only": {
            "a factor reads the token before": {"looks_back": True}
        },
    },
)
def multiset_only(*, fast: bool, erases: bool = False, looks_back: bool = False) -> Finding:
    """Two neighbours a, b inside a word, two loops each, in two channels; the rest cancels.

    Any two words of one multiset differ by exchanges of neighbours. A diagonal matrix acts channel
    by channel, so more channels or loops add letters that commute just as well.
    """

    def token(name: str, previous: str) -> Matrix:
        total = eye(2)
        for loop in (1, 2):
            seen = f"{name}{loop}" + (previous if looks_back else "")
            decay = diag(*symbols(f"{seen}x {seen}y"))
            key, beta = Matrix(symbols(f"{name}{loop}u {name}{loop}v")), Symbol(f"{name}{loop}b")
            total = (eye(2) - (beta if erases else 0) * key * key.T) * decay * total
        return total

    ab = token("b", "a") * token("a", "p")
    ba = token("a", "b") * token("b", "p")
    return Finding(bool((ab - ba).applyfunc(expand).is_zero_matrix))


@claim(
    "E7",
    "no non-abelian word problem without writes",
    statement=(
        "From a given state the op leaves gh and hg in the same state, though their labels differ "
        "for some g and h."
    ),
    scope=(
        "every pair of elements of S_3, D_4, A_4, S_4, A_5, S_5; T = 3, d_k = 4, random "
        "decays, 1e-12 relative"
    ),
    source="derivation",
    evidence="float64",
    hypotheses={
        "diagonal factors": {"factors with an erasure": {"beta": 1.0}},
        "each depends on the current token only": {
            "a gate reads the token before": {"looks_back": True}
        },
        "v = 0": {"values are written": {"value": 1.0}},
        "a group that is not abelian": {"an abelian group": {"groups": ("Z6",)}},
    },
)
def no_word_problem(
    *,
    fast: bool,
    beta: float = 0.0,
    value: float = 0.0,
    looks_back: bool = False,
    groups: Sequence[str] = NON_ABELIAN,
) -> Finding:
    """Run both words through linear_recurrence and look for labels that differ."""
    for name in groups[:3] if fast else groups:
        table = torch.from_numpy(group(name).cayley.astype("int64"))
        size = len(table)
        g, h = torch.triu_indices(size, size, 1)
        different = bool((table[g, h] != table[h, g]).any())
        states = [
            _diagonal_run(torch.stack(word, 1), size, beta, value, looks_back)
            for word in ((g, h), (h, g))
        ]
        same = torch.allclose(states[0], states[1], rtol=1e-12, atol=0.0)
        if not different or not same:
            return Finding(False, counterexample=f"{name}: states or labels do not behave")
    return Finding(True, scope="S_3, D_4, A_4; T = 3, d_k = 4" if fast else None)


def _diagonal_run(
    words: torch.Tensor, size: int, beta: float, value: float, looks_back: bool
) -> torch.Tensor:
    generator = torch.Generator().manual_seed(7)
    loops, width = 3, 4
    rates = torch.rand(size, loops, width, generator=generator, dtype=torch.float64)
    keys = torch.randn(size, loops, width, generator=generator, dtype=torch.float64)
    chosen = rates[words]
    if looks_back:
        chosen[:, 1:] += words[:, :-1, None, None]
    k = keys[words][:, :, :, None]
    ones = k.new_ones(*k.shape[:-1])
    _, state = linear_recurrence(
        k[:, :, 0],
        k,
        k.new_full((*k.shape[:-1], 1), value),
        log_decay=-chosen[:, :, :, None],
        beta=beta * ones,
        write=float(value != 0) * ones,
        initial_state=k.new_ones(len(words), 1, width, 1),
        return_state=True,
        backend="reference",
    )
    return state


CLAIMS: tuple[Claim, ...] = (multiset_only, no_word_problem)
