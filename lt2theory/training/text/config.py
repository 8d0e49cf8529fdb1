"""What a corpus is made from; the fields and their texts are also the command-line options."""

import re

from pydantic import Field, model_validator

from lt2theory.fields import Frozen
from lt2theory.training.text.tokenizer import BYTES

_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\"}


class CorpusConfig(Frozen):
    """Where the text comes from and how it becomes token shards.

    The shards are a function of this and of the text: not of the number of processes.
    """

    sources: tuple[str, ...] = Field(
        min_length=1,
        description="Files and folders (text, .jsonl, .parquet, also with .gz), 'excerpt' (54 kB "
        "that come with the package), or 'dataset:NAME[:CONFIG]:SPLIT' from Hugging Face.",
    )
    tokenizer: str = Field(
        BYTES, description="'bytes', or a folder with a Hugging Face tokenizer (tokenizer.json)."
    )
    glob: str = Field(
        "**/*",
        min_length=1,
        description="Which files of a folder; with the default those of known endings.",
    )
    text_field: str = Field(
        "text", min_length=1, description="Field of the text in .jsonl, .parquet and datasets."
    )
    separator: str | None = Field(
        None,
        min_length=1,
        description="What stands between the documents of a text file, such as '<|endoftext|>' "
        "(a backslash and n is a line end); without it a file is one document.",
    )
    piece_bytes: int | None = Field(
        None,
        ge=64,
        description="Cut longer documents of text files into pieces of at most so many bytes, at "
        "line ends where there are any.",
    )
    eval_share: float = Field(
        0.05, ge=0, lt=1, description="Share of the documents held out for evaluation."
    )
    test_share: float = Field(
        0.05, ge=0, lt=1, description="Share of the documents held out for a last test."
    )
    split_key: int = Field(
        0,
        ge=0,
        description="Key of the hash that says which documents are held out; equal documents "
        "always fall into one split.",
    )
    shard_tokens: int = Field(
        1 << 25,
        ge=1,
        le=1 << 31,
        description="A shard is closed after the document that reaches so many tokens; while it "
        "is filled it stays in memory.",
    )

    @model_validator(mode="after")
    def _check(self) -> "CorpusConfig":
        if self.eval_share + self.test_share >= 1:
            raise ValueError(
                f"eval_share: {self.eval_share} with test_share {self.test_share} leaves nothing "
                "to train on; the two must add up to less than 1"
            )
        return self

    @property
    def separator_bytes(self) -> bytes | None:
        r"""The separator with `\n`, `\r`, `\t` and `\\` read as escapes, as UTF-8."""
        if self.separator is None:
            return None
        return re.sub(r"\\([nrt\\])", lambda found: _ESCAPES[found[1]], self.separator).encode()
