"""The recurrence as loops over tokens: the baselines that a gain is stated over."""

import itertools
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from lt2theory.ops import Factors


def token_loop(factors: Factors) -> Float[Tensor, "b t h v"]:
    """The recurrence as public naive versions write it: einsum, and outputs written in place.

    As fast as FLA's naive recurrences, which are the baseline that the targets are stated for.

    Args:
        factors: Decay-first factors whose write strength is beta or 1.

    Returns:
        The outputs.
    """
    q = factors.q * factors.q.shape[-1] ** -0.5
    alphas = None if factors.log_decay is None else factors.log_decay.exp()
    state = q.new_zeros(*q.shape[:1], *q.shape[2:], factors.v.shape[-1])
    output = torch.zeros_like(factors.v[:, :, 0])
    for t, f in itertools.product(range(q.shape[1]), range(factors.num_factors)):
        key, value = factors.k[:, t, f], factors.v[:, t, f]
        if alphas is not None:
            alpha = alphas[:, t, f]
            state = state * alpha.view(*alpha.shape[:2], -1, 1)
        if factors.beta is not None:
            read = (key[..., None] * state).sum(-2)
            key, value = factors.beta[:, t, f, :, None] * key, value - read
        state = state + torch.einsum("bhk,bhv->bhkv", key, value)
        if f == factors.num_factors - 1:
            output[:, t] = torch.einsum("bhk,bhkv->bhv", q[:, t], state)
    return output


def tight_loop(factors: Factors) -> Float[Tensor, "b t h v"]:
    """The same without indexing, einsum or writing in place: a harder baseline.

    Args:
        factors: Decay-first factors whose write strength is beta or 1.

    Returns:
        The outputs.
    """
    steps = factors.num_factors
    queries = (factors.q * factors.q.shape[-1] ** -0.5).unsqueeze(-1).unbind(1)
    keys = factors.k.unsqueeze(-1).flatten(1, 2).unbind(1)
    values = factors.v.flatten(1, 2).unbind(1)
    alphas: Sequence[Tensor] = ()
    if factors.log_decay is not None:
        alpha = factors.log_decay.exp().flatten(1, 2)
        alphas = alpha.view(*alpha.shape[:3], -1, 1).unbind(1)
    betas = () if factors.beta is None else factors.beta.unsqueeze(-1).flatten(1, 2).unbind(1)
    state = torch.zeros_like(keys[0] * values[0].unsqueeze(-2))
    outputs = []
    for i, (key, value) in enumerate(zip(keys, values, strict=True)):
        if alphas:
            state = state * alphas[i]
        written = (value - (key * state).sum(-2)) * betas[i] if betas else value
        state = state + key * written.unsqueeze(-2)
        if i % steps == steps - 1:
            outputs.append((queries[i // steps] * state).sum(-2))
    return torch.stack(outputs, 1)
