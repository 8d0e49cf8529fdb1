"""Native sparse attention through our Triton kernels, blocks before queries.

Every branch is attention to spans (`nsa_spans`), but for the chosen blocks. There the loops are
turned round: a block of keys is read once for all queries that take it (`block_launch`), each of
which gets a part of its softmax, and the parts are joined with the query's own block. Memory grows
with the length, and parts are held for a piece of the problem at a time. All sums have a fixed
order. The idea of block-major loops: FlashMoBA (Xiao et al., arXiv 2511.11571).

Triton is imported when a backend runs, not with this module.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from lt2theory.ops.sparse import block_launch, span_launch
from lt2theory.ops.sparse.choice_launch import MOST_BLOCKS, Blocks, Choice, choose
from lt2theory.ops.sparse.nsa_chunked import chunked_block_sparse, no_larger_than_the_text
from lt2theory.ops.sparse.nsa_parts import Branch, Gradients, whole
from lt2theory.ops.sparse.nsa_reference import BlockSparseProblem
from lt2theory.ops.sparse.nsa_spans import Layout
from lt2theory.ops.sparse.tiling import Heads


def triton_block_sparse(problem: BlockSparseProblem) -> Float[Tensor, "b t h v"]:
    """Native sparse attention; see `reference_block_sparse` for its meaning.

    Args:
        problem: The attention.

    Returns:
        The outputs, in the dtype of the queries. Gradients have a fixed order of sums.
    """
    problem = no_larger_than_the_text(problem)
    complete = problem.k.shape[1] // problem.block_size
    if problem.q.shape[1] == 0 or (complete > MOST_BLOCKS and problem.num_blocks > 1):
        return chunked_block_sparse(problem)
    plan = _Plan(
        Layout.of(problem),
        problem.scale,
        size=problem.block_size,
        slots=min(problem.num_blocks - 1, complete),
        segmented=problem.key_segments is not None,
    )
    # torch leaves `apply` without types.
    o: Tensor = _BlockSparse.apply(  # type: ignore[no-untyped-call]
        problem.q, problem.k, problem.v, problem.gates, plan
    )
    return o


@dataclass(frozen=True)
class _Plan:
    """All of a problem but its heads and gates; `slots` are blocks beside a query's own."""

    layout: Layout
    scale: float
    size: int
    slots: int
    segmented: bool

    @property
    def complete(self) -> int:
        """Complete blocks of a row, at most."""
        return self.layout.last.shape[1]

    def blocks(self, past: int) -> Blocks | None:
        """What queries choose from, or None where there is nothing to choose."""
        if self.slots == 0:
            return None
        return Blocks(self.layout.last, self.size, self.slots, past)


def _branches(heads: Heads, plan: _Plan) -> tuple[Branch, Branch, Branch]:
    """The compressed branch, the own block of the selected one, and the window."""
    layout = plan.layout
    k, v = (_means(x, plan) for x in (heads.k, heads.v))
    narrow = k.to(heads.k.dtype)
    rest = None if heads.k.dtype == torch.float32 else (k - narrow).to(heads.k.dtype)
    means = Heads(heads.q, narrow, v.to(heads.v.dtype), heads.scale)
    return (
        Branch(0, means, rest, layout.visible),
        Branch(1, heads, None, layout.own),
        Branch(2, heads, None, layout.window),
    )


def _means(x: Float[Tensor, "b m g w"], plan: _Plan) -> Float[Tensor, "b c g w"]:
    """The mean of every complete block in float32."""
    if not plan.segmented:
        blocks = x[:, : plan.complete * plan.size].unflatten(1, (plan.complete, plan.size))
        mean: Tensor = blocks.mean(2, dtype=torch.float32)
        return mean
    last = plan.layout.last.long()
    tokens = last[:, :, None] + torch.arange(1 - plan.size, 1, device=x.device)
    row = torch.arange(len(x), device=x.device)[:, None, None]
    return x[row, tokens.clamp(min=0, max=x.shape[1] - 1)].mean(2, dtype=torch.float32)


