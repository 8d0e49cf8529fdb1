"""Real text from Debian's packages, fetched at run time and only where a user asks for it."""

import fnmatch
import gzip
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lt2theory.runs import write_bytes, write_json
from tasks.names import unknown_name

CARD = "source.json"
"""Written last: what the text is, from where, and its licence."""


@dataclass(frozen=True)
class TextPackage:
    """Text in a Debian package.

    Attributes:
        packages: Names of the package in different releases; the first that exists is taken.
        files: Pattern of the paths of its text.
        licence: Under which it may be used.
        summary: What it is.
    """

    packages: tuple[str, ...]
    files: str
    licence: str
    summary: str


PACKAGES = {
    "python-docs": TextPackage(
        ("python3.11-doc", "python3.12-doc", "python3.13-doc"),
        "*/_sources/*.rst.txt",
        "PSF-2.0",
        "Python's documentation, 11 MB in 500 files",
    ),
    "gcide": TextPackage(
        ("dict-gcide",),
        "*.dict.dz",
        "GPL-2.0-or-later",
        "an English dictionary, 40 MB in one file (cut it with --piece-bytes)",
    ),
    "perl-docs": TextPackage(
        ("perl-doc",), "*.pod", "Artistic-1.0-Perl OR GPL-1.0-or-later", "Perl's manual, 8 MB"
    ),
    "foldoc": TextPackage(
        ("dict-foldoc",),
        "*.dict.dz",
        "GFDL-1.1-or-later",
        "a dictionary of computing, 6 MB in one file (cut it with --piece-bytes)",
    ),
    "jargon": TextPackage(
        ("jargon-text",), "*.txt*", "public domain", "the Jargon File, 2 MB in one file"
    ),
}
"""Corpora by name."""


def fetch(name: str, folder: Path) -> int:
    """Download a package with `apt-get` and keep its text files; nothing is installed.

    Args:
        name: One of `PACKAGES`.
        folder: Where the files go, named by their paths, as .txt; made if it is missing.

    Returns:
        How many files there are.

    Raises:
        ValueError: No such name, a folder that holds something, no Debian tools, or a package that
            cannot be downloaded.
    """
    if name not in PACKAGES:
        raise ValueError(unknown_name("name", name, PACKAGES))
    wanted = PACKAGES[name]
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty; give a new folder")
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise ValueError(f"{name} comes as a Debian package, and there is no {tool} here")
    with tempfile.TemporaryDirectory() as scratch:
        archive = _download(wanted, Path(scratch))
        unpacked = Path(scratch) / "unpacked"
        subprocess.run(["dpkg-deb", "-x", str(archive), str(unpacked)], check=True)
        folder.mkdir(parents=True, exist_ok=True)
        count = keep_texts(unpacked, wanted.files, folder)
    card = {"name": name, "package": archive.name, "licence": wanted.licence, "files": count}
    write_json(folder / CARD, card)
    return count


def keep_texts(unpacked: Path, pattern: str, folder: Path) -> int:
    """Copy the text files of an unpacked package.

    Args:
        unpacked: Its root.
        pattern: Of the paths below the root; `*` also matches `/`.
        folder: Where they go; compressed ones are unpacked, and all end in .txt.

    Returns:
        How many there are.

    Raises:
        ValueError: There is none.
    """
    names = sorted(
        path.relative_to(unpacked).as_posix()
        for path in unpacked.rglob("*")
        if path.is_file() and not path.is_symlink()
    )
    found = [name for name in names if fnmatch.fnmatchcase(name, pattern)]
    if not found:
        raise ValueError(f"{folder}: the package has no file {pattern!r}")
    # The folders that all files share, such as those of a version, say nothing.
    above = os.path.commonpath([os.path.dirname(name) for name in found])
    for name in found:
        data = (unpacked / name).read_bytes()
        if name.endswith((".gz", ".dz")):  # dictzip is gzip with an index
            data = gzip.decompress(data)
        short = os.path.relpath(name, above).replace("/", "--")
        for ending in (".gz", ".dz", ".txt"):
            short = short.removesuffix(ending)
        write_bytes(folder / f"{short}.txt", data)
    return len(found)


def _download(wanted: TextPackage, scratch: Path) -> Path:
    """Return the archive of the first package that exists, downloaded.

    Raises:
        ValueError: There is none.
    """
    said = ""
    for package in wanted.packages:
        done = subprocess.run(
            ["apt-get", "download", package],
            cwd=scratch,
            capture_output=True,
            text=True,
            check=False,
        )
        found = sorted(scratch.glob("*.deb"))
        if done.returncode == 0 and found:
            return found[0]
        said = " ".join(done.stderr.split()) or said
    names = " or ".join(wanted.packages)
    raise ValueError(f"no package {names} ('apt-get update' may help): {said}")
