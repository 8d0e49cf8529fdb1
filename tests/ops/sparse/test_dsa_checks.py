"""What DeepSeek sparse attention refuses, by name."""

import pytest
import torch

from lt2theory.ops import indexed_attention

ONES = torch.ones(2, 5, 3, 4, dtype=torch.float64)
GIVEN = {
    "q": torch.ones(2, 5, 4, 6, dtype=torch.float64),
    "k": torch.ones(2, 5, 2, 6, dtype=torch.float64),
    "v": torch.ones(2, 5, 2, 3, dtype=torch.float64),
    "index_q": ONES,
    "index_k": ONES[:, :, 0],
    "index_weight": ONES[..., 0],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q": ONES[0]}, "q must have 4 axes"),
        ({"top_k": 0}, "top_k must be at least 1, got 0"),
        ({"window": 0}, "window must be at least 1, got 0"),
        ({"index_q": ONES[:, 1:]}, r"index_q must have shape \(2, 5, .*got \(2, 4, 3, 4\)"),
        ({"index_q": ONES[..., :0]}, "index_q must have shape .*index width >= 1"),
        ({"index_q": ONES.float()}, r"index_q must be torch\.float64 as q is, got torch\.float32"),
        ({"index_k": ONES[:, :, 0, 1:]}, r"index_k must have shape \(2, 5, 4\), got \(2, 5, 3\)"),
        ({"index_weight": ONES[:, :, 0]}, r"index_weight must have shape \(2, 5, 3\)"),
        ({"key_segments": torch.zeros(2, 5, dtype=torch.int64)}, "query_segments must be given"),
        (
            {"backend": "flash"},
            "backend of .*: 'flash' is not allowed.*choose from auto, reference, chunked",
        ),
    ],
)
def test_wrong_arguments_are_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        indexed_attention(**{**GIVEN, "top_k": 2, **change})
