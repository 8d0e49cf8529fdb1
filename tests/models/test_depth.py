"""The same weights at another number of loops."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from lt2theory.models import LoopedModel, at_depth, generate

Build = Callable[..., LoopedModel]


@pytest.mark.parametrize("depth", [1, 2, 3])
@torch.no_grad()
def test_fewer_loops_are_the_first_of_the_model(build: Build, tokens: Tensor, depth: int) -> None:
    model = build("toy-full-gdn", num_loops=3).eval()
    shallow = at_depth(model, depth)
    wanted = model.read_out(model.read_loops(tokens)[depth - 1])
    torch.testing.assert_close(shallow(tokens), wanted, atol=1e-12, rtol=1e-12)
    assert not shallow.training
    assert shallow.embedding.weight is model.embedding.weight
    assert shallow.loop_gate.data_ptr() == model.loop_gate.data_ptr()
    prompt = tokens[:, :6]
    text = prompt
    for _ in range(4):
        text = torch.cat([text, shallow(text)[:, -1].argmax(-1, keepdim=True)], 1)
    assert torch.equal(generate(shallow, prompt, 4).tokens, text[:, 6:])


@torch.no_grad()
def test_more_loops_go_on_as_before(build: Build, tokens: Tensor) -> None:
    model = build("toy-gdn", num_loops=2, loop_gate=False)
    deep = at_depth(model, 4)
    h = model.run_embedded(model.run_embedded(model.embed(tokens)))
    torch.testing.assert_close(deep(tokens), model.read_out(h), atol=1e-12, rtol=1e-12)


def test_loops_of_their_own_are_refused(build: Build) -> None:
    with pytest.raises(ValueError, match=r"num_loops: 3 .* in 1..2, since every loop has a gate"):
        at_depth(build("toy-gdn", num_loops=2), 3)
    with pytest.raises(ValueError, match=r"num_loops: 0"):
        at_depth(build("toy-gdn", num_loops=2, loop_gate=False), 0)


@torch.no_grad()
def test_a_pattern_of_loops_is_cut(build: Build, tokens: Tensor) -> None:
    model = build("toy-gdn", pattern="gdn->window->full", num_loops=3)
    shallow = at_depth(model, 2)
    assert shallow.config.pattern == "gdn->window"
    wanted = model.read_out(model.read_loops(tokens)[1])
    torch.testing.assert_close(shallow(tokens), wanted, atol=1e-12, rtol=1e-12)
