"""Files that could not be written are refused before the work."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from lt2theory.cli import main
from lt2theory.cli.errors import UsageError
from lt2theory.cli.output import check_file, check_files, check_folder


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


def patch_kind(monkeypatch: pytest.MonkeyPatch, kind: int) -> None:
    """Let every regular file look like something else."""
    whole = Path.stat

    def patched(path: Path, **options: bool) -> os.stat_result:
        found = list(whole(path, **options))
        if stat.S_ISREG(found[0]):
            found[0] = kind | stat.S_IMODE(found[0])
        return os.stat_result(found)

    monkeypatch.setattr(Path, "stat", patched)


@pytest.mark.parametrize("kind", [stat.S_IFCHR, stat.S_IFBLK])
def test_a_device_is_refused(kind: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "node").write_text("untouched")
    (tmp_path / "link").symlink_to("node")
    with monkeypatch.context() as patch:
        patch_kind(patch, kind)
        for name in ("node", "link"):
            with pytest.raises(UsageError, match=rf"^--json: .*{name}' .*\(it is a device\)$"):
                check_file(tmp_path / name, "--json")
    assert (tmp_path / "node").read_text() == "untouched"


def test_pipes_and_links_that_lead_nowhere_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, target in (("to_pipe", "pipe"), ("a", "b"), ("b", "a"), ("astray", "absent/x.json")):
        (tmp_path / name).symlink_to(target)
    reasons = {
        "pipe": "it is a pipe",
        "to_pipe": "it is a pipe",
        "a": "it is a link to itself",
        "astray": "no folder .*absent",
    }
    for name, reason in reasons.items():
        with pytest.raises(UsageError, match=rf"^--json: .*{name}' cannot .*\({reason}\)$"):
            check_file(tmp_path / name, "--json")
    (tmp_path / "dangling").symlink_to("new.json")
    check_file(tmp_path / "dangling", "--json")


@pytest.mark.parametrize(
    "verb",
    [
        "demo --json", "verify --json", "verify --html", "verify --page", "doctor --json",
        "doctor --state", "bench tasks --json", "bench ops --json", "bench decode --json",
        "bench analysis --json", "bench sparse --json", "bench train-step --json",
        "analyze . --json", "curriculum run --json", "curriculum tune --json",
        "curriculum tune --csv", "curriculum study smoke --json", "bench study --json",
        "report . --out",
    ],
)  # fmt: skip
def test_every_verb_refuses_a_pipe(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe = tmp_path / "pipe.html"
    os.mkfifo(pipe)
    *words, flag = verb.split()
    assert main([*words, flag, str(pipe)]) == 2
    assert capsys.readouterr().err.startswith(f"lt2: error: {flag}: '{pipe}' cannot be written")
    assert pipe.is_fifo()


def under_the_same_name(folder: Path) -> Path:
    return folder / "a"


def through_a_link(folder: Path) -> Path:
    (folder / "link").symlink_to("a")
    return folder / "link"


def through_a_linked_folder(folder: Path) -> Path:
    (folder / "linked").symlink_to(folder)
    return folder / "linked" / "a"


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("again", [under_the_same_name, through_a_link, through_a_linked_folder])
def test_two_flags_for_one_file(
    again: Callable[[Path], Path], exists: bool, tmp_path: Path
) -> None:
    files = {"--json": tmp_path / "a", "--csv": None, "--html": again(tmp_path)}
    if exists:
        (tmp_path / "a").write_text("")
    with pytest.raises(UsageError, match=r"^--html: .*not allowed \(it is the --json file\)$"):
        check_files(files)
    check_files(files | {"--html": tmp_path / "b"})
