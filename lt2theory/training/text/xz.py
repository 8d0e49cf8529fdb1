"""What `xz -9` spends on the same text: a floor that needs no model.

A language model of bytes that spends more has learnt less than a compressor that knows nothing.
"""

import lzma
from collections.abc import Iterable
from dataclasses import dataclass

from lt2theory.training.text.corpus import Corpus, TokenStream

PRESET = 9
WINDOW = 1 << 26
"""How far preset 9 looks back: earlier training text has no effect."""


@dataclass(frozen=True)
class XzBaseline:
    """Bits per byte of `xz -9`.

    Attributes:
        alone: Of the held-out text alone.
        primed: Of the held-out text after the training text, whose own size is subtracted.
        held_out_bytes: Bytes of the held-out text.
        training_bytes: Bytes of the training text that stood before it, at most 64 MiB.
    """

    alone: float
    primed: float
    held_out_bytes: int
    training_bytes: int


def xz_baseline(corpus: Corpus, split: str = "eval") -> XzBaseline:
    """Compress a held-out split of a corpus, alone and after the training text.

    The documents are joined without a mark between them, which favours the compressor a little. It
    needs 0.7 GB of memory, and about 2 s a MB.

    Args:
        corpus: The corpus; its tokenizer must give the text back.
        split: Which split is held out.

    Returns:
        Both numbers.

    Raises:
        ValueError: A split holds nothing, or the tokenizer has lost something of the text.
    """
    if not corpus.manifest.tokenizer.lossless:
        raise ValueError(
            f"tokenizer: {corpus.manifest.tokenizer.name!r} does not give the text back, so there "
            "is no text to compress"
        )
    held_out = b"".join(texts(corpus, corpus.stream(split)))
    train = corpus.stream("train")
    training = b"".join(texts(corpus, train, most=WINDOW))[-WINDOW:]
    return XzBaseline(
        alone=xz_bits_per_byte(held_out),
        primed=xz_bits_per_byte(held_out, training=training),
        held_out_bytes=len(held_out),
        training_bytes=len(training),
    )


def texts(corpus: Corpus, stream: TokenStream, *, most: int | None = None) -> Iterable[bytes]:
    """The documents of a split as text.

    Args:
        corpus: The corpus, for its tokenizer.
        stream: The split.
        most: Only the last documents that together have at least so many bytes; None is all.

    Returns:
        The documents in order.
    """
    tokenizer = corpus.tokenizer()
    first = stream.num_documents
    size = 0
    while first and (most is None or size < most):
        first -= 1
        size += stream.document(first)[1]
    return (
        tokenizer.decode(stream.document(index)[0][1:-1])
        for index in range(first, stream.num_documents)
    )


def xz_bits_per_byte(held_out: bytes, *, training: bytes = b"") -> float:
    """Bits that `xz -9` spends on a byte.

    Args:
        held_out: The text that counts, not empty.
        training: Text that stands before it in the same stream; the size of its own compressed
            stream is subtracted.

    Returns:
        Bits per byte of `held_out`.

    Raises:
        ValueError: `held_out` is empty.
    """
    if not held_out:
        raise ValueError("held_out: must not be empty")
    size = len(lzma.compress(training + held_out, preset=PRESET))
    if training:
        size -= len(lzma.compress(training, preset=PRESET))
    return 8 * size / len(held_out)
