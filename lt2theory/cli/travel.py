"""`lt2 curriculum pack` and `unpack`: a study's folder as a few small files, and back."""

from dataclasses import dataclass
from pathlib import Path

from lt2theory.cli.errors import DONE, UsageError
from lt2theory.cli.output import check_folder
from lt2theory.cli.parsing import parse


@dataclass(frozen=True, kw_only=True)
class PackOptions:
    """What is packed, and how small."""

    study: Path
    """Folder of the study; nothing may write it meanwhile."""
    out: Path
    """Folder for the files, of at most 15 MiB each."""
    mebibytes: float = 60.0
    """Most that the files may hold together. The records of all runs travel in any case."""


def pack(argv: list[str]) -> int:
    """Pack a study's folder.

    Args:
        argv: The arguments after the verb.

    Returns:
        The exit code.

    Raises:
        ValueError: The folder is no study.
    """
    description = (
        "Pack a study's folder into a few small files: all records; checkpoints of the unfinished "
        "runs and weights of the finished ones that are still to be measured, as far as they fit."
    )
    (options,) = parse("lt2 curriculum pack", argv, description, options=PackOptions)
    check_folder(options.out, "--out")
    from lt2theory.experiments.study_travel import MIB
    from lt2theory.experiments.study_travel import pack as packed

    found = packed(options.study, options.out, mebibytes=options.mebibytes)
    print(
        f"{found.runs} runs in {len(found.files)} files, {found.size / MIB:.1f} MiB: "
        f"{len(found.checkpoints)} to be gone on with, weights of {len(found.weights)}"
    )
    if found.left:
        print(f"left without a checkpoint ({len(found.left)}): {' '.join(found.left)}")
    print(options.out)
    return DONE


@dataclass(frozen=True, kw_only=True)
class UnpackOptions:
    """What is unpacked, and where."""

    source: Path
    """Folder of the files that `lt2 curriculum pack` wrote."""
    out: Path
    """Folder of the study; of a run that is there already, what is further on is kept."""


def unpack(argv: list[str]) -> int:
    """Unpack a study's folder.

    Args:
        argv: The arguments after the verb.

    Returns:
        The exit code.

    Raises:
        UsageError: There is nothing to unpack.
    """
    description = "Unpack what `lt2 curriculum pack` wrote, into a new folder or one in use before."
    (options,) = parse("lt2 curriculum unpack", argv, description, options=UnpackOptions)
    check_folder(options.out, "--out")
    if not options.source.is_dir():
        raise UsageError(f"--source: {str(options.source)!r} is not a folder")
    from lt2theory.experiments.study_travel import unpack as unpacked

    taken = unpacked(options.source, options.out)
    print(f"{options.out}: {len(taken)} runs taken over")
    return DONE