class _BlockSparse(torch.autograd.Function):
    """Keeps the branches' outputs, two numbers a query of each, and the choice by blocks."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, gates: Tensor, plan: _Plan) -> Tensor:
        q, k, v, gates = (x.contiguous() for x in (q, k, v, gates))
        heads = Heads(q, k, v, plan.scale)
        compressed, own, window = _branches(heads, plan)
        outputs = [q.new_empty(*q.shape[:3], v.shape[3]) for _ in range(3)]
        lse = [q.new_empty(q.shape[:3], dtype=torch.float32) for _ in range(3)]
        span_launch.attend(compressed, outputs[0], lse[0], whole(heads))
        span_launch.attend(own, outputs[1], lse[1], whole(heads))
        span_launch.attend(window, outputs[2], lse[2], whole(heads))
        choices: list[Choice] = []
        blocks = plan.blocks(k.shape[1] - q.shape[1])
        if blocks is not None:
            for piece in block_launch.pieces_of(heads, blocks):
                choice = choose(compressed, lse[0], plan.layout.earlier, blocks, piece)
                parts = block_launch.read(heads, blocks, choice)
                block_launch.join(parts, piece, outputs[1], lse[1])
                if any(ctx.needs_input_grad):
                    choices.append(choice)
        ctx.save_for_backward(q, k, v, gates, *outputs, *lse, *_tensors_of(choices))
        ctx.plan, ctx.pieces = plan, [choice.piece for choice in choices]
        return _gated_sum(outputs, gates)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, gates, *saved = ctx.saved_tensors
        outputs, lse, tensors = saved[:3], saved[3:6], saved[6:]
        plan: _Plan = ctx.plan
        heads, grad = Heads(q, k, v, plan.scale), grad.contiguous()
        compressed, own, window = _branches(heads, plan)
        dq, dk, dv = (torch.empty_like(x, dtype=torch.float32) for x in (q, k, v))
        gradients = Gradients(grad, gates, _dots(outputs, grad), dq, dk, dv)
        span_launch.add_query_gradient(window, gradients, lse[2], whole(heads), add=False)
        span_launch.add_key_gradient(window, gradients, lse[2], add=False)
        if plan.complete > 0:
            span_launch.add_query_gradient(compressed, gradients, lse[0], whole(heads))
            means = span_launch.key_gradients(compressed, gradients, lse[0])
            _add_to_tokens(means, gradients, plan)
        span_launch.add_key_gradient(own, gradients, lse[1])
        blocks = plan.blocks(k.shape[1] - q.shape[1])
        if blocks is None:
            span_launch.add_query_gradient(own, gradients, lse[1], whole(heads))
        else:
            for i, piece in enumerate(ctx.pieces):
                choice = Choice(piece, *tensors[3 * i : 3 * i + 3])
                parts = block_launch.add_gradients(heads, blocks, choice, gradients, lse[1])
                span_launch.add_query_gradient(own, gradients, lse[1], piece, parts=parts)
        wanted = zip((dq, dk, dv, gradients.dots), (q, k, v, gates), strict=True)
        return *(x.to(like.dtype) for x, like in wanted), None


def _tensors_of(choices: list[Choice]) -> list[Tensor]:
    return [x for choice in choices for x in (choice.ends, choice.lists, choice.taken)]


def _add_to_tokens(means: tuple[Tensor, Tensor], gradients: Gradients, plan: _Plan) -> None:
    """Every token of a complete block gets its share of the gradient of the block's mean."""
    block = plan.layout.block
    row = torch.arange(len(block), device=block.device)[:, None]
    share = (block >= 0) / plan.size
    for of_means, whole_ in zip(means, (gradients.k, gradients.v), strict=True):
        whole_.addcmul_(of_means[row, block.clamp(min=0)], share[:, :, None, None])


def _gated_sum(branches: list[Tensor], gates: Tensor) -> Tensor:
    """The output."""
    from lt2theory.ops.sparse.triton_gates import gated_sum_kernel

    output = torch.empty_like(branches[0])
    _by_rows(gated_sum_kernel, branches, (gates, output))
    return output


def _dots(branches: list[Tensor], grad: Tensor) -> Float[Tensor, "b t h 3"]:
    """Products of every branch with the gradient of the sum."""
    from lt2theory.ops.sparse.triton_gates import gate_gradient_kernel

    dots = grad.new_empty(*grad.shape[:3], 3, dtype=torch.float32)
    _by_rows(gate_gradient_kernel, branches, (grad, dots))
    return dots


def _by_rows(kernel: Any, branches: list[Tensor], others: tuple[Tensor, Tensor]) -> None:
    import triton

    *shape, values = branches[0].shape
    rows = torch.Size(shape).numel()
    kernel[(triton.cdiv(rows, 16),)](
        *branches, *others, rows, DV=values, BM=16, BV=triton.next_power_of_2(values)
    )
