import errno
import os
from pathlib import Path

import pytest

from lt2theory.runs.atomic import DiskFullError, read_json, write_bytes, write_json, write_text


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_replaces_contents_and_leaves_no_temporary(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "one")
    write_bytes(path, "zwölf\n".encode())
    assert path.read_text(encoding="utf-8") == "zwölf\n"
    assert names(tmp_path) == ["a.txt"]


def test_json_round_trip_keeps_floats_and_order(tmp_path: Path) -> None:
    value = {"z": 0.1 + 0.2, "a": [1e-300, 1, None, "ü"]}
    write_json(tmp_path / "a.json", value)
    found = read_json(tmp_path / "a.json")
    assert found == value
    assert list(found) == ["z", "a"]


def test_nan_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"loss": float("nan")})
    assert names(tmp_path) == []


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_full_disk_keeps_the_old_contents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"old": 1})

    def full(descriptor: int) -> None:
        raise OSError(code, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskFullError, match=r"disk full while writing .*a\.json"):
        write_json(path, {"new": 2})
    assert read_json(path) == {"old": 1}
    assert names(tmp_path) == ["a.json"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's full device")
def test_a_device_that_is_really_full_is_named() -> None:
    from lt2theory.runs.atomic import write_synced

    with pytest.raises(DiskFullError, match="disk full while writing /dev/full"):
        write_synced(Path("/dev/full"), b"x")


def test_other_system_errors_pass_unchanged(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_bytes(tmp_path / "missing" / "a.txt", b"")


@pytest.mark.parametrize(
    ("contents", "message"),
    [(b"{", "not valid JSON"), (b"[1]", "holds a list"), (b"\xff\xfe", "not valid JSON")],
)
def test_damaged_json_is_named(tmp_path: Path, contents: bytes, message: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(contents)
    with pytest.raises(ValueError, match=rf"a\.json {message}|a\.json is {message}"):
        read_json(path)


def test_missing_json_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"b\.json cannot be read: No such file"):
        read_json(tmp_path / "b.json")


def test_a_link_stays_and_its_target_is_written(tmp_path: Path) -> None:
    """The temporary name lies beside the target, perhaps on another disk than the link."""
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "a.txt").write_text("old")
    for name, target in (("one", "two"), ("two", "far/a.txt"), ("new", "far/b.txt")):
        (tmp_path / name).symlink_to(target)
    write_text(tmp_path / "one", "by one")
    write_text(tmp_path / "new", "by new")
    assert names(tmp_path) == ["far", "new", "one", "two"]
    assert all((tmp_path / name).is_symlink() for name in ("one", "two", "new"))
    assert names(tmp_path / "far") == ["a.txt", "b.txt"]
    assert (tmp_path / "far" / "a.txt").read_text() == "by one"
    assert (tmp_path / "far" / "b.txt").read_text() == "by new"


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        with pytest.raises(ValueError, match=r"pipe is no regular file \(it is a pipe\)"):
            write_text(tmp_path / name, "x")
    with pytest.raises(IsADirectoryError):
        write_text(tmp_path, "x")
    assert (tmp_path / "pipe").is_fifo()
    assert names(tmp_path) == ["link", "pipe"]
