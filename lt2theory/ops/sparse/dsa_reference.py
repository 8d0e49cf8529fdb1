"""DeepSeek sparse attention through dense masks: the definition that backends are tested against.

Source: DeepSeek-V3.2-Exp's technical report (2025), equations 1 to 4; arXiv 2512.02556, section 2.
Axes: b batch, t queries, m keys, h query heads, g key heads, k key width, v value width, n heads
and i width of the indexer.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from lt2theory.ops.attention_reference import AttentionProblem, repeat_key_heads, visible_keys
from lt2theory.ops.reference import state_dtype

IndexerLoss = Literal["dense", "sparse"]
"""Keys over which the indexer is compared with the attention: all visible, or the selected."""


@dataclass(frozen=True)
class IndexedProblem(AttentionProblem):
    """Everything that one attention over an indexer's choice is computed from.

    Attributes:
        index_q: Queries of the indexer's heads `[b t n i]`.
        index_k: Its keys, shared by its heads `[b m i]`.
        index_weight: Weights of its heads `[b t n]`, of any sign.
        top_k: Keys that a query attends to, or all visible ones where they are fewer.
    """

    index_q: Float[Tensor, "b t n i"] = field(kw_only=True)
    index_k: Float[Tensor, "b m i"] = field(kw_only=True)
    index_weight: Float[Tensor, "b t n"] = field(kw_only=True)
    top_k: int = field(kw_only=True)

    def plain(self) -> AttentionProblem:
        """The same attention without an indexer.

        Returns:
            Attention to every visible key.
        """
        return AttentionProblem(
            self.q,
            self.k,
            self.v,
            self.window,
            self.scale,
            self.query_segments,
            self.key_segments,
        )

    def queries(self, start: int, stop: int) -> "IndexedProblem":
        """The part of a few queries, with the keys up to the last of them.

        Args:
            start: First query.
            stop: Query after the last.

        Returns:
            The attention of these queries; nothing in it depends on the others.
        """
        keys = self.k.shape[1] - self.q.shape[1] + stop
        asking, asked = self.query_segments, self.key_segments
        return replace(
            self,
            q=self.q[:, start:stop],
            k=self.k[:, :keys],
            v=self.v[:, :keys],
            index_q=self.index_q[:, start:stop],
            index_k=self.index_k[:, :keys],
            index_weight=self.index_weight[:, start:stop],
            query_segments=None if asking is None else asking[:, start:stop],
            key_segments=None if asked is None else asked[:, :keys],
        )


IndexedAttention = Callable[[IndexedProblem], Tensor]
"""A DeepSeek sparse attention to its outputs."""


def index_scores(
    index_q: Float[Tensor, "b t n i"],
    index_k: Float[Tensor, "b m i"],
    index_weight: Float[Tensor, "b t n"],
) -> Float[Tensor, "b t m"]:
    """`I_ts = sum_n w_tn relu(q_tn . k_s)` (equation 1).

    Args:
        index_q: Queries of the indexer's heads.
        index_k: Its keys.
        index_weight: Weights of its heads.

    Returns:
        A score for every query and key, later keys included, in at least float32.
    """
    dtype = state_dtype(index_q.dtype)
    q, k, weight = (x.to(dtype) for x in (index_q, index_k, index_weight))
    similar = torch.einsum("btni,bmi->btnm", q, k).relu()
    # Adding 0 turns -0 into 0, so that sorting on any device sees a tie between them.
    return torch.einsum("btn,btnm->btm", weight, similar) + 0.0


def selected_keys(problem: IndexedProblem) -> Bool[Tensor, "b t m"]:
    """Which keys every query attends to: the `top_k` visible ones that score highest.

    Args:
        problem: The attention.

    Returns:
        True for the selected keys; of equal scores the earlier key goes first. All visible keys
        where they are at most `top_k`.
    """
    with torch.no_grad():
        visible = visible_keys(problem)
        scores = index_scores(problem.index_q, problem.index_k, problem.index_weight)
        scores = scores.masked_fill(~visible, -torch.inf)
        order = scores.argsort(dim=-1, descending=True, stable=True)
        rank = order.argsort(-1)
        return (rank < problem.top_k) & visible


def attention_over(
    problem: AttentionProblem, kept: Bool[Tensor, "#b t m"]
) -> Float[Tensor, "b h t m"]:
    """Attention probabilities over given keys, in at least float32.

    Args:
        problem: The attention; its window and segments are not looked at.
        kept: The keys of every query.

    Returns:
        Probabilities that sum to 1 over the kept keys; zero where there are none.
    """
    dtype = state_dtype(problem.q.dtype)
    k = repeat_key_heads(problem.k.to(dtype), problem.q.shape[2])
    scores = problem.scale * torch.einsum("bthk,bmhk->bhtm", problem.q.to(dtype), k)
    # The smallest number, not minus infinity: see reference_attention.
    scores = scores.masked_fill(~kept[:, None], torch.finfo(dtype).min)
    return scores.softmax(-1) * kept[:, None]


def reference_indexed_attention(problem: IndexedProblem) -> Float[Tensor, "b t h v"]:
    """Softmax attention over the selected keys; a query that sees no key gets exactly zero.

    The choice has no gradient, so none reaches the indexer. Half precision is computed in float32.

    Args:
        problem: The attention.

    Returns:
        The outputs, in the dtype of the queries.
    """
    weights = attention_over(problem, selected_keys(problem))
    v = repeat_key_heads(problem.v.to(weights.dtype), problem.q.shape[2])
    return torch.einsum("bhtm,bmhv->bthv", weights, v).to(problem.q.dtype)


def reference_indexer_loss(problem: IndexedProblem, kind: IndexerLoss) -> Float[Tensor, ""]:
    """`KL(p_t || softmax(I_t))` over the kept keys, averaged over the queries that see a key.

    `p_t` is the attention over the kept keys, averaged over the heads (the report sums them and
    normalises), and a constant: the loss has a gradient in the indexer alone (equations 3 and 4).

    Args:
        problem: The attention.
        kind: `dense` keeps all visible keys (the warm-up), `sparse` the selected ones.

    Returns:
        A scalar in nats, in at least float32.
    """
    visible = visible_keys(problem)
    kept = visible if kind == "dense" else selected_keys(problem)
    with torch.no_grad():
        target = attention_over(problem, kept).mean(1)
    scores = index_scores(problem.index_q, problem.index_k, problem.index_weight)
    return divergence(target, scores, kept).sum() / count_queries(problem)


def divergence(
    target: Float[Tensor, "b t m"],
    scores: Float[Tensor, "b t m"],
    kept: Bool[Tensor, "#b t m"],
) -> Float[Tensor, "b t"]:
    """`KL(target || softmax(scores))` over the kept keys.

    Args:
        target: Probabilities over the kept keys, or zeros for a query without any.
        scores: The indexer's scores.
        kept: The keys that are compared.

    Returns:
        The divergence of every query, in nats; 0 for one without keys.
    """
    log_q = scores.masked_fill(~kept, torch.finfo(scores.dtype).min).log_softmax(-1)
    return (torch.xlogy(target, target) - target * log_q).sum(-1)


def count_queries(problem: AttentionProblem) -> Tensor | int:
    """How many queries see a key, at least 1.

    Args:
        problem: The attention.

    Returns:
        All queries but those of padding.
    """
    if problem.query_segments is None:
        return max(problem.q.shape[0] * problem.q.shape[1], 1)
    return (problem.query_segments >= 0).sum().clamp(min=1)
