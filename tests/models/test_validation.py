"""What a model refuses, by name."""

from collections.abc import Callable

import pytest
import torch

from lt2theory.models import LoopedModel

Build = Callable[..., LoopedModel]


def test_bad_tokens(build: Build) -> None:
    model = build("toy-gdn")
    with pytest.raises(ValueError, match=r"tokens: id 11 is outside the vocabulary 0\.\.10"):
        model(torch.tensor([[0, 11]]))
    with pytest.raises(ValueError, match="tokens: id -1 is outside"):
        model(torch.tensor([[0, -1]]))
    with pytest.raises(ValueError, match=r"tokens: got torch\.float32"):
        model(torch.zeros(1, 2))


def test_embed_checks_what_it_is_given(build: Build) -> None:
    model = build("toy-gdn", positions="learned", max_length=4)
    with pytest.raises(ValueError, match="tokens: id 11 is outside"):
        model.embed(torch.tensor([[0, 11]]))
    with pytest.raises(ValueError, match=r"length 5 .*max_length = 4"):
        model.embed(torch.zeros(1, 5, dtype=torch.int64))
