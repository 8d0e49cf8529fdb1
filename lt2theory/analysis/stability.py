"""What looping does to the residual stream, and how much attention the first token draws."""

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from lt2theory.analysis._checks import check_at_least
from lt2theory.analysis.instruments import first_token_share, token_rms
from lt2theory.analysis.mixing_weights import (
    attention_weights,
    in_float64,
    recurrence_weights,
)
from lt2theory.analysis.received import received_factors
from lt2theory.mixers.softmax import SoftmaxAttention
from lt2theory.models import LoopedModel, LoopTrace
from lt2theory.models.block import Block
from lt2theory.ops.factors import AttentionInputs


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
        rms = token_rms(h)
        update = torch.full_like(rms, torch.nan)
        if loops_done:
            update = token_rms(h - trace.states[loops_done - 1].detach().double())
        batch, token = np.indices(tuple(rms.shape)).reshape(2, -1)
        columns = {"batch": batch, "token": token, "loops_done": loops_done}
        numbers = {"rms": rms, "update_rms": update}
        values = {name: x.cpu().numpy().ravel() for name, x in numbers.items()}
        tables.append(pd.DataFrame(columns | values))
    return pd.concat(tables, ignore_index=True)


def block_rms(trace: LoopTrace) -> pd.DataFrame:
    """Root mean square of the residual stream after each block of each loop: the saw-tooth.

    Args:
        trace: What `LoopedModel.trace(tokens)` returned.

    Returns:
        One row for each loop, layer, batch row and token: `rms` over the width after the block,
        `update_rms`, that of the change which the block made, and `peak`, its largest absolute
        entry (an activation is massive where that is far above the RMS).
    """
    tables = []
    layers = 1 + max(layer for layer, _ in trace.residuals)
    for loop in range(trace.config.num_loops):
        before = trace.states[loop].detach().double()
        for layer in range(layers):
            h = trace.residuals[layer, loop].detach().double()
            numbers = {
                "rms": token_rms(h),
                "update_rms": token_rms(h - before),
                "peak": h.abs().amax(-1),
            }
            batch, token = np.indices(tuple(h.shape[:2])).reshape(2, -1)
            columns = {"loop": loop, "layer": layer, "batch": batch, "token": token}
            values = {name: x.cpu().numpy().ravel() for name, x in numbers.items()}
            tables.append(pd.DataFrame(columns | values))
            before = h
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
    _check_query(trace, first_query)
    length = trace.tokens.shape[1]
    received = {(layer, loop): factors for layer, loop, factors in received_factors(trace)}
    tables = []
    for layer, loop in sorted(trace.factors):
        prepared = trace.factors[layer, loop]
        window = None
        if isinstance(prepared, AttentionInputs):
            starts = trace.tokens.new_zeros(trace.tokens.shape, dtype=torch.bool)
            starts[:, 0] = True
            shares = first_token_share(in_float64(prepared), starts, backend="reference")
            # The compressed blocks of a sparse attention go back to the first token.
            window = prepared.window if type(prepared) is AttentionInputs else None
        else:
            weights = recurrence_weights(received[layer, loop], backend=backend).abs()
            total = weights.sum(-1)
            silent = total == 0
            shares = torch.where(silent, 0, weights[..., 0] / torch.where(silent, 1, total)).mT
        mass = shares[:, first_query:].mean((0, 1)).cpu().numpy()
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


def gated_first_token_mass(
    model: LoopedModel, trace: LoopTrace, *, first_query: int = 1
) -> pd.DataFrame:
    """The first token's attention mass before and behind the output gate of softmax layers.

    A gate `g_t` scales what a head reads, so that of the first token's contribution `p_t0 v_0`
    the share `|g_t * v_0| / |v_0|` passes (`*` by channel; 1 without a gate). A sink may so keep
    its attention probability and still add little to the residual stream (theory G1).

    Args:
        model: The traced model.
        trace: What `model.trace(tokens)` returned for one unbroken stream.
        first_query: First query that is averaged.

    Returns:
        One row for each layer, loop and head with softmax attention: `mass` (mean over batch and
        queries of `p_t0`), `passed` (mean of `p_t0` times the share that passes) and `gate` (mean
        value of the gate). No rows if no layer is one.

    Raises:
        ValueError: If `first_query` is not a query of the sequence.
    """
    _check_query(trace, first_query)
    tables = []
    for layer, loop in sorted(trace.factors):
        inputs = trace.factors[layer, loop]
        if not isinstance(inputs, AttentionInputs):
            continue
        mass = attention_weights(inputs)[:, :, first_query:, 0]
        gate = _output_gate(model, trace, layer, loop)[:, :, first_query:]
        value = inputs.v.detach().double()[:, :1].transpose(1, 2)
        value = value.repeat_interleave(gate.shape[1] // value.shape[1], 1)
        size = value.norm(dim=-1)
        share = (gate * value).norm(dim=-1) / torch.where(size > 0, size, 1)
        numbers = {"mass": mass, "passed": mass * share, "gate": gate.mean(-1)}
        columns = {"layer": layer, "loop": loop, "head": np.arange(mass.shape[1])}
        means = {name: x.mean((0, 2)).cpu().numpy() for name, x in numbers.items()}
        tables.append(pd.DataFrame(columns | means))
    if not tables:
        return pd.DataFrame(columns=["layer", "loop", "head", "mass", "passed", "gate"])
    return pd.concat(tables, ignore_index=True)


def _output_gate(
    model: LoopedModel, trace: LoopTrace, layer: int, loop: int
) -> Float[Tensor, "b h t v"]:
    """Return the gate of one softmax layer in one loop; ones where it has none."""
    block = model.blocks[layer]
    assert isinstance(block, Block), "a looped model is made of blocks"
    mixer = block.mixers[model.config.mixer_number(layer, loop)]
    assert isinstance(mixer, SoftmaxAttention), "attention inputs come from softmax attention"
    h = trace.residuals[layer - 1, loop] if layer else trace.states[loop]
    with torch.no_grad():
        gate: Tensor | None = mixer.gate(block.mixer_norm(h.detach()))
    heads = mixer.options.num_heads
    if gate is None:
        shape = (h.shape[0], heads, h.shape[1], mixer.options.value_dim)
        return torch.ones(shape, dtype=torch.float64, device=h.device)
    by_head: Tensor = gate.double().unflatten(-1, (heads, -1))
    return by_head.transpose(1, 2)


def _check_query(trace: LoopTrace, first_query: int) -> None:
    """Refuse a first query outside the sequence.

    Raises:
        ValueError: Naming `first_query`.
    """
    check_at_least("first_query", first_query, 0)
    length = trace.tokens.shape[1]
    if first_query >= length:
        raise ValueError(
            f"first_query: {first_query} is not allowed (must be in [0, {length - 1}])"
        )


def _uniform_mass(length: int, window: int | None, first_query: int) -> float:
    """Return the first token's mean mass under equal weights on the visible tokens."""
    query = np.arange(first_query, length)
    mass = 1.0 / (query + 1)
    if window is not None:
        mass[query >= window] = 0.0
    return float(mass.mean())
