"""W6: what selected attention reaches through its indices, and through compressed blocks."""

from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from lt2theory.analysis import reach_graph, selection_graph
from lt2theory.ops import IndexedInputs, native_sparse_attention, run_attention
from lt2theory.ops.sparse.dsa import indexed_problem
from lt2theory.ops.sparse.dsa_reference import selected_keys
from proofs_checks.claim import Claim, Finding, claim

Zeroed = Literal["none", "keys", "values"]


@claim(
    "W6",
    "the indices depend on the whole prefix",
    statement=(
        "Through the selected indices the output depends on every token of the prefix already at "
        "T = 1, although the Jacobian is exactly zero outside the selection graph."
    ),
    scope=(
        "lt2theory.ops.indexed_attention (DSA) with a residual, two keys a query, random weights, "
        "L = 12, one and two applications: the Jacobian, and a finite change of every token "
        "outside its support"
    ),
    source="derivation",
    evidence="float64",
    hypotheses={
        "indices chosen by score": {"indices chosen by position": {"by_score": False}},
        "fewer selected than there are": {"all selected": {"budget": 12}},
        "generic weights": {
            "keys of weight zero": {"zeroed": "keys"},
            "values of weight zero": {"zeroed": "values"},
        },
        "no underflow": {"scores so large that the softmax underflows": {"gain": 1e6}},
    },
)
def indices_see_the_prefix(
    *,
    fast: bool,
    by_score: bool = True,
    budget: int = 2,
    zeroed: Zeroed = "none",
    gain: float = 1.0,
) -> Finding:
    """Autograd for the Jacobian; each token outside it is then moved until the output jumps."""
    for applications in (2,) if fast else (1, 2):
        x = _normal(0, 12, 4).requires_grad_()
        out, layers = _select(x, applications, budget, by_score, zeroed, gain)
        graph = reach_graph(layers)
        support = _support(out[-1], x)
        if not np.array_equal(support, graph[-1]):
            return Finding(False, counterexample=f"support {support.astype(int).tolist()}")
        outside = np.flatnonzero(~support)
        if not len(outside):
            return Finding(False, counterexample="nothing is outside")
        for token in outside:
            moved = x.detach().repeat(40, 1, 1)
            moved[:, token] = 10 * _normal(1, 40, 4)
            outputs = [
                _select(row, applications, budget, by_score, zeroed, gain)[0][-1] for row in moved
            ]
            if all(torch.allclose(o, out[-1].detach(), rtol=0, atol=1e-9) for o in outputs):
                return Finding(False, counterexample=f"token {token + 1} never matters")
    return Finding(True, scope="DSA of two keys, L = 12, two applications" if fast else None)


@claim(
    "W6",
    "a compressed branch reads every past block",
    statement="NSA's compressed branch alone is unbounded at T = 1: it reads every past block.",
    scope="lt2theory.ops.native_sparse_attention, blocks of 4 tokens, L = 16, 22 and 64",
    source="NSA, arXiv 2502.11089, section 3.3; derivation",
    evidence="float64",
    expected="holds_with_conditions",
    hypotheses={
        "blocks that are complete": {"incomplete blocks too": {"whole": False}},
        "all of them are attended": {"the last two blocks": {"blocks": 2}},
        "generic weights": {"values of weight zero": {"values": 0.0}},
        "no underflow": {"scores so large that the softmax underflows": {"gain": 1e6}},
    },
)
def compressed_branch(
    *,
    fast: bool,
    blocks: int | None = None,
    whole: bool = True,
    values: float = 1.0,
    gain: float = 1.0,
) -> Finding:
    """The derivative of the last token's output by every token's key and value input."""
    smallest = float("inf")
    for length in (16, 22, 64):
        x = _normal(2, length, 4).requires_grad_()
        complete = length // 4
        given = x[4 * (complete - (blocks or complete)) :]
        k, v = given @ _normal(3, 4, 4), given @ _normal(5, 4, 4) * values
        query, only_compressed = gain * _normal(4, 1, 1, 1, 4), torch.tensor([[[[1.0, 0.0, 0.0]]]])
        out = native_sparse_attention(
            query,
            k[None, :, None],
            v[None, :, None],
            only_compressed.double(),
            block_size=4,
            num_blocks=1,
            window=1,
            scale=1.0,
            backend="reference",
        ).flatten()
        expected = np.arange(length) < (4 * complete if whole else length)
        support = _support(out, x)
        if not np.array_equal(support, expected):
            return Finding(False, counterexample=f"L {length}: {int(support.sum())} tokens")
        (gradient,) = torch.autograd.grad(out.sum(), x)
        smallest = min(smallest, float(gradient[: 4 * complete].abs().amax(-1).min()))
    return Finding(True, smallest)


def _normal(seed: int, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def _select(
    x: Tensor, applications: int, budget: int, by_score: bool, zeroed: Zeroed, gain: float
) -> tuple[Tensor, list[Bool[np.ndarray, "t t"]]]:
    """DeepSeek sparse attention with a residual, and the graph of what each application selected.

    One head of attention and two of an indexer, all from random projections of x.
    """
    graphs = []
    length, width = x.shape
    position = torch.arange(1, length + 1, dtype=torch.float64)[:, None]
    for application in range(applications):
        drawn = [_normal(10 + 7 * application + i, width, width) / 2 for i in range(6)]
        q, k, v, *index_q = (x @ matrix for matrix in drawn[:5])
        k, v, index_k = k * (zeroed != "keys"), v * (zeroed != "values"), x @ drawn[5]
        index_k = index_k * (zeroed != "keys") if by_score else position.expand(length, width)
        asking = torch.stack(index_q, 1) if by_score else torch.ones(length, 2, width).double()
        inputs = IndexedInputs(
            gain * q[None, :, None],
            k[None, :, None],
            v[None, :, None],
            scale=1.0,
            index_q=asking[None],
            index_k=index_k[None],
            index_weight=torch.ones(1, length, 2, dtype=torch.float64),
            top_k=budget,
        )
        chosen = selected_keys(indexed_problem(inputs))[0]
        columns = torch.where(chosen, torch.arange(length), -1)
        graphs.append(selection_graph(columns.numpy()))
        x = x + run_attention(inputs)[0, :, 0]
    return x, graphs


def _support(output: Tensor, x: Tensor) -> Bool[np.ndarray, "t"]:
    """Tokens with a non-zero derivative of any coordinate of the output."""
    touched = torch.zeros(x.shape[0], dtype=torch.bool)
    for coordinate in output:
        (gradient,) = torch.autograd.grad(coordinate, x, retain_graph=True)
        touched |= (gradient != 0).any(-1)
    return touched.numpy()


CLAIMS: tuple[Claim, ...] = (indices_see_the_prefix, compressed_branch)
