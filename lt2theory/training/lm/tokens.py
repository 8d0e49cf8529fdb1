"""The tokenizer of a run, from what the run noted of its corpus."""

from pathlib import Path

from lt2theory.runs import read_json
from lt2theory.training.lm.session import CORPUS
from lt2theory.training.records import checked
from lt2theory.training.text.manifest import Manifest
from lt2theory.training.text.tokenizer import Tokenizer


def run_tokenizer(folder: Path) -> Tokenizer:
    """Open the tokenizer that a run was trained with.

    Args:
        folder: The run's folder.

    Returns:
        The tokenizer.

    Raises:
        ValueError: The folder has no note of a corpus, or the tokenizer is gone or another one.
    """
    path = folder / CORPUS
    if not path.is_file():
        raise ValueError(f"{folder} has no {CORPUS}, where a run of lt2 train notes its tokenizer")
    manifest = checked(Manifest, read_json(path).get("manifest", {}), path)
    return manifest.tokenizer.open(f"{folder} was trained")
