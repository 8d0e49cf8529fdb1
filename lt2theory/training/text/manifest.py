"""What a prepared corpus says of itself: `manifest.json`, written last."""

from pathlib import Path

from pydantic import ConfigDict, Field, ValidationError

from lt2theory.fields import KnownFields, first_refusal
from lt2theory.runs import read_json
from lt2theory.runs.found import found
from lt2theory.training.text.config import CorpusConfig
from lt2theory.training.text.tokenizer import Tokenizer

MANIFEST = "manifest.json"
VERSION = 1


class _Frozen(KnownFields):
    model_config = ConfigDict(frozen=True)


class ShardRecord(_Frozen):
    """One file of tokens."""

    name: str = Field(pattern=r"^[a-z]+-[0-9]+\.tokens$")
    tokens: int
    documents: int
    sha256: str


class SplitRecord(_Frozen):
    """One split: what it holds, and its shards in order."""

    documents: int
    tokens: int
    bytes: int
    shards: tuple[ShardRecord, ...]


class TokenizerRecord(_Frozen):
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


class SourceRecord(_Frozen):
    """The text of a corpus."""

    documents: int = Field(description="Documents that have text.")
    bytes: int
    digest: str = Field(description="SHA-256 over the hashes of all documents, in order.")
    listing: str = Field(description="SHA-256 over the names and sizes of the files.")


class Manifest(_Frozen):
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
    try:
        return Manifest.model_validate(value)
    except ValidationError as error:
        raise ValueError(f"{path} is damaged: {first_refusal(error, 'manifest')}") from error
