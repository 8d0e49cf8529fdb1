"""Gradient checkpointing: keep what goes into a part of the loop, compute the rest again.

Backward needs the activations of every loop, so that training memory grows with T although the
weights are shared. A part that is checkpointed keeps the residual stream that enters it (and, under
`accumulate`, the factors of earlier loops that its op reads) and is run once more in backward
(Chen et al., arXiv 1604.06174). The values are the same bits, since the same code runs again on
the same numbers; nothing in a model is random.
"""

from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from typing import Any

from torch import Tensor
from torch.utils.checkpoint import checkpoint

from lt2theory.models.loop_state import Earlier, LoopState
from lt2theory.ops.factors import Factors

Part = Callable[[Tensor, LoopState], Tensor]
"""A part of the loop: from the residual stream before it to the one after it."""


def recomputed(part: Part, h: Tensor, state: LoopState, layers: Iterable[int]) -> Tensor:
    """`part(h, state)`, run again in backward instead of being kept.

    What the part leaves in the loop state is handed on exactly once: the run in backward works on
    a branch of its own, with the earlier factors that the first run saw.

    Args:
        part: The part of the loop.
        h: Residual stream that enters it.
        state: The loop state, which the part may read and add to.
        layers: The layers of the part.

    Returns:
        The residual stream that leaves the part.
    """
    earlier = {layer: state.earlier[layer] for layer in layers if layer in state.earlier}
    # As arguments the tensors are saved by autograd itself, under its checks and hooks.
    tensors = [x for parts in earlier.values() for own in parts for x in _tensors(own).values()]

    # What is run again must not hold the loop state, which comes to hold what was computed here:
    # the graph would keep itself alive where nobody calls backward.
    empty = state.branch({})

    def run(h: Tensor, *tensors: Tensor) -> tuple[Tensor, LoopState]:
        branch = empty.branch(_with_tensors(earlier, tensors))
        return part(h, branch), branch

    after: Tensor
    after, branch = checkpoint(run, h, *tensors, use_reentrant=False, preserve_rng_state=False)
    state.take_over(branch)
    return after


def _tensors(factors: Factors) -> dict[str, Tensor]:
    """The fields that hold a tensor, by name."""
    values = {field.name: getattr(factors, field.name) for field in fields(factors)}
    return {name: x for name, x in values.items() if isinstance(x, Tensor)}


def _with_tensors(earlier: Earlier, tensors: tuple[Tensor, ...]) -> Earlier:
    """The same factors with other tensors, in the order in which `recomputed` lists them."""
    rest = iter(tensors)

    def changed(own: Factors) -> Factors:
        tensors: dict[str, Any] = {name: next(rest) for name in _tensors(own)}
        return replace(own, **tensors)

    return {layer: tuple(map(changed, parts)) for layer, parts in earlier.items()}
