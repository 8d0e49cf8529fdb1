"""Cutting a stream: the same documents as splitting the whole text, whatever the blocks."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lt2theory.training.text import cutting
from lt2theory.training.text.cutting import cut


class Dribble(io.BytesIO):
    """A file that gives few bytes at a time."""

    def __init__(self, data: bytes, most: int) -> None:
        super().__init__(data)
        self.most = most

    def read(self, size: int | None = -1, /) -> bytes:
        wanted = self.most if size is None or size < 0 else min(size, self.most)
        return super().read(wanted)


def pieces_naive(text: bytes, most: int) -> list[bytes]:
    """The longest whole lines that fit, else the longest whole characters."""
    done = []
    while len(text) > most:
        piece = text[:most]
        if b"\n" in piece:
            piece = piece[: piece.rindex(b"\n") + 1]
        else:
            piece = piece.decode(errors="ignore").encode()
        done.append(piece)
        text = text[len(piece) :]
    return [*done, text]


@given(
    st.text("ab|\n", max_size=200), st.sampled_from(["|", "||", "a|", "\n\n"]), st.integers(1, 9)
)
def test_separator(text: str, separator: str, block: int) -> None:
    data, mark = text.encode(), separator.encode()
    found = list(cut(Dribble(data, block), "file", separator=mark, piece_bytes=None))
    assert found == data.split(mark)
    assert mark.join(found) == data


@given(st.text("aé日\n", max_size=200), st.integers(4, 30), st.integers(1, 40))
def test_pieces(text: str, most: int, block: int) -> None:
    data = text.encode()
    found = list(cut(Dribble(data, block), "file", separator=None, piece_bytes=most))
    assert b"".join(found) == data
    assert max(map(len, found)) <= most
    assert found == pieces_naive(data, most)


@given(st.text("aé|\n", max_size=200), st.integers(4, 30), st.integers(1, 40))
def test_pieces_of_separated_documents(text: str, most: int, block: int) -> None:
    data, mark = text.encode(), b"||"
    found = list(cut(Dribble(data, block), "file", separator=mark, piece_bytes=most))
    assert found == [piece for part in data.split(mark) for piece in pieces_naive(part, most)]


def test_bytes_that_are_no_text_are_cut_all_the_same() -> None:
    data = b"\x80" * 21
    found = list(cut(io.BytesIO(data), "file", separator=None, piece_bytes=8))
    assert b"".join(found) == data
    assert all(0 < len(piece) <= 8 for piece in found)


def test_whole_file_is_one_document() -> None:
    assert list(cut(io.BytesIO(b"a\n\nb"), "f", separator=None, piece_bytes=None)) == [b"a\n\nb"]


@pytest.mark.parametrize("separator", [None, b"|"])
def test_a_document_too_large_for_memory_is_refused(
    separator: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cutting, "LARGEST_WHOLE", 10)
    assert list(cut(io.BytesIO(b"a" * 10), "f", separator=separator, piece_bytes=None))
    with pytest.raises(ValueError, match=r"book: a document of more than .* give a separator"):
        list(cut(io.BytesIO(b"a" * 11), "book", separator=separator, piece_bytes=None))
