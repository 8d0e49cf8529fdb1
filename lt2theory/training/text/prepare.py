"""From text to a corpus: tokenised once, split by content, kept as shards with a manifest."""

import contextlib
import hashlib
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from lt2theory.runs import Progress, ProgressEvent, canonical_json, config_hash, write_json
from lt2theory.runs.atomic import TEMPORARY_SUFFIX
from lt2theory.runs.lock import LOCK_NAME, locked
from lt2theory.runs.prepare import make_folder
from lt2theory.training.text.config import CorpusConfig
from lt2theory.training.text.documents import Document, Source
from lt2theory.training.text.encoding import encode_all
from lt2theory.training.text.manifest import (
    MANIFEST,
    Manifest,
    SourceRecord,
    TokenizerRecord,
    read_manifest,
)
from lt2theory.training.text.shards import SUFFIX
from lt2theory.training.text.sources import open_source
from lt2theory.training.text.tokenizer import Tokenizer, open_tokenizer
from lt2theory.training.text.writing import SplitWriter
from tasks.splits import SPLITS

_MIB = 1 << 20


def prepare(
    config: CorpusConfig,
    folder: Path,
    *,
    workers: int = 0,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> tuple[Manifest, bool]:
    """Tokenise text into the shards of a corpus.

    The bytes are the same whatever the number of processes. A shard is there whole or not at all,
    and a corpus without its manifest, which is written last, is none: after a kill the same
    command starts again.

    Args:
        config: What is read, and how.
        folder: The corpus; made if it is missing.
        workers: Processes that tokenise beside this one, which reads and writes; with 0 it does
            everything. They pay where the tokenizer is slow.
        overwrite: Replace a corpus that is there.
        progress: Told how far the work is, in MiB of files.

    Returns:
        The manifest, and whether it was there before; then nothing is read again.

    Raises:
        ValueError: No such source or tokenizer, no document, a folder that holds something else or
            another corpus, or a document that the tokenizer cannot read.
    """
    if workers < 0:
        raise ValueError(f"workers: {workers} must be >= 0")
    plan = _plan(config)
    make_folder(folder)
    _refuse_other_files(folder)
    with locked(folder):
        if (folder / MANIFEST).exists() and not overwrite:
            return _done_before(folder, plan), True
        _clear(folder)
        with contextlib.closing(_metered(plan, progress)) as documents:
            manifest = _write(plan, documents, folder, workers)
        write_json(folder / MANIFEST, manifest.model_dump(mode="json"))
    return manifest, False


def split_of(digest: bytes, config: CorpusConfig) -> str:
    """The split of a document: a keyed hash of what it is, so that equal ones stay together.

    Args:
        digest: `Encoded.digest`.
        config: The shares and the key.

    Returns:
        "train", "eval" or "test".
    """
    key = f"split {config.split_key}".encode()
    keyed = hashlib.blake2b(digest, digest_size=8, key=key).digest()
    place = int.from_bytes(keyed, "little") / 2**64
    if place < config.eval_share:
        return "eval"
    return "test" if place < config.eval_share + config.test_share else "train"


@dataclass(frozen=True)
class _Plan:
    """What a preparation does, known before anything is read."""

    config: CorpusConfig
    tokenizer: Tokenizer
    sources: list[Source]
    listing: list[tuple[str, int]]

    @property
    def listed(self) -> str:
        """Hash of the listing."""
        return hashlib.sha256(canonical_json(self.listing).encode()).hexdigest()

    @property
    def identity(self) -> str:
        """Hash of all that the corpus depends on, but for the contents of the files."""
        parts = {
            "config": self.config.model_dump(mode="json"),
            "tokenizer": self.tokenizer.fingerprint,
            "listing": self.listed,
        }
        return config_hash(parts)


def _plan(config: CorpusConfig) -> _Plan:
    """Open the tokenizer and find the sources."""
    sources = [open_source(name, config) for name in config.sources]
    listing = [pair for source in sources for pair in source.listing()]
    return _Plan(config, open_tokenizer(config.tokenizer), sources, listing)


def _write(plan: _Plan, documents: Generator[Document], folder: Path, workers: int) -> Manifest:
    """Return what the shards hold that this writes.

    Raises:
        ValueError: There is no document with text.
    """
    config, tokenizer = plan.config, plan.tokenizer
    size, most = tokenizer.vocab_size, config.shard_tokens
    writers = {split: SplitWriter(folder, split, size, most) for split in SPLITS}
    digest = hashlib.sha256()
    lossless = True
    with contextlib.closing(encode_all(documents, tokenizer, workers)) as encoded:
        for document in encoded:
            digest.update(document.digest)
            lossless &= document.lossless
            writers[split_of(document.digest, config)].add(document)
    splits = {split: writer.finish() for split, writer in writers.items()}
    found = sum(record.documents for record in splits.values())
    if not found:
        raise ValueError(f"sources: {', '.join(config.sources)} hold no document with text")
    return Manifest(
        hash=plan.identity,
        config=config,
        tokenizer=TokenizerRecord.of(tokenizer, lossless=lossless),
        source=SourceRecord(
            documents=found,
            bytes=sum(record.bytes for record in splits.values()),
            digest=digest.hexdigest(),
            listing=plan.listed,
        ),
        splits=splits,
    )


def _metered(plan: _Plan, progress: Progress | None) -> Generator[Document]:
    """The documents of all sources, with a word on progress after every MiB of text."""
    done = told = 0
    total = sum(size for _, size in plan.listing)
    for source in plan.sources:
        for document in source.documents():
            yield document
            done += len(document.text)
            if progress is not None and done - told >= _MIB:
                told = done
                # A compressed file holds more text than its size.
                progress(ProgressEvent("tokenise", _mib(done), _mib(max(total, done)), "MiB"))
    if progress is not None:
        progress(ProgressEvent("tokenise", _mib(done), _mib(done), "MiB", final=True))


def _mib(size: int) -> int:
    """Bytes in MiB, rounded up."""
    return -(-size // _MIB)


def _done_before(folder: Path, plan: _Plan) -> Manifest:
    """Return the manifest of a corpus that is what was asked for.

    Raises:
        ValueError: It is of another configuration, tokenizer or list of files.
    """
    manifest = read_manifest(folder)
    if manifest.hash != plan.identity:
        raise ValueError(
            f"{folder} holds a corpus of other options, another tokenizer or other files "
            "(overwrite=True replaces it)"
        )
    return manifest


def _refuse_other_files(folder: Path) -> None:
    """Refuse a folder that holds more than a corpus: a preparation removes shards.

    Raises:
        ValueError: Naming the first such file.
    """
    for path in sorted(folder.iterdir()):
        ours = path.name in (MANIFEST, LOCK_NAME) or path.name.endswith((SUFFIX, TEMPORARY_SUFFIX))
        if not ours:
            raise ValueError(f"{folder} cannot hold a corpus: {path.name} is in it")


def _clear(folder: Path) -> None:
    """Remove an earlier corpus, or what a killed preparation left; the manifest goes first."""
    (folder / MANIFEST).unlink(missing_ok=True)
    for path in folder.iterdir():
        if path.name.endswith((SUFFIX, TEMPORARY_SUFFIX)):
            path.unlink()
