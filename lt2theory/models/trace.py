"""What analysers read: everything that happened inside one forward pass."""

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from lt2theory.models.config import LoopedConfig
from lt2theory.models.loop_state import Prepared


@dataclass(frozen=True)
class LoopTrace:
    """What happened inside one forward pass, loop by loop.

    Attributes:
        config: Config of the model.
        tokens: The tokens that it read `[b t]`.
        logits: Its logits `[b t vocab]`.
        states: The T + 1 residual streams h^(0) .. h^(T), each `[b t d]`.
        factors: What each (layer, loop) prepared: `Factors` of a linear mixer or
            `AttentionInputs`. Under `accumulate` the op of loop tau receives those of loops
            0..tau joined by `Factors.after`.
        residuals: Residual stream after each block, by (layer, loop), each `[b t d]`; the loop
            gate and the norm between loops come after the last block.
    """

    config: LoopedConfig
    tokens: Int[Tensor, "b t"]
    logits: Float[Tensor, "b t n"]
    states: tuple[Float[Tensor, "b t d"], ...]
    factors: dict[tuple[int, int], Prepared]
    residuals: dict[tuple[int, int], Float[Tensor, "b t d"]]
