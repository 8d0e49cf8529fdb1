"""Leaving the loop early: the exit gate's distribution over loops (Ouro, arXiv 2510.25741)."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from lt2theory.mixers.base import at_least_float32


def exit_log_probabilities(gates: Float[Tensor, "loops *rest"]) -> Float[Tensor, "loops *rest"]:
    """`p_tau = lambda_tau prod_{j<tau} (1 - lambda_j)` for `lambda = sigmoid(gates)`.

    What has not left before leaves after the last loop, whatever its gate says, so that the
    probabilities add up to 1 (section 3 of the paper).

    Args:
        gates: What the exit gate gives after each of the T loops, before the sigmoid.

    Returns:
        Natural logs of the probabilities of leaving after each loop, in at least float32.
    """
    z = at_least_float32(gates)
    stays = F.logsigmoid(-z[:-1]).cumsum(0)
    stays = torch.cat([torch.zeros_like(z[:1]), stays])
    leaves = torch.cat([F.logsigmoid(z[:-1]), torch.zeros_like(z[:1])])
    return stays + leaves


def divergence_from_equal(
    log_probabilities: Float[Tensor, "loops *rest"],
) -> Float[Tensor, "*rest"]:
    """`KL(p | equal) = log T - H(p)`: what keeps the gate from settling on one loop.

    Args:
        log_probabilities: Of the exits, as `exit_log_probabilities` gives them.

    Returns:
        A number >= 0 each; 0 where all exits are as likely.
    """
    negative_entropy = (log_probabilities.exp() * log_probabilities).sum(0)
    return negative_entropy + math.log(log_probabilities.shape[0])


def exit_loop(
    log_probabilities: Float[Tensor, "loops *rest"], threshold: float
) -> Int[Tensor, "*rest"]:
    """First loop by which enough has left (the paper's Q-exit).

    Args:
        log_probabilities: Of the exits, as `exit_log_probabilities` gives them.
        threshold: Cumulative probability q to reach, in [0, 1]; 0 leaves after the first loop,
            1 runs all.

    Returns:
        Its number, counted from 0.

    Raises:
        ValueError: `threshold` is outside [0, 1].
    """
    check_threshold("threshold", threshold)
    reached = log_probabilities.exp().cumsum(0)[:-1] >= threshold
    if threshold == 1:  # a sum may round to 1 before the last loop
        reached = torch.zeros_like(reached)
    return (~reached).cumprod(0).sum(0)


def check_threshold(name: str, threshold: float) -> None:
    """Refuse what is no share of the exits.

    Args:
        name: The argument.
        threshold: Its value.

    Raises:
        ValueError: It is outside [0, 1].
    """
    if not 0 <= threshold <= 1:
        raise ValueError(f"{name}: {threshold} is not allowed (must lie in [0, 1])")
