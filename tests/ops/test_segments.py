"""What segments mean to every attention and backend, against each segment by itself.

Softmax attention and DeepSeek's join what has one number, wherever it stands; to native sparse
attention every run of equal numbers is a segment. Padding reads nothing and gives zeros.
"""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from lt2theory.ops import indexed_attention, native_sparse_attention, softmax_attention

PADDING = -1
ROWS = {
    "again": [0, 0, 1, 1, 0, 0, 1, 0, 2, 2, 2, 0, 0],
    "single tokens": [4, 0, 3, 1, 2, 9, 7, 8, 5, 6, 11, 10, 12],
    "in turn": [1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1],
    "with padding": [-1, 0, 0, -1, 0, 1, -3, -3, 1, 1, 0, -1, 1],
    "padding alone": [-1, -1, -2, -2, -1, -1, -1, -1, -5, -1, -1, -1, -1],
    "one": [7] * 13,
}
LENGTH = 13
WIDTHS = {"q": (4, 8), "k": (2, 8), "v": (2, 6), "gates": (4, 3)}
INDEX = {"index_q": (3, 4), "index_k": (4,), "index_weight": (3,)}
BACKENDS = [
    "reference",
    "chunked",
    "auto",
    pytest.param("triton", marks=pytest.mark.interpreter),
]

Attend = Callable[..., Tensor]
OPS: dict[str, tuple[Attend, tuple[str, ...]]] = {
    "softmax": (softmax_attention, ("q", "k", "v")),
    "indexed": (partial(indexed_attention, top_k=2), ("q", "k", "v", *INDEX)),
    "native": (
        partial(native_sparse_attention, block_size=2, num_blocks=2),
        ("q", "k", "v", "gates"),
    ),
}


def tokens_of(ids: list[int], *, runs: bool) -> list[list[int]]:
    """The tokens of every segment, in order."""
    groups: dict[int, list[int]] = {}
    number = 0
    for token, segment in enumerate(ids):
        number += token > 0 and segment != ids[token - 1]
        if segment >= 0:
            groups.setdefault(number if runs else segment, []).append(token)
    return list(groups.values())


def inputs(names: tuple[str, ...], dtype: torch.dtype) -> dict[str, Tensor]:
    """For as many rows as there are; the indexer's are whole numbers, whose scores are exact."""
    generator = torch.Generator().manual_seed(0)
    drawn = {}
    for name, size in (WIDTHS | INDEX).items():
        shape = (len(ROWS), LENGTH, *size)
        x = torch.randn(shape, generator=generator, dtype=torch.float64)
        drawn[name] = (x.round() if name in INDEX else x).to(dtype)
    return {name: drawn[name] for name in names}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("past", [0, 4])
@pytest.mark.parametrize("op", OPS)
def test_every_segment_is_by_itself(op: str, past: int, backend: str) -> None:
    attend, names = OPS[op]
    dtype = torch.float32 if backend == "triton" else torch.float64
    given = inputs(names, dtype)
    ids = torch.tensor(list(ROWS.values()))
    asked = {
        name: x[:, past:] if name in ("q", "gates", "index_q", "index_weight") else x
        for name, x in given.items()
    }
    found = attend(**asked, query_segments=ids[:, past:], key_segments=ids, backend=backend)
    wanted = torch.zeros(len(ROWS), LENGTH, 4, 6, dtype=torch.float64)
    for row, segments in enumerate(ROWS.values()):
        for tokens in tokens_of(segments, runs=op == "native"):
            alone = {name: x[row : row + 1, tokens].double() for name, x in given.items()}
            wanted[row, tokens] = attend(**alone, backend="reference")[0]
    close = {"atol": 1e-5, "rtol": 0} if dtype == torch.float32 else {"atol": 1e-12, "rtol": 0}
    torch.testing.assert_close(found.double(), wanted[:, past:], **close)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_window_counts_tokens_whatever_their_segments(backend: str) -> None:
    dtype = torch.float32 if backend == "triton" else torch.float64
    given = inputs(("q", "k", "v"), dtype)
    ids = torch.tensor(list(ROWS.values()))
    segments = {"query_segments": ids, "key_segments": ids}
    found = softmax_attention(**given, **segments, window=3, backend=backend)
    wanted = torch.zeros_like(found, dtype=torch.float64)
    for row, of_row in enumerate(ROWS.values()):
        for token, segment in enumerate(of_row):
            near = [t for t in range(max(0, token - 2), token + 1) if of_row[t] == segment >= 0]
            if near:
                alone = {name: given[name][row : row + 1, near].double() for name in given}
                wanted[row, token] = softmax_attention(**alone, backend="reference")[0, -1]
    atol = 1e-5 if dtype == torch.float32 else 1e-12
    torch.testing.assert_close(found.double(), wanted, atol=atol, rtol=0)


@pytest.mark.interpreter
@pytest.mark.parametrize("window", [None, 3])
def test_flas_kernel_is_right_or_refuses(window: int | None, fla: object) -> None:
    """It reads borders of runs, so what comes again is not for it."""
    given, settled = inputs(("q", "k", "v"), torch.float32), {}
    for name, of_row in ROWS.items():
        ids = torch.tensor([of_row])
        row = list(ROWS).index(name)
        own = {key: x[row : row + 1] for key, x in given.items()}
        run = partial(softmax_attention, **own, query_segments=ids, key_segments=ids, window=window)
        try:
            settled[name] = run(backend="fla")
        except ValueError as refusal:
            assert "comes again in row 0" in str(refusal)  # noqa: PT017 - the others are compared
            continue
        torch.testing.assert_close(settled[name], run(backend="reference"), atol=1e-5, rtol=0)
    assert sorted(settled) == ["one", "padding alone", "single tokens"]
