"""How the gradient of shared weights is made up of the loops' contributions.

The model is unrolled: every loop gets its own copy of the blocks, at the same values, and they run
in the model's own forward pass. The gradient of a shared weight is the sum over its copies.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from lt2theory.models import LoopedModel, LoopTrace
from lt2theory.models.block import Block, Mix

Loss = Callable[[LoopTrace], Tensor]


@dataclass(frozen=True, eq=False)
class LoopGradients:
    """Gradients of one loss, loop by loop.

    Attributes:
        weights: For each loop, its contribution to the gradient of every block parameter, by the
            parameter's name in the model; a parameter that the loss does not reach has zeros.
        states: Gradients of h^(0) .. h^(T), each `[b t d]`.
    """

    weights: tuple[Mapping[str, Tensor], ...]
    states: tuple[Float[Tensor, "b t d"], ...]

    def total(self) -> dict[str, Tensor]:
        """Return the ordinary gradient of the shared weights: the sum over the loops."""
        return {name: sum_of([one[name] for one in self.weights]) for name in self.weights[0]}

    def by_loop(self) -> pd.DataFrame:
        """Norms of the loops' contributions to the gradient of the shared weights.

        Returns:
            One row a loop: `loop`, `norm` (all block parameters together), `share` (its inner
            product with the whole gradient over that one's squared norm; the shares sum to 1) and
            `cosine` to the whole gradient.
        """
        whole = _flat(self.total())
        size = whole.norm()
        rows = []
        for loop, own in enumerate(self.weights):
            part = _flat(own)
            inner, norm = part @ whole, part.norm()
            rows.append(
                {
                    "loop": loop,
                    "norm": norm.item(),
                    "share": (inner / size.square()).item(),
                    "cosine": (inner / (norm * size)).item(),
                }
            )
        return pd.DataFrame(rows)

    def by_state(self) -> pd.DataFrame:
        """Norms of the gradients of the residual streams between the loops.

        Returns:
            One row for each `loops_done` = 0 .. T: `norm` over batch, tokens and width.
        """
        norms = [state.double().norm().item() for state in self.states]
        return pd.DataFrame({"loops_done": range(len(norms)), "norm": norms})


def loop_gradients(model: LoopedModel, tokens: Int[Tensor, "b t"], loss: Loss) -> LoopGradients:
    """Contribution of every loop to the gradient of the shared weights, and that of each h^(tau).

    Under `accumulate` a loop's contribution includes what its factors do in later loops.

    Args:
        model: The model; left as it is.
        tokens: Token ids.
        loss: A differentiable number, from the trace of a run on these tokens.

    Returns:
        The gradients.
    """
    unrolled = _unroll(model)
    named = [dict(one.named_parameters()) for one in _copies_by_loop(unrolled)]
    with torch.enable_grad():
        trace = unrolled.trace(tokens)
        parameters = [parameter for one in named for parameter in one.values()]
        found = torch.autograd.grad(
            loss(trace), [*parameters, *trace.states], materialize_grads=True
        )
    gradients = iter(found)
    weights = tuple({name: next(gradients) for name in one} for one in named)
    return LoopGradients(weights, tuple(gradients))


def sum_of(tensors: list[Tensor]) -> Tensor:
    """Add tensors of one shape.

    Args:
        tensors: At least one.

    Returns:
        Their sum.
    """
    return torch.stack(tensors).sum(0)


class _PerLoop(nn.Module):
    """A block as T copies, of which call number tau runs the tau-th."""

    def __init__(self, block: Block, num_loops: int) -> None:
        super().__init__()
        self.copies = nn.ModuleList(copy.deepcopy(block) for _ in range(num_loops))
        self._calls = 0

    def forward(self, h: Tensor, mix: Mix, *, mixer: int = 0) -> Tensor:
        """Run the next loop's copy."""
        after: Tensor = self.copies[self._calls](h, mix, mixer=mixer)
        self._calls += 1
        return after


def _unroll(model: LoopedModel) -> LoopedModel:
    """Return a copy of the model in which every loop has blocks of its own."""
    unrolled = copy.deepcopy(model).requires_grad_()
    blocks = [block for block in unrolled.blocks if isinstance(block, Block)]
    unrolled.blocks = nn.ModuleList(_PerLoop(block, model.config.num_loops) for block in blocks)
    return unrolled


def _copies_by_loop(unrolled: LoopedModel) -> list[nn.Module]:
    """Return one module a loop whose parameters are named as in the shared model."""
    loops: list[nn.Module] = []
    for loop in range(unrolled.config.num_loops):
        one = nn.Module()
        one.blocks = nn.ModuleList(
            block.copies[loop] for block in unrolled.blocks if isinstance(block, _PerLoop)
        )
        loops.append(one)
    return loops


def _flat(tensors: Mapping[str, Tensor]) -> Tensor:
    """Return all numbers in one float64 vector."""
    return torch.cat([tensor.double().flatten() for tensor in tensors.values()])
