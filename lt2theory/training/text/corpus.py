"""A prepared corpus: its splits as unbroken streams of tokens that know where documents begin."""

from pathlib import Path

import numpy as np
from jaxtyping import Bool, Int64, Integer

from lt2theory.cards import listing
from lt2theory.runs.hashing import file_sha256
from lt2theory.training.text.manifest import Manifest, read_manifest
from lt2theory.training.text.shards import Shard, read_shard
from lt2theory.training.text.tokenizer import Tokenizer
from tasks.names import unknown_name

CHECKED_BYTES = 8 << 30
"""Corpora that are read whole before a run: at 2 GB a second, 4 s."""


class TokenStream:
    """The tokens of one split, circular: after the last document comes the first.

    Args:
        folder: The corpus.
        split: Name of the split, which holds a document.
        manifest: What the corpus says of itself.

    Raises:
        ValueError: A shard is missing or not what the manifest says.
    """

    def __init__(self, folder: Path, split: str, manifest: Manifest) -> None:
        record = manifest.splits[split]
        self.split = split
        self.vocab_size = manifest.tokenizer.vocab_size
        self.num_tokens = record.tokens
        self.num_documents = record.documents
        self.num_bytes = record.bytes
        self._shards = [read_shard(folder / shard.name) for shard in record.shards]
        for shard, said in zip(self._shards, record.shards, strict=True):
            if (len(shard.tokens), len(shard.sizes)) != (said.tokens, said.documents):
                raise ValueError(f"{folder / said.name} is not the shard that the manifest names")
        counts = [len(shard.tokens) for shard in self._shards]
        self._first_token = np.cumsum([0, *counts])
        self._first_document = np.cumsum([0, *(len(shard.sizes) for shard in self._shards)])

    def read(
        self, starts: Int64[np.ndarray, "b"], count: int
    ) -> tuple[Int64[np.ndarray, "b t"], Bool[np.ndarray, "b t"]]:
        """Runs of tokens.

        Args:
            starts: Where each run starts, in 0 .. num_tokens - 1.
            count: Tokens of a run, at most `num_tokens` + 1.

        Returns:
            The ids, and where a document begins.

        Raises:
            ValueError: A start or the count is out of range.
        """
        if starts.size and not 0 <= starts.min() <= starts.max() < self.num_tokens:
            raise ValueError(f"starts: must lie in 0..{self.num_tokens - 1}")
        if not 0 <= count <= self.num_tokens + 1:
            raise ValueError(f"count: {count} must lie in 0..{self.num_tokens + 1}")
        tokens = np.empty((len(starts), count), dtype=np.int64)
        begins = np.zeros((len(starts), count), dtype=bool)
        for row, start in enumerate(starts.tolist()):
            done = 0
            while done < count:
                place = (start + done) % self.num_tokens
                done += self._copy(place, tokens[row, done:], begins[row, done:])
        return tokens, begins

    def _copy(
        self, place: int, tokens: Int64[np.ndarray, "n"], begins: Bool[np.ndarray, "n"]
    ) -> int:
        """Fill in what one shard has from a place on; returns how much that was."""
        index = int(np.searchsorted(self._first_token, place, side="right")) - 1
        shard = self._shards[index]
        start = place - int(self._first_token[index])
        part = shard.tokens[start : start + len(tokens)]
        tokens[: len(part)] = part
        # The last offset is the end of the shard, where nothing of it begins.
        bounds = np.array([start, start + len(part)], dtype=np.uint64)
        low, high = np.searchsorted(shard.offsets[:-1], bounds).tolist()
        begins[shard.offsets[low:high].astype(np.int64) - start] = True
        return len(part)

    def document(self, index: int) -> tuple[Integer[np.ndarray, "n"], int]:
        """One document.

        Args:
            index: Which, in 0 .. num_documents - 1.

        Returns:
            Its ids with marks, and the bytes of its text.

        Raises:
            ValueError: There is no such document.
        """
        if not 0 <= index < self.num_documents:
            raise ValueError(
                f"document: {index} of split {self.split} must lie in 0..{self.num_documents - 1}"
            )
        at = int(np.searchsorted(self._first_document, index, side="right")) - 1
        shard: Shard = self._shards[at]
        inner = index - int(self._first_document[at])
        start, stop = (int(place) for place in shard.offsets[inner : inner + 2])
        return shard.tokens[start:stop], int(shard.sizes[inner])


class Corpus:
    """A folder that `prepare` has written.

    Args:
        folder: The folder.

    Raises:
        ValueError: It is no corpus.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self.manifest: Manifest = read_manifest(self.folder)
        self._checked = False

    def _repr_html_(self) -> str:
        """What a notebook shows: the splits."""
        splits = self.manifest.splits.items()
        rows = [(name, one.documents, one.tokens, one.bytes) for name, one in splits]
        title = f"Corpus {self.folder}, tokens of {self.manifest.tokenizer.name}"
        return listing(title, ("split", "documents", "tokens", "bytes"), rows)

    @property
    def vocab_size(self) -> int:
        """One more than the largest id: what a model of this corpus needs at least."""
        return self.manifest.tokenizer.vocab_size

    def stream(self, split: str) -> TokenStream:
        """The tokens of a split.

        Args:
            split: "train", "eval" or "test".

        Returns:
            The stream.

        Raises:
            ValueError: There is no such split, it holds nothing, or a shard is damaged.
        """
        record = self.manifest.splits.get(split)
        if record is None:
            raise ValueError(unknown_name("split", split, self.manifest.splits))
        if not record.documents:
            raise ValueError(
                f"split: {split!r} of {self.folder} holds no document; prepare it with a larger "
                "share or more documents"
            )
        return TokenStream(self.folder, split, self.manifest)

    def tokenizer(self) -> Tokenizer:
        """Open the tokenizer of the corpus.

        Returns:
            The tokenizer.

        Raises:
            ValueError: It is gone, or has changed since.
        """
        return self.manifest.tokenizer.open(f"{self.folder} was prepared")

    def check(self) -> None:
        """Refuse a corpus whose shards are not what was prepared, before a run reads it.

        Up to `CHECKED_BYTES` they are read once; of larger corpora `TokenStream` compares sizes.

        Raises:
            ValueError: A shard is missing or not what it was.
        """
        records = [record for split in self.manifest.splits.values() for record in split.shards]
        paths = [self.folder / record.name for record in records]
        size = sum(path.stat().st_size for path in paths if path.is_file())
        if self._checked or size > CHECKED_BYTES:
            return
        if bad := self.damaged():
            raise ValueError(
                f"{self.folder / bad[0]} is not what the manifest says: prepare the corpus again"
            )
        self._checked = True

    def damaged(self) -> list[str]:
        """Read all shards and compare them with the hashes in the manifest.

        Returns:
            Names of the shards that are missing or not what they were; none if all is well.
        """
        bad = []
        for record in self.manifest.splits.values():
            for shard in record.shards:
                path = self.folder / shard.name
                if not path.is_file() or file_sha256(path) != shard.sha256:
                    bad.append(shard.name)
        return bad
