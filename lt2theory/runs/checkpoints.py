"""Folders of checkpoints: complete or not there, numbered in the order of writing, two kept."""

import re
from pathlib import Path

from lt2theory.runs.atomic import TEMPORARY_SUFFIX, full_disk_named, sync_directory
from lt2theory.runs.contents import write_contents
from lt2theory.runs.prepare import remove_tree

KEPT_CHECKPOINTS = 2

_NAME = re.compile(r"\d{6,}-step-\d+")


def list_checkpoints(folder: Path) -> list[Path]:
    """The complete checkpoints of a folder.

    Args:
        folder: Where checkpoints are kept; it need not exist.

    Returns:
        Their folders, newest first; what has another name is none of ours.
    """
    if not folder.is_dir():
        return []
    names = [entry for entry in folder.iterdir() if _NAME.fullmatch(entry.name)]
    return sorted(names, reverse=True)


def begin_checkpoint(folder: Path, step: int) -> Path:
    """Make the folder in which a checkpoint is written; no reader takes it for one yet.

    Args:
        folder: Where checkpoints are kept; made if it is missing.
        step: Optimiser steps done.

    Returns:
        A new folder with a temporary name, for `keep_checkpoint`.

    Raises:
        DiskFullError: The disk is full.
    """
    existing = list_checkpoints(folder)
    serial = int(existing[0].name.partition("-")[0]) + 1 if existing else 1
    temporary = folder / f"{serial:06d}-step-{step}{TEMPORARY_SUFFIX}"
    with full_disk_named(temporary):
        temporary.mkdir(parents=True)
    return temporary


def keep_checkpoint(temporary: Path) -> Path:
    """Make a written folder a checkpoint, durably, and drop all but the last two.

    Args:
        temporary: What `begin_checkpoint` gave; its files are flushed to the disk.

    Returns:
        The checkpoint's folder.

    Raises:
        DiskFullError: The disk is full.
    """
    final = temporary.with_name(temporary.name.removesuffix(TEMPORARY_SUFFIX))
    write_contents(temporary)
    sync_directory(temporary)
    temporary.rename(final)
    sync_directory(final.parent)
    drop_old_checkpoints(final.parent)
    return final


def drop_old_checkpoints(folder: Path) -> None:
    """Drop all checkpoints but the last two.

    Args:
        folder: Where checkpoints are kept; it need not exist.
    """
    for old in list_checkpoints(folder)[KEPT_CHECKPOINTS:]:
        remove_tree(old)
