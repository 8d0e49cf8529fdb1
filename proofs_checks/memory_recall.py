"""M2 and M3: what the delta rule reads back."""

import itertools
from typing import Literal

import torch
from flint import fmpq_mat
from sympy import (
    Expr,
    Integer,
    Rational,
    Symbol,
    expand,
    solve,
    symbols,
)

from lt2theory.ops import linear_recurrence
from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import column, diagonal, factor, identity, matrix, rational

Fraction = int | tuple[int, int]


@claim(
    "M2",
    "the delta rule keeps orthonormal pairs",
    statement=(
        "The delta rule recalls n <= d_k orthonormal pairs exactly: S_n^T k_j = v_j for every "
        "j <= n."
    ),
    scope="all",
    source="derivation",
    evidence="symbolic",
    hypotheses={
        "keys orthogonal": {"keys not orthogonal": {"overlap": 1}},
        "of length one": {"keys of squared length 2": {"squared_length": 2}},
        "beta = 1": {"beta = 1/2": {"beta": Rational(1, 2)}},
        "no decay": {"a decay": {"decay": Rational(1, 2)}},
    },
    where="any S_0",
)
def orthonormal_pairs(
    *,
    fast: bool,
    overlap: int = 0,
    squared_length: int = 1,
    beta: Expr = Integer(1),  # noqa: B008 - a number
    decay: Expr = Integer(1),  # noqa: B008 - a number
) -> Finding:
    """One step on letters that do not commute: it stores its pair and leaves an earlier read alone.

    Read with an earlier key j: `j^T S' = j^T S`; with its own: `k^T S' = v^T`. By induction on n
    every pair stays as it was stored.
    """
    S, k, kt, jt, vt = (Symbol(name, commutative=False) for name in ("S", "k", "kt", "jt", "vt"))
    step = decay * S - beta * decay * k * kt * S + beta * k * vt

    def read(with_key: Symbol) -> Expr:
        return expand(with_key * step).subs({jt * k: overlap, kt * k: squared_length})

    return Finding(bool(expand(read(jt) - jt * S) == 0 and expand(read(kt) - vt) == 0))


@claim(
    "M2",
    "the op keeps orthonormal pairs, and no more than d_k",
    statement="The op recalls n <= d_k orthonormal pairs exactly, from any state, and not d_k + 1.",
    scope=(
        "Hadamard keys of d_k = 4 and 16 and whole-numbered states and values, where float64 "
        "rounds nothing; every n <= d_k, and any unit key on top"
    ),
    source="lt2theory.ops.linear_recurrence",
    evidence="exact",
    hypotheses={
        "keys orthogonal": {"another unit key first": {"orthogonal": False}},
        "of length one": {"keys of length 2": {"size": 2.0}},
        "n <= d_k": {"one pair too many": {"more": 1}},
        "beta = 1": {"beta = 1/2": {"beta": 0.5}},
        "no decay": {"a decay": {"log_decay": -1.0}},
    },
    where="from any state",
)
def op_recalls(
    *,
    fast: bool,
    orthogonal: bool = True,
    size: float = 1.0,
    more: int = 0,
    beta: float = 1.0,
    log_decay: float | None = None,
) -> Finding:
    """Keys H / sqrt(d) are dyadic; one more key than d_k depends on the others."""
    for width in (4, 16):
        hadamard = torch.ones(1, 1, dtype=torch.float64)
        while len(hadamard) < width:
            hadamard = torch.kron(torch.tensor([[1.0, 1.0], [1.0, -1.0]]).double(), hadamard)
        each, another = hadamard / width**0.5, torch.eye(width).double()[:1]
        ordered = [each, another] if orthogonal else [another, each]
        keys = size * torch.cat(ordered)[None, :, None]
        values = torch.arange((width + 1) * 3).double().remainder(7).view(1, -1, 1, 3) - 3
        state = torch.arange(width * 3).double().remainder(5).view(1, 1, width, 3) - 2
        for count in range(1, width + 2):
            ones = torch.ones(1, count, 1, dtype=torch.float64)
            k, v = keys[:, :count], values[:, :count]
            _, after = linear_recurrence(
                k,
                k,
                v,
                beta=beta * ones,
                log_decay=None if log_decay is None else log_decay * ones,
                initial_state=state,
                backend="reference",
                return_state=True,
            )
            recalled = torch.equal(torch.einsum("bhkv,bthk->bthv", after, k), v)
            if recalled != (count <= width + more):
                return Finding(False, counterexample=f"d_k = {width}, {count} pairs")
    return Finding(True)


