"""What a prepared corpus says of itself: `manifest.json`, written last."""

from pathlib import Path

from pydantic import Field

from lt2theory.fields import KnownFields
from lt2theory.runs import read_json
from lt2theory.runs.found import found
from lt2theory.training.records import checked
from lt2theory.training.text.config import CorpusConfig
from lt2theory.training.text.tokenizer import Tokenizer, open_tokenizer

MANIFEST = "manifest.json"
VERSION = 1


class ShardRecord(KnownFields, frozen=True):
    """One file of tokens."""

    name: str = Field(pattern=r"^[a-z]+-[0-9]+\.tokens$")
    tokens: int
    documents: int
    sha256: str


class SplitRecord(KnownFields, frozen=True):
    """One split: what it holds, and its shards in order."""

    documents: int
    tokens: int
    bytes: int
    shards: tuple[ShardRecord, ...]


class TokenizerRecord(KnownFields, frozen=True):
    """The tokenizer of a corpus, by which it is found and known again."""

    name: str
    vocab_size: int
    begin: int
    end: int
    fingerprint: str
    lossless: bool = Field(description="Whether a sample of the documents came back as they were.")

    @classmethod
    def of(cls, tokenizer: Tokenizer, *, lossless: bool) -> "TokenizerRecord":
        """Describe a tokenizer.

        Args:
            tokenizer: The tokenizer.
            lossless: Whether documents came back.

        Returns:
            The record.
        """
        return cls(
            name=tokenizer.name,
            vocab_size=tokenizer.vocab_size,
            begin=tokenizer.begin,
            end=tokenizer.end,
            fingerprint=tokenizer.fingerprint,
            lossless=lossless,
        )

    def open(self, since: str) -> Tokenizer:
        """Open the tokenizer.

        Args:
            since: What was done with it then, for the message.

        Returns:
            The tokenizer.

        Raises:
            ValueError: It is gone, or another one by now.
        """
        tokenizer = open_tokenizer(self.name)
        if tokenizer.fingerprint != self.fingerprint:
            raise ValueError(f"tokenizer: {self.name!r} has changed since {since}")
        return tokenizer


class SourceRecord(KnownFields, frozen=True):
    """The text of a corpus."""

    documents: int = Field(description="Documents that have text.")
    bytes: int
    digest: str = Field(description="SHA-256 over the hashes of all documents, in order.")
    listing: str = Field(description="SHA-256 over the names and sizes of the files.")


class Manifest(KnownFields, frozen=True):
    """All of it."""

    version: int = VERSION
    hash: str = Field(description="Of the configuration, the tokenizer and the listing.")
    config: CorpusConfig
    tokenizer: TokenizerRecord
    source: SourceRecord
    splits: dict[str, SplitRecord]


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a corpus.

    Args:
        folder: The corpus.

    Returns:
        The manifest.

    Raises:
        ValueError: There is none, as after an interrupted preparation, or it is damaged or of
            another version.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise ValueError(
            f"{folder} is no prepared corpus (it has no {MANIFEST}; 'lt2 data prepare' writes one, "
            f"last of all); found {found(folder)}"
        )
    value = read_json(path)
    if "splits" not in value:
        raise ValueError(f"{folder} is no prepared corpus; found {found(folder)}")
    if value.get("version") != VERSION:
        raise ValueError(
            f"{path} is of version {value.get('version')}; this program reads version {VERSION}"
        )
    return checked(Manifest, value, path)
