"""Sizes and checksums of a folder of files."""

from pathlib import Path

import pytest

from lt2theory.runs.contents import CONTENTS, check_contents, write_contents


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a").write_bytes(b"weights" * 99)
    (tmp_path / "b").write_bytes(b"")
    write_contents(tmp_path)
    return tmp_path


def test_what_is_as_it_was_passes(folder: Path) -> None:
    check_contents(folder)
    before = (folder / CONTENTS).read_bytes()
    write_contents(folder)
    assert (folder / CONTENTS).read_bytes() == before
    (folder / CONTENTS).unlink()
    (folder / "a").unlink()
    check_contents(folder)  # nothing is known of it


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (b"weighty" + b"weights" * 98, "a is damaged: its bytes are not those written"),
        (b"weights" * 98, "a is damaged: its bytes are not those written"),
        (None, "a is damaged: it is missing"),
    ],
)
def test_damage_is_named(damage: bytes | None, message: str, folder: Path) -> None:
    (folder / "a").unlink()
    if damage is not None:
        (folder / "a").write_bytes(damage)
    check_contents(folder, ("b",))
    with pytest.raises(ValueError, match=message):
        check_contents(folder)


@pytest.mark.parametrize("text", ["{}", '{"files": 3}', "[]", ""])
def test_a_damaged_list_is_no_list(text: str, folder: Path) -> None:
    (folder / CONTENTS).write_text(text)
    with pytest.raises(ValueError, match=CONTENTS):
        check_contents(folder)
