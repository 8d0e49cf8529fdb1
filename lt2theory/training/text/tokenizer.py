"""From text to token ids and back: bytes as they are, or a Hugging Face tokenizer from a folder."""

import hashlib
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Integer

BYTES = "bytes"
"""Name of the tokenizer that takes every byte for a token."""


@runtime_checkable
class Tokenizer(Protocol):
    """What text data needs of a tokenizer.

    A document is stored as `begin`, its tokens, `end`, so that a model is asked for the first token
    of a document and for its end.
    """

    @property
    def name(self) -> str:
        """What `open_tokenizer` takes to open it again."""

    @property
    def vocab_size(self) -> int:
        """One more than the largest id, marks included."""

    @property
    def begin(self) -> int:
        """Id of the mark before a document."""

    @property
    def end(self) -> int:
        """Id of the mark after a document; may be that of `begin`."""

    @property
    def fingerprint(self) -> str:
        """A hash of everything that decides which ids a text gets."""

    def encode(self, text: bytes) -> Integer[np.ndarray, "n"]:
        """Ids of a text, without marks.

        Raises:
            ValueError: The tokenizer cannot read these bytes.
        """

    def decode(self, tokens: Integer[np.ndarray, "n"]) -> bytes:
        """The text of ids; marks are left out."""


class ByteTokenizer:
    """Every byte is a token; 256 and 257 mark where a document begins and ends.

    Any bytes can be written and come back as they were, whether or not they are UTF-8.
    """

    name = BYTES
    vocab_size = 258
    begin = 256
    end = 257
    fingerprint = hashlib.sha256(b"bytes 256 257").hexdigest()

    def encode(self, text: bytes) -> Integer[np.ndarray, "n"]:
        """Ids of a text.

        Args:
            text: Any bytes.

        Returns:
            Their values, uint8.
        """
        return np.frombuffer(text, dtype=np.uint8)

    def decode(self, tokens: Integer[np.ndarray, "n"]) -> bytes:
        """The text of ids.

        Args:
            tokens: Ids; those that are no byte are left out.

        Returns:
            The bytes.
        """
        return tokens[tokens < 256].astype(np.uint8).tobytes()


def open_tokenizer(name: str) -> Tokenizer:
    """Open a tokenizer by its name.

    Args:
        name: `bytes`, or the path of a folder with a Hugging Face tokenizer (or of its
            tokenizer.json). Nothing is downloaded.

    Returns:
        The tokenizer.

    Raises:
        ValueError: There is none, or the package that reads it is missing.
    """
    if name == BYTES:
        return ByteTokenizer()
    # Hugging Face's packages take seconds to import, and bytes need none of them.
    from lt2theory.training.text.hf_tokenizer import open_hugging_face

    return open_hugging_face(name)


def marked(tokenizer: Tokenizer, texts: Sequence[bytes]) -> list[Integer[np.ndarray, "n"]]:
    """Ids of documents as they are stored: `begin`, the text, `end`.

    Args:
        tokenizer: The tokenizer.
        texts: The documents.

    Returns:
        For every document its ids, of `token_dtype`.
    """
    dtype = token_dtype(tokenizer.vocab_size)
    documents = []
    for text in texts:
        ids = tokenizer.encode(text)
        document = np.empty(len(ids) + 2, dtype=dtype)
        document[0], document[1:-1], document[-1] = tokenizer.begin, ids, tokenizer.end
        documents.append(document)
    return documents


def token_dtype(vocab_size: int) -> np.dtype[np.unsignedinteger]:
    """The dtype in which ids are stored, little-endian on every machine.

    Args:
        vocab_size: One more than the largest id.

    Returns:
        uint16, or uint32 where ids do not fit.
    """
    return np.dtype("<u2" if vocab_size <= 1 << 16 else "<u4")
