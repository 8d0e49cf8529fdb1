"""Native sparse attention beside a linear layer: any pieces, documents and padding."""

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from lt2theory.models import LoopedModel

Build = Callable[..., LoopedModel]
TOLERANCE = 1e-10  # float64; only the order of sums differs
PIECES = [[0, 47], [0, 1, 2, 9, 9, 30, 31, 47], list(range(48))]


@pytest.fixture
def long_tokens(generator: torch.Generator) -> Tensor:
    return torch.randint(11, (3, 47), generator=generator)


def hybrid(build: Build, loop_state: str, **changes: object) -> LoopedModel:
    settings = {"pattern": "gdn,nsa", "loop_state": loop_state, "num_kv_heads": 1, "num_loops": 2}
    return build("toy-nsa", **settings, positions="rope", num_blocks=3, **changes)


@pytest.mark.parametrize("loop_state", ["rescan", "accumulate"])
@pytest.mark.parametrize("bounds", PIECES)
@pytest.mark.parametrize("output_gate", [False, True])
def test_pieces(
    build: Build, long_tokens: Tensor, loop_state: str, bounds: list[int], output_gate: bool
) -> None:
    model = hybrid(build, loop_state, output_gate=output_gate)
    cache = model.new_cache(3)
    logits = torch.cat(
        [model(long_tokens[:, a:b], cache) for a, b in itertools.pairwise(bounds)], 1
    )
    whole = hybrid(build, loop_state, output_gate=output_gate, backend="reference")(long_tokens)
    torch.testing.assert_close(logits, whole, atol=TOLERANCE, rtol=TOLERANCE)


@pytest.mark.parametrize("loop_state", ["rescan", "accumulate"])
@pytest.mark.parametrize("bounds", PIECES)
def test_documents_and_padding(
    build: Build, long_tokens: Tensor, loop_state: str, bounds: list[int]
) -> None:
    """Documents that are no multiple of a block long, with padding between and before them."""
    model = hybrid(build, loop_state)
    documents = torch.tensor(
        [[5] * 18 + [-1] * 3 + [9] * 26, [-1] * 7 + [0] * 40, [1] * 13 + [0] * 3 + [1] * 31]
    )
    cache = model.new_cache(3)
    packed = torch.cat(
        [
            model(long_tokens[:, a:b], cache, documents=documents[:, a:b])
            for a, b in itertools.pairwise(bounds)
        ],
        1,
    )
    for row, spans in enumerate(([(0, 18), (21, 47)], [(7, 47)], [(0, 13), (13, 16), (16, 47)])):
        for a, b in spans:
            alone = model(long_tokens[row : row + 1, a:b])
            torch.testing.assert_close(
                packed[row : row + 1, a:b], alone, atol=TOLERANCE, rtol=TOLERANCE
            )


@pytest.mark.parametrize("loop_state", ["rescan", "accumulate"])
def test_future_tokens_change_nothing(build: Build, long_tokens: Tensor, loop_state: str) -> None:
    model = hybrid(build, loop_state)
    before = model(long_tokens)
    for position in (3, 8, 30):
        changed = long_tokens.clone()
        changed[:, position] = (changed[:, position] + 1) % 11
        after = model(changed)
        assert torch.equal(before[:, :position], after[:, :position])
        assert not torch.allclose(before[:, position:], after[:, position:])


def test_selection_matters(build: Build, long_tokens: Tensor) -> None:
    """Otherwise streaming would not be a test of it."""
    plain = build("toy-nsa", num_blocks=1)(long_tokens)
    assert (plain - build("toy-nsa", num_blocks=3)(long_tokens)).abs().max() > 1e-3