@claim(
    "M3",
    "the newest pair is read back",
    statement="S_t^T k_t = v_t for every previous state and value if and only if beta |k_t|^2 = 1.",
    scope="all",
    source="derivation",
    evidence="symbolic",
    expected="holds_with_conditions",
    hypotheses={
        "the write strength is beta": {"a write strength of its own": {"write": 1}},
        "a gate that is not scalar acts before the erasure": {
            "erase first with a diagonal gate": {"order": "erase_first"}
        },
    },
    mutants={"beta |k|^2 = 2": {"product": 2}},
)
def newest_pair(
    *, fast: bool, write: int | None = None, order: str = "decay_first", product: int = 1
) -> Finding:
    """`k^T S_t = (1 - beta |k|^2) k^T D S + w |k|^2 v^T`, in letters; a scalar gate commutes."""
    S, D, k, kt, vt = (Symbol(name, commutative=False) for name in ("S", "D", "k", "kt", "vt"))
    b, n, a = symbols("b n a", positive=True)
    erase = 1 - b * k * kt
    factors = {"gate": erase * D if order == "decay_first" else D * erase, "scalar": a * erase}
    for gated in factors.values():
        step = gated * S + (b if write is None else write) * k * vt
        read = expand(kt * step).subs(kt * k, n)
        seen = kt * D * S if gated is factors["gate"] else a * kt * S
        if write is None and expand(read - ((1 - b * n) * seen + b * n * vt)) != 0:
            return Finding(False)
        if expand(expand(read).subs(b, product / n) - vt) != 0:
            return Finding(False)
    # Both coefficients are those of v alone only at b n = 1.
    return Finding(solve([1 - b * n, b * n - 1], b, dict=True) == [{b: 1 / n}])


_GATES: tuple[Fraction, Fraction] = ((1, 2), 1)


@claim(
    "M3",
    "erase first with a diagonal gate",
    statement="S_t^T k_t = v_t whenever beta |k_t|^2 = 1, whatever the gate and the factor order.",
    correction=(
        "erase first needs the gate to be constant on the support of k_t (k_t^T D = c k_t^T); "
        "decay first needs nothing"
    ),
    scope=(
        "every k in {-2..2}^d not 0, D with entries 1/2 and 1, d <= 2 (3 in full): broken exactly "
        "where D is not constant on the support; the stated example by the op too"
    ),
    source="derivation; LT2's Eq. 4 is erase first",
    evidence="exact",
    expected="refuted_as_stated",
    hypotheses={
        "decay first": {"decay first": {"order": "decay_first"}},
        "a gate that is constant on the support of k_t": {
            "a scalar gate": {"gate": ((1, 2), (1, 2))}
        },
    },
    mutants={
        "said to break for every diagonal gate that is not scalar": {"on_support": False},
    },
)
def gate_after_erasure(
    *,
    fast: bool,
    order: Literal["decay_first", "erase_first"] = "erase_first",
    gate: tuple[Fraction, Fraction] = _GATES,
    on_support: bool = True,
) -> Finding:
    """The search over small keys and gates finds nothing at d = 1; then the example, and the op."""
    for size in range(1, 3 if fast else 4):
        gates = list(itertools.product(_GATES, repeat=size))
        for entries in itertools.product(range(-2, 3), repeat=size):
            if not any(entries):
                continue
            key = column(entries)
            beta = 1 / (key.transpose() * key)[0, 0]
            for each in gates:
                A = factor(key, beta, diagonal(each), order=order)
                # k^T A = 0: the newest read does not see the previous state.
                broken = key.transpose() * A != fmpq_mat(1, size)
                seen = [d for d, x in zip(each, entries, strict=True) if x or not on_support]
                if broken != (len(set(seen)) > 1):
                    return Finding(False)
    key, value = column(((3, 5), (4, 5))), matrix([[1, 1]])
    state = factor(key, 1, diagonal(gate), order=order) * identity(2) + key * value
    read = key.transpose() * state
    k = torch.tensor([0.6, 0.8], dtype=torch.float64)[None, None, None]
    decays = torch.tensor([float(rational(x)) for x in gate], dtype=torch.float64)
    by_op = linear_recurrence(
        k,
        k,
        torch.ones(1, 1, 1, 2).double(),
        log_decay=decays.log()[None, None, None],
        beta=torch.ones(1, 1, 1).double(),
        scale=1.0,
        initial_state=torch.eye(2).double()[None, None],
        order=order,
        backend="reference",
    )
    told = torch.tensor([float(read[0, j]) for j in (0, 1)], dtype=torch.float64)
    agree = torch.allclose(by_op.flatten(), told, rtol=0, atol=1e-12)
    said = (
        f"k = (3/5, 4/5), beta = 1, D = diag(1/2, 1), S = I, v = (1, 1): k^T D = (3/10, 4/5), "
        f"k^T D k = 41/50, so S'^T k = (3/10, 4/5) - 41/50 (3/5, 4/5) + (1, 1) = "
        f"({read[0, 0]}, {read[0, 1]}), not (1, 1); at d = 1 there is none"
    )
    right = read == matrix([[(101, 125), (143, 125)]])
    return Finding(bool(right and agree), counterexample=said)


CLAIMS: tuple[Claim, ...] = (orthonormal_pairs, op_recalls, newest_pair, gate_after_erasure)
