"""The documents of one split on their way into shards."""

import hashlib
from pathlib import Path

from lt2theory.training.text.encoding import Encoded
from lt2theory.training.text.manifest import ShardRecord, SplitRecord
from lt2theory.training.text.shards import SUFFIX, write_shard


class SplitWriter:
    """Collects documents and writes a shard whenever there are enough.

    Args:
        folder: Where the shards go.
        split: Name of the split.
        vocab_size: One more than the largest id.
        shard_tokens: A shard is closed after the document that reaches so many.
    """

    def __init__(self, folder: Path, split: str, vocab_size: int, shard_tokens: int) -> None:
        self._folder = folder
        self._split = split
        self._vocab_size = vocab_size
        self._shard_tokens = shard_tokens
        self._open: list[Encoded] = []
        self._tokens = 0
        self._bytes = 0
        self._shards: list[ShardRecord] = []

    def add(self, document: Encoded) -> None:
        """Take a document.

        Args:
            document: The next of the split.
        """
        self._open.append(document)
        self._tokens += len(document.tokens)
        self._bytes += document.size
        if self._tokens >= self._shard_tokens:
            self._close()

    def finish(self) -> SplitRecord:
        """Write what is left.

        Returns:
            What the split holds; perhaps nothing.
        """
        if self._open:
            self._close()
        return SplitRecord(
            documents=sum(shard.documents for shard in self._shards),
            tokens=sum(shard.tokens for shard in self._shards),
            bytes=self._bytes,
            shards=tuple(self._shards),
        )

    def _close(self) -> None:
        """Write a shard of what was collected."""
        name = f"{self._split}-{len(self._shards):05d}{SUFFIX}"
        tokens = [document.tokens for document in self._open]
        sizes = [document.size for document in self._open]
        data = write_shard(self._folder / name, tokens, sizes, vocab_size=self._vocab_size)
        record = ShardRecord(
            name=name,
            tokens=self._tokens,
            documents=len(tokens),
            sha256=hashlib.sha256(data).hexdigest(),
        )
        self._shards.append(record)
        self._open, self._tokens = [], 0
