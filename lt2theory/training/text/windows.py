"""Documents in overlapping windows: each token is predicted once, with enough before it."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

from lt2theory.training.text.batches import NO_TARGET
from lt2theory.training.text.corpus import TokenStream


@dataclass(frozen=True)
class Window:
    """What of a document is read at once.

    Attributes:
        row: Which document.
        start: Its first token.
        stop: One after its last token; the last is predicted, not read.
        scored: The first token that is predicted here and was not before.
    """

    row: int
    start: int
    stop: int
    scored: int


def window_batches(
    stream: TokenStream, rows: range, length: int, context: int, at_once: int
) -> Iterator[list[Window]]:
    """Windows of documents in order, as many together as fit.

    Args:
        stream: A split of a corpus.
        rows: Which documents.
        length: Most tokens that are read at once.
        context: Least tokens before a predicted one, where the document has as many.
        at_once: Most tokens of a batch, padding included; a window alone may be longer.

    Yields:
        Batches of windows; every token of a document but the first is scored in exactly one.
    """
    batch: list[Window] = []
    longest = 0
    for window in _windows(stream, rows, length, context):
        widest = max(longest, window.stop - window.start - 1)
        if batch and widest * (len(batch) + 1) > at_once:
            yield batch
            batch, widest = [], window.stop - window.start - 1
        batch.append(window)
        longest = widest
    if batch:
        yield batch


def _windows(stream: TokenStream, rows: range, length: int, context: int) -> Iterator[Window]:
    """The windows of each document: every token but the first is scored in exactly one."""
    for row in rows:
        size = len(stream.document(row)[0])
        start, scored = 0, 1
        while scored < size:
            stop = min(start + length + 1, size)
            yield Window(row, start, stop, scored)
            start, scored = stop - context, stop


def filled_windows(
    stream: TokenStream, windows: list[Window]
) -> tuple[Int64[np.ndarray, "b t"], Int64[np.ndarray, "b t"], Int64[np.ndarray, "b t"]]:
    """Windows as arrays, filled up on the right by padding.

    Args:
        stream: The split that they are of.
        windows: The windows.

    Returns:
        Inputs, targets (`NO_TARGET` where a token is not scored here) and documents (-1 for
        padding).
    """
    shape = len(windows), max(window.stop - window.start for window in windows) - 1
    inputs = np.zeros(shape, dtype=np.int64)
    targets = np.full(shape, NO_TARGET, dtype=np.int64)
    ids = np.full(shape, -1, dtype=np.int64)
    for row, window in enumerate(windows):
        tokens = stream.document(window.row)[0][window.start : window.stop].astype(np.int64)
        read = len(tokens) - 1
        first = window.scored - window.start
        inputs[row, :read] = tokens[:-1]
        targets[row, first - 1 : read] = tokens[first:]
        ids[row, :read] = 0
    return inputs, targets, ids
