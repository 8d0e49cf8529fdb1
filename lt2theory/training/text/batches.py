"""Training batches of a corpus: `batch = f(seed, step)`, the same for any number of ranks."""

from functools import lru_cache
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int64

from lt2theory.training.text.corpus import TokenStream
from lt2theory.training.text.permutation import Permutation
from tasks.streams import Stream

NO_TARGET = -100
"""What `torch.nn.functional.cross_entropy` leaves out."""


class TextBatch(NamedTuple):
    """Windows of text.

    Attributes:
        inputs: Ids.
        targets: The id after each; `NO_TARGET` where that begins another document.
        documents: A number for the document of each input, which changes where another begins, as
            `LoopedModel.forward` takes it.
    """

    inputs: Int64[np.ndarray, "b t"]
    targets: Int64[np.ndarray, "b t"]
    documents: Int64[np.ndarray, "b t"]


@runtime_checkable
class Windows(Protocol):
    """Windows of a step, as a pure function of the step and the row."""

    def rows(self, step: int, start: int, stop: int) -> TextBatch:
        """Some windows of a step.

        Args:
            step: Steps done before.
            start: The first window.
            stop: One after the last.

        Returns:
            `stop - start` windows.
        """


class TextBatches:
    """Windows of a split in a shuffled order, by step.

    An epoch reads the circular stream in windows that lie side by side, from an offset of its own,
    each once, in an order of its own; fewer than `length` tokens an epoch are left out, at another
    place each time. Nothing is held but the files that are mapped into memory.

    Args:
        stream: The split.
        length: Tokens of a window.
        batch_size: Windows of a step, over all ranks.
        seed: Seed of the offsets and orders.

    Raises:
        ValueError: An argument is out of range, or the split is shorter than a window.
    """

    def __init__(self, stream: TokenStream, *, length: int, batch_size: int, seed: int) -> None:
        for name, value, least in (
            ("length", length, 1),
            ("batch_size", batch_size, 1),
            ("seed", seed, 0),
        ):
            if value < least:
                raise ValueError(f"{name}: {value} must be >= {least}")
        if stream.num_tokens < length:
            raise ValueError(
                f"length: {length} must be at most the {stream.num_tokens} tokens of split "
                f"{stream.split}"
            )
        self.length = length
        self.batch_size = batch_size
        self.seed = seed
        self.num_windows = stream.num_tokens // length
        self._stream = stream
        self._epoch = lru_cache(maxsize=4)(self._open_epoch)

    @property
    def tokens_per_step(self) -> int:
        """Tokens that a step reads, over all ranks."""
        return self.batch_size * self.length

    def batch(self, step: int, *, rank: int = 0, num_ranks: int = 1) -> TextBatch:
        """The windows of a rank at a step.

        Args:
            step: Steps done before.
            rank: Which rank.
            num_ranks: How many share the batch; the batches of all ranks, one below the other, are
                that of one.

        Returns:
            `batch_size / num_ranks` windows.

        Raises:
            ValueError: The step or the rank is out of range, or the ranks cannot share a batch
                evenly.
        """
        if num_ranks < 1 or self.batch_size % num_ranks:
            raise ValueError(
                f"num_ranks: {num_ranks} must divide the batch_size of {self.batch_size}"
            )
        if not 0 <= rank < num_ranks:
            raise ValueError(f"rank: {rank} must lie in 0..{num_ranks - 1}")
        share = self.batch_size // num_ranks
        return self.rows(step, rank * share, (rank + 1) * share)

    def rows(self, step: int, start: int, stop: int) -> TextBatch:
        """Some windows of a step, as for gradients that are accumulated.

        Args:
            step: Steps done before.
            start: The first window.
            stop: One after the last.

        Returns:
            `stop - start` windows.

        Raises:
            ValueError: The step or the rows are out of range.
        """
        if step < 0:
            raise ValueError(f"step: {step} must be >= 0")
        if not 0 <= start < stop <= self.batch_size:
            raise ValueError(f"rows: {start}..{stop} must lie in 0..{self.batch_size}")
        starts = self._starts(step * self.batch_size + np.arange(start, stop, dtype=np.int64))
        tokens, begins = self._stream.read(starts, self.length + 1)
        targets = np.where(begins[:, 1:], NO_TARGET, tokens[:, 1:])
        return TextBatch(tokens[:, :-1].copy(), targets, begins[:, :-1].cumsum(1, dtype=np.int64))

    def _starts(self, windows: Int64[np.ndarray, "n"]) -> Int64[np.ndarray, "n"]:
        """Where windows begin that are counted over all epochs."""
        starts = np.empty_like(windows)
        epochs, places = np.divmod(windows, self.num_windows)
        for epoch in np.unique(epochs).tolist():
            chosen = epochs == epoch
            offset, shuffled = self._epoch(epoch)
            starts[chosen] = offset + shuffled(places[chosen]) * self.length
        return starts % self._stream.num_tokens

    def _open_epoch(self, epoch: int) -> tuple[int, Permutation]:
        """Offset and order of an epoch."""
        words = Stream("text offset", self.seed, epoch).words(1)
        offset = int(words[0]) % self._stream.num_tokens
        return offset, Permutation(self.num_windows, "text windows", self.seed, epoch)
