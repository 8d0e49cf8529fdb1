"""What xz spends on a run's held-out text, measured once and kept in the run's folder."""

from pathlib import Path

from lt2theory.runs import RunFolder, read_json, write_json
from lt2theory.training.lm.config import corpus_hash
from lt2theory.training.lm.session import CORPUS
from lt2theory.training.text import Corpus, xz_baseline

XZ = "xz.json"
"""File in the run's folder: both numbers, and the hash of the corpus that they are of."""
ALONE, PRIMED = "xz -9", "xz -9 after the training text"


def baselines_of(run: RunFolder) -> dict[str, float]:
    """Bits per byte of `xz -9` on the eval split of a run's corpus, alone and primed.

    Args:
        run: A language-model run. The numbers are read from its folder, or measured (about 2 s a
            MB) and written there where the corpus is still where it was in training.

    Returns:
        Bits per byte by name; empty where the corpus is gone, has changed, or cannot be compressed
        as text.
    """
    wanted = str(run.config.get("corpus"))
    kept = run.path / XZ
    if kept.is_file():
        found = read_json(kept)
        if found.get("corpus") == wanted:
            return {ALONE: float(found["alone"]), PRIMED: float(found["primed"])}
    note = run.path / CORPUS
    folder = Path(str(read_json(note).get("folder"))) if note.is_file() else None
    if folder is None or not folder.is_dir():
        return {}
    try:
        corpus = Corpus(folder)
        if corpus_hash(corpus) != wanted:
            return {}
        measured = xz_baseline(corpus)
    except ValueError:  # another corpus by now, or a tokenizer that has lost something
        return {}
    numbers = {"alone": measured.alone, "primed": measured.primed}
    write_json(kept, {"corpus": wanted, **numbers})
    return {ALONE: measured.alone, PRIMED: measured.primed}
