"""Checks of the kernels of windows and sparse attentions for training and prompts."""

import torch

from lt2theory.bench.doctor.kernels.check import Draw, KernelCheck, Problem, Tensors
from lt2theory.ops.attention_reference import AttentionProblem, reference_attention
from lt2theory.ops.attention_triton import triton_attention
from lt2theory.ops.sparse.dsa_reference import (
    IndexedProblem,
    reference_indexed_attention,
    selected_keys,
)
from lt2theory.ops.sparse.dsa_triton import listed_indexed_attention, masked_indexed_attention
from lt2theory.ops.sparse.index_launch import Indexer, selected_keys_lists
from lt2theory.ops.sparse.nsa_reference import BlockSparseProblem, reference_block_sparse
from lt2theory.ops.sparse.triton_backend import triton_block_sparse

_LENGTH, _HEADS, _GROUPS, _KEYS, _VALUES, _TAKEN = 67, 4, 2, 40, 24, 13


def _heads(draw: Draw) -> dict[str, torch.Tensor]:
    return {
        "q": draw.normal(1, _LENGTH, _HEADS, _KEYS),
        "k": draw.normal(1, _LENGTH, _GROUPS, _KEYS),
        "v": draw.normal(1, _LENGTH, _GROUPS, _VALUES),
    }


class _Indexed:
    """Problems of one indexer, whose scores are exact and tie: the choice can only be one."""

    def __init__(self, draw: Draw) -> None:
        self._index = {
            "index_q": draw.whole(1, _LENGTH, 3, 16),
            "index_k": draw.whole(1, _LENGTH, 16),
            "index_weight": draw.whole(1, _LENGTH, 3),
        }

    def __call__(self, x: Tensors) -> IndexedProblem:
        return IndexedProblem(
            x["q"], x["k"], x["v"], None, 0.2, None, None,
            **{name: each.to(x["q"]) for name, each in self._index.items()},
            top_k=_TAKEN,
        )  # fmt: skip


def _masked(draw: Draw) -> Problem:
    indexed = _Indexed(draw)
    return Problem(
        _heads(draw),
        lambda x: {"o": masked_indexed_attention(indexed(x))},
        lambda x: {"o": reference_indexed_attention(indexed(x))},
    )


def _listed(draw: Draw) -> Problem:
    indexed = _Indexed(draw)
    return Problem(
        _heads(draw),
        lambda x: {"o": listed_indexed_attention(indexed(x))},
        lambda x: {"o": reference_indexed_attention(indexed(x))},
    )


def _choice(draw: Draw) -> Problem:
    indexed = _Indexed(draw)

    def run(x: Tensors) -> Tensors:
        lists = selected_keys_lists(Indexer.of(indexed(x)))[:, :, 0].long()
        taken = x["q"].new_zeros(*lists.shape[:2], _LENGTH + 1, dtype=torch.float64)
        taken.scatter_(-1, torch.where(lists < 0, _LENGTH, lists), 1.0)
        return {"taken": taken[..., :_LENGTH]}

    return Problem(
        _heads(draw),
        run,
        lambda x: {"taken": selected_keys(indexed(x)).double()},
        differentiable=False,
    )


def _block_sparse(draw: Draw) -> Problem:
    """NSA with gates of its branches; a window and blocks of 8 tokens."""
    inputs = _heads(draw) | {"gates": draw.normal(1, _LENGTH, _HEADS, 3)}

    def problem(x: Tensors) -> BlockSparseProblem:
        return BlockSparseProblem(
            x["q"], x["k"], x["v"], 20, 0.2, None, None,
            gates=x["gates"], block_size=8, num_blocks=3,
        )  # fmt: skip

    return Problem(
        inputs,
        lambda x: {"o": triton_block_sparse(problem(x))},
        lambda x: {"o": reference_block_sparse(problem(x))},
    )


def _window(draw: Draw, segments: torch.Tensor | None = None) -> Problem:
    """Attention inside a window of 20 tokens."""

    def problem(x: Tensors) -> AttentionProblem:
        return AttentionProblem(x["q"], x["k"], x["v"], 20, 0.2, segments, segments)

    return Problem(
        _heads(draw),
        lambda x: {"o": triton_attention(problem(x))},
        lambda x: {"o": reference_attention(problem(x))},
    )


def _window_of_segments(draw: Draw) -> Problem:
    """Padding in front, and segments that come back inside a window."""
    index = torch.arange(_LENGTH)
    segments = torch.where(index < 5, -1, index // 9 % 2)
    return _window(draw, segments[None].to(draw.device))


_SPANS = ("sparse.triton_span", "sparse.triton_bounds", "triton_softmax", "triton_grid")
_NSA = tuple(f"sparse.triton_{name}" for name in ("block", "choice", "gates", "lists"))
_TILES = ("sparse.triton_index", "sparse.triton_masked", "triton_softmax", "triton_grid")
_LISTS = ("sparse.triton_index", "sparse.triton_gathered", "triton_softmax", "triton_grid")

CHECKS = (
    KernelCheck("window", _SPANS, _window),
    KernelCheck("window of segments", _SPANS, _window_of_segments),
    KernelCheck("NSA", (*_NSA, *_SPANS), _block_sparse),
    KernelCheck("DSA by tiles", _TILES, _masked),
    KernelCheck("DSA by lists", _LISTS, _listed, repeats=False),
    KernelCheck("DSA, the choice", ("sparse.triton_index", "triton_grid"), _choice),
)
"""By name; gradients of gathered keys are added in no fixed order."""
