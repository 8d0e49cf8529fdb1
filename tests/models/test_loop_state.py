"""What `accumulate` is for mixers whose tokens have several factors, or a normaliser (claim L2)."""

from collections.abc import Callable

import torch
from torch import Tensor

from lt2theory.models import LoopedModel, LoopTrace

Build = Callable[..., LoopedModel]


def test_accumulate_of_several_factors_a_token(build: Build, tokens: Tensor) -> None:
    """Gated DeltaProduct: a token applies the n factors of loop 1, then those of loop 2, ..."""
    model = build(
        "toy-gated_deltaproduct-accumulate", num_layers=1, num_loops=3, ffn_width=0, num_factors=2
    )
    trace = model.trace(tokens)
    loops = [trace.factors[0, loop] for loop in range(3)]
    state = torch.zeros(3, 2, 8, 8, dtype=torch.float64)
    read = []
    for t in range(tokens.shape[1]):
        for f in loops:
            state = state * f.log_decay[:, t, 0].exp()[..., None, None]
            assert torch.equal(f.log_decay[:, t, 1], torch.zeros(3, 2, dtype=torch.float64))
            for n in range(2):
                k = f.k[:, t, n]
                error = f.v[:, t, n] - torch.einsum("bhk,bhkv->bhv", k, state)
                state = state + torch.einsum("bh,bhk,bhv->bhkv", f.beta[:, t, n], k, error)
        read.append(torch.einsum("bhk,bhkv->bhv", loops[-1].q[:, t], state) * 8**-0.5)
    _is_the_last_loop(model, trace, torch.stack(read, 1))


def test_accumulate_of_a_normalised_recurrence(build: Build, tokens: Tensor) -> None:
    """mLSTM: one memory and one normaliser, without a stabiliser, for the factors of all loops."""
    model = build("toy-mlstm-accumulate", num_layers=1, num_loops=3, ffn_width=0)
    with torch.no_grad():
        model.blocks[0].mixer.igate_preact.bias.add_(torch.tensor([4.0, -2.0]))
    trace = model.trace(tokens)
    loops = [trace.factors[0, loop] for loop in range(3)]
    memory = torch.zeros(3, 2, 8, 8, dtype=torch.float64)
    normaliser = torch.zeros(3, 2, 8, dtype=torch.float64)
    read, divided = [], []
    for t in range(tokens.shape[1]):
        for f in loops:
            decay, gate = f.log_decay[:, t, 0].exp(), f.log_write[:, t, 0].exp()
            key = gate[..., None] * f.k[:, t, 0] * 8**-0.5
            memory = decay[..., None, None] * memory + key[..., None] * f.v[:, t, 0][:, :, None]
            normaliser = decay[..., None] * normaliser + key
        weight = (normaliser * loops[-1].q[:, t]).sum(-1, keepdim=True).abs()
        divided += (weight > 1).flatten().tolist()
        read.append(torch.einsum("bhk,bhkv->bhv", loops[-1].q[:, t], memory) / weight.clamp(min=1))
    assert 0 < sum(divided) < len(divided)
    _is_the_last_loop(model, trace, torch.stack(read, 1))


def _is_the_last_loop(model: LoopedModel, trace: LoopTrace, read: Tensor) -> None:
    """The third loop's residual stream is what follows from this read-out of its only layer."""
    block = model.blocks[0]
    change = block.mixer.output(read, block.mixer_norm(trace.states[2]))
    expected = trace.states[2] * (1 + model.loop_gate[2]) + change
    torch.testing.assert_close(trace.states[3], expected, atol=1e-10, rtol=1e-10)
