"""What looping does to the residual stream, and how much attention the first token draws."""

from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from lt2theory.analysis._checks import check_at_least
from lt2theory.analysis.received import received_factors
from lt2theory.models import LoopTrace
from lt2theory.ops import run_factors
from lt2theory.ops.factors import AttentionInputs, Factors


def residual_rms(trace: LoopTrace) -> pd.DataFrame:
    """Root mean square of the residual stream after every loop.

    Args:
        trace: What `LoopedModel.trace(tokens)` returned.

    Returns:
        One row for each batch row, token and `loops_done` (0 is the embedding): `rms` over the
        width, and `update_rms`, that of the change which the last loop made (NaN at 0).
    """
    tables = []
    for loops_done, state in enumerate(trace.states):
        h = state.detach().double()
        rms = h.square().mean(-1).sqrt()
        update = torch.full_like(rms, torch.nan)
        if loops_done:
            update = (h - trace.states[loops_done - 1].detach().double()).square().mean(-1).sqrt()
        batch, token = np.indices(tuple(rms.shape)).reshape(2, -1)
        columns = {"batch": batch, "token": token, "loops_done": loops_done}
        numbers = {"rms": rms, "update_rms": update}
        values = {name: x.cpu().numpy().ravel() for name, x in numbers.items()}
        tables.append(pd.DataFrame(columns | values))
    return pd.concat(tables, ignore_index=True)


def first_token_mass(
    trace: LoopTrace, *, first_query: int = 1, backend: str = "auto"
) -> pd.DataFrame:
    """Share of a head's mixing weights that falls on the first token (an attention sink).

    For softmax attention the weights are the attention probabilities. For a recurrence they are
    the numbers W with `o_t = sum_j W_tj v_j`, which may be negative, so shares are of |W|.

    Args:
        trace: What `LoopedModel.trace(tokens)` returned for one unbroken stream.
        first_query: First query that is averaged; 0 always looks at itself.
        backend: Backend that runs the recurrences, in float64.

    Returns:
        One row for each layer, loop and head: `kind` ("attention" or "recurrence"), `mass` (mean
        over batch and queries) and `uniform` (the mass if every visible token had equal weight).

    Raises:
        ValueError: If `first_query` is not a query of the sequence.
    """
    check_at_least("first_query", first_query, 0)
    length = trace.tokens.shape[1]
    if first_query >= length:
        raise ValueError(
            f"first_query: {first_query} is not allowed (must be in [0, {length - 1}])"
        )
    received = {(layer, loop): factors for layer, loop, factors in received_factors(trace)}
    tables = []
    for layer, loop in sorted(trace.factors):
        prepared = trace.factors[layer, loop]
        window = None
        if isinstance(prepared, AttentionInputs):
            shares, window = attention_weights(prepared)[..., 0], prepared.window
        else:
            weights = recurrence_weights(received[layer, loop], backend=backend).abs()
            total = weights.sum(-1)
            silent = total == 0
            shares = torch.where(silent, 0, weights[..., 0] / torch.where(silent, 1, total))
        mass = shares[:, :, first_query:].mean((0, 2)).cpu().numpy()
        columns = {
            "layer": layer,
            "loop": loop,
            "head": np.arange(len(mass)),
            "kind": "attention" if isinstance(prepared, AttentionInputs) else "recurrence",
            "mass": mass,
            "uniform": _uniform_mass(length, window, first_query),
        }
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables, ignore_index=True)


def attention_weights(inputs: AttentionInputs) -> Float[Tensor, "b h t t"]:
    """Attention probabilities of one unbroken stream, densely, in float64.

    Args:
        inputs: Queries and keys of one softmax layer.

    Returns:
        Rows (queries) that sum to 1; exactly zero outside the window.
    """
    q = inputs.q.detach().double().transpose(1, 2)
    k = inputs.k.detach().double().transpose(1, 2)
    k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
    scale = q.shape[-1] ** -0.5 if inputs.scale is None else inputs.scale
    position = torch.arange(q.shape[2], device=q.device)
    distance = position[:, None] - position
    visible = distance >= 0
    if inputs.window is not None:
        visible &= distance < inputs.window
    scores = (scale * q @ k.mT).masked_fill(~visible, -torch.inf)
    return scores.softmax(-1)


def recurrence_weights(factors: Factors, *, backend: str = "auto") -> Float[Tensor, "b h t t"]:
    """The numbers W with `o_t = sum_j W_tj v_j`, summed over a token's own factors.

    Args:
        factors: What one recurrence received, in float64.
        backend: Backend that runs it.

    Returns:
        Lower triangular weights, queries by tokens: outputs with unit vectors for values.
    """
    batch, length, num_factors, heads, _ = factors.k.shape
    units = torch.eye(length, dtype=factors.v.dtype, device=factors.v.device)
    values = units[None, :, None, None].expand(batch, length, num_factors, heads, length)
    o, _ = run_factors(replace(factors, v=values), backend=backend)
    return o.transpose(1, 2)


def _uniform_mass(length: int, window: int | None, first_query: int) -> float:
    """Return the first token's mean mass under equal weights on the visible tokens."""
    query = np.arange(first_query, length)
    mass = 1.0 / (query + 1)
    if window is not None:
        mass[query >= window] = 0.0
    return float(mass.mean())
