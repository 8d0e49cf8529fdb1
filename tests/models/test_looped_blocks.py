"""What stands between two loops, and what they share."""

from collections.abc import Callable

import torch
from torch import Tensor

from lt2theory.models import LoopedConfig, LoopedModel, presets

Build = Callable[..., LoopedModel]


def test_closed_loop_gate_is_the_plain_loop() -> None:
    config = presets()["toy-gdn"]
    gated = LoopedModel(config)
    plain = LoopedModel(LoopedConfig.model_validate({**config.model_dump(), "loop_gate": False}))
    plain.load_state_dict(gated.state_dict(), strict=False)
    tokens = torch.arange(20).view(2, 10)
    assert torch.equal(gated(tokens), plain(tokens))
    with torch.no_grad():
        gated.loop_gate.fill_(0.5)
    assert not torch.equal(gated(tokens), plain(tokens))


def test_rescan_and_accumulate_share_the_first_loop_only(build: Build, tokens: Tensor) -> None:
    rescan = build("toy-gdn").trace(tokens)
    accumulate = build("toy-gdn-accumulate").trace(tokens)
    assert torch.equal(rescan.states[1], accumulate.states[1])
    assert not torch.allclose(rescan.states[2], accumulate.states[2])
