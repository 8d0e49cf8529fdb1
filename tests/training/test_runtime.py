import numpy as np
import pytest
import torch

from lt2theory.training import Runtime, torch_threads


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_a_missing_device_is_named() -> None:
    with pytest.raises(ValueError, match=r"device: got 'cuda', .*allowed: 'cpu'"):
        Runtime.of("cuda", "float32")


def test_autocast_follows_the_dtype() -> None:
    weight = torch.ones(2, 2)
    for dtype, expected in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        with Runtime.of("cpu", dtype).autocast():
            assert (weight @ weight).dtype == expected


def test_arrays_keep_their_dtype() -> None:
    runtime = Runtime.of("cpu", "float32")
    assert runtime.device_name == "cpu"
    assert runtime.tensor(np.array([[True, False]])).dtype == torch.bool
    assert runtime.tensor(np.arange(3)).tolist() == [0, 1, 2]


def test_threads_are_set_and_put_back() -> None:
    before = torch.get_num_threads()
    with torch_threads(before + 1) as threads:
        assert threads == before + 1 == torch.get_num_threads()
    with torch_threads(None) as threads:
        assert threads == before
    assert torch.get_num_threads() == before
