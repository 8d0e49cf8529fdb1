"""Which loops of a looped student learn, and how much, over the course of a stage."""

import torch
from jaxtyping import Float
from torch import Tensor


def loop_weights(
    num_loops: int, step: int, steps: int, *, warm_share: float | int, fade_share: float | int
) -> Float[Tensor, " loops"]:
    """Weights of the divergences of each loop: all alike at first, the last alone at the end.

    LT2 (arXiv 2605.20670, section 4) distils at every loop and then at the last one only; shares
    and the way between the two are not published. Here the weights are equal for `warm_share` of
    the steps, then go over in a line within `fade_share` of them. A pure function of the step, so
    that a resumed stage weighs as an undisturbed one.

    Args:
        num_loops: Loops.
        step: Steps done before.
        steps: Steps of the stage.
        warm_share: Share of the steps with equal weights, in [0, 1]; 1 keeps them to the end.
        fade_share: Share of the steps of the transition, in [0, 1].

    Returns:
        Weights that are never negative and add up to 1, float64.

    Raises:
        ValueError: A number is out of range.
    """
    if num_loops < 1:
        raise ValueError(f"num_loops: {num_loops} must be >= 1")
    if not 0 <= step < steps:
        raise ValueError(f"step: {step} must be >= 0 and < {steps} (steps)")
    for name, share in (("warm_share", warm_share), ("fade_share", fade_share)):
        if not 0 <= share <= 1:
            raise ValueError(f"{name}: {share} must be >= 0 and <= 1")
    past = step - warm_share * steps
    length = fade_share * steps
    # The first step of the transition already moves, its last one has arrived.
    final = 0.0 if past < 0 else min(1.0, (past + 1) / length) if length else 1.0
    equal = (1 - final) / num_loops
    return torch.tensor([equal] * (num_loops - 1) + [equal + final], dtype=torch.float64)
