"""Documents of a text file that is read block by block, whatever its size."""

from collections.abc import Iterator
from io import BufferedIOBase

LARGEST_WHOLE = 1 << 30
"""A text file that is one document is kept in memory several times over."""

_BLOCK = 1 << 20


def cut(
    file: BufferedIOBase, name: str, *, separator: bytes | None, piece_bytes: int | None
) -> Iterator[bytes]:
    """The documents of a text file, which together are the file without the separators.

    Args:
        file: Open for reading bytes.
        name: What to call it in an error.
        separator: What stands between documents; None where the file is one.
        piece_bytes: The largest document; longer ones are cut after their last line end within
            that size, without one after a whole character of UTF-8.

    Yields:
        Documents in order, empty ones too.

    Raises:
        ValueError: A document is too large to be held in memory.
    """
    if separator is None and piece_bytes is None:
        yield _checked(file.read(LARGEST_WHOLE + 1), name)
        return
    # Between two blocks the separator may be cut in two, so that its beginning is no text yet.
    unsure = len(separator or b" ") - 1
    rest = b""
    for block in iter(lambda: file.read(_BLOCK), b""):
        rest += block
        if separator is not None:
            *whole, rest = rest.split(separator)
            for document in whole:
                yield from _pieces(document, piece_bytes, 0)
        if piece_bytes is not None:
            *pieces, rest = _pieces(rest, piece_bytes, unsure)
            yield from pieces
        _checked(rest, name)
    yield from _pieces(rest, piece_bytes, 0)


def _checked(document: bytes, name: str) -> bytes:
    """Return a document that is not too large.

    Raises:
        ValueError: It is.
    """
    if len(document) > LARGEST_WHOLE:
        raise ValueError(
            f"{name}: a document of more than {LARGEST_WHOLE >> 20} MiB; give a separator or "
            "piece_bytes"
        )
    return document


def _pieces(document: bytes, most: int | None, unsure: int) -> Iterator[bytes]:
    """A document in pieces of at most so many bytes; the last may have `unsure` bytes more."""
    start = 0
    while most is not None and len(document) - start > most + unsure:
        end = _end(document, start, start + most)
        yield document[start:end]
        start = end
    yield document[start:]


def _end(text: bytes, start: int, most: int) -> int:
    """Where a piece that begins at `start` ends, at `most` at the latest; text goes on there."""
    line = text.rfind(b"\n", start, most) + 1
    if line:
        return line
    end = most
    # Bytes 10xxxxxx go on with a character, of which there are at most three.
    while end > most - 4 and text[end] & 0xC0 == 0x80:
        end -= 1
    return end
