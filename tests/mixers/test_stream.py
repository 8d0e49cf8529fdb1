"""Where the tokens of one call stand."""

import pytest
import torch
from torch import Tensor

from lt2theory.mixers import Stream


def stream(segments: Tensor, past: int) -> Stream:
    positions = torch.zeros_like(segments[:, past:])
    return Stream(positions, segments[:, past:], segments[:, :past])


@pytest.mark.parametrize("past", [0, 3, 5])
def test_a_segment_that_comes_again_is_refused(past: int) -> None:
    """A convolution and attention would join what a state keeps apart."""
    segments = torch.tensor([[0, 0, 1, 1, 2], [4, 3, 3, 4, -1]])
    with pytest.raises(ValueError, match="segments: 4 comes again in row 1 after another, allowed"):
        stream(segments, past)


@pytest.mark.parametrize("past", [0, 1, 2, 6])
def test_padding_may_come_again_and_numbers_may_fall(past: int) -> None:
    segments = torch.tensor([[-1, 3, -1, 1, 2, -1], [5, 5, 5, 0, 0, 0]])
    held = stream(segments, past)
    whole = torch.cat([torch.full((2, 1), -2), segments], 1)
    starts = held.starts()
    assert starts is not None
    assert torch.equal(starts, (whole[:, 1:] != whole[:, :-1])[:, past:])
