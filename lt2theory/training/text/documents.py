"""What every source of text gives: documents, each with its origin."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol, runtime_checkable

DATASET = "dataset:"
"""Begins the name of a source that is a Hugging Face dataset."""


class Document(NamedTuple):
    """A text and where it was found, for errors."""

    text: bytes
    origin: str


@runtime_checkable
class Source(Protocol):
    """Documents in an order that is always the same."""

    def listing(self) -> list[tuple[str, int]]:
        """Names and sizes by which a changed source is noticed without reading it."""

    def documents(self) -> Iterator[Document]:
        """All documents, empty ones too."""


def encoded(text: object, field: str, origin: str) -> bytes:
    """A field's text as UTF-8.

    Args:
        text: Its value.
        field: Its name.
        origin: Where it was found.

    Returns:
        The bytes.

    Raises:
        ValueError: It is no text, or holds half a surrogate pair.
    """
    if not isinstance(text, str):
        found = "no such field" if text is None else f"a {type(text).__name__}"
        raise ValueError(f"text_field: {field!r} of {origin} is no text (it is {found})")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{origin} cannot be written as UTF-8: {error.reason}") from error
