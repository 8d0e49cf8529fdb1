"""Files that could not be written are refused before the work."""

from pathlib import Path

import pytest

from lt2theory.cli.errors import UsageError
from lt2theory.cli.output import check_file, check_folder


def test_writable_paths_pass_and_leave_nothing(tmp_path: Path) -> None:
    check_file(tmp_path / "a.json", "--json")
    check_file(None, "--json")
    check_folder(tmp_path / "deep" / "er", "--out")
    check_folder(None, "--out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("absent/a.json", r"cannot be written \(no folder .*absent\)"),
        ("", r"cannot be written \(it is a folder\)"),
        ("a.csv", r"is not allowed \(must end in .parquet or .npz\)"),
    ],
)
def test_unwritable_files(tmp_path: Path, name: str, reason: str) -> None:
    suffixes = (".parquet", ".npz") if name.endswith(".csv") else ()
    with pytest.raises(UsageError, match=f"^--json: .*{reason}$"):
        check_file(tmp_path / name, "--json", suffixes=suffixes)


def test_a_folder_that_refuses(tmp_path: Path) -> None:
    """The kernel's own folder refuses even the superuser."""
    if not Path("/proc/self").exists():
        pytest.skip("no /proc")
    with pytest.raises(UsageError, match=r"^--json: '/proc/a.json' cannot be written \("):
        check_file(Path("/proc/a.json"), "--json")


def test_a_file_in_the_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(UsageError, match=r"^--out: .*taken is not a folder\)$"):
        check_folder(tmp_path / "taken" / "run", "--out")
