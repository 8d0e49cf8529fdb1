"""What the cells of a session learn from: texts in the tokens of each teacher, and teachers."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from lt2theory.experiments.linearization.cells import LinearCell, TeacherWork
from lt2theory.experiments.linearization.conversations import FILE, write_conversations
from lt2theory.linearize.sources import weights_fingerprint
from lt2theory.linearize.teachers import Teacher, frozen, load_teacher
from lt2theory.linearize.texts import open_text
from lt2theory.models import LoopedModel
from lt2theory.runs import Progress, RunFolder, config_hash
from lt2theory.runs.hashing import file_sha256
from lt2theory.training.checkpoint import load_weights
from lt2theory.training.lm import Execution
from lt2theory.training.lm.config import corpus_hash
from lt2theory.training.text import Corpus, CorpusConfig, prepare
from lt2theory.training.text.manifest import MANIFEST


@dataclass
class Materials:
    """Texts and teachers, each opened once.

    Attributes:
        root: The study's folder; texts in tokens are kept in it.
        text: A file or folder of text, or a corpus.
        real: Path of the real teacher; None where no cell needs it.
        chat: Conversations; None makes them of the text.
        execution: How cells are trained.
        progress: Told how far a text or a cell is.
    """

    root: Path
    text: Path
    real: Path | None = None
    chat: Path | None = None
    execution: Execution = field(default_factory=Execution)
    progress: Progress | None = None
    _corpora: dict[bool, Corpus] = field(default_factory=dict)
    _teachers: dict[str, Teacher] = field(default_factory=dict)

    def corpus(self, cell: LinearCell) -> Corpus:
        """The text in the tokens of a cell.

        Args:
            cell: The cell.

        Returns:
            The corpus.

        Raises:
            ValueError: There is no text, or no real teacher.
        """
        if cell.is_real not in self._corpora:
            opened = self._real_text() if cell.is_real else self._byte_text()
            self._corpora[cell.is_real] = opened
        return self._corpora[cell.is_real]

    def teacher(self, cell: LinearCell) -> Teacher:
        """The teacher of a cell.

        Args:
            cell: The cell.

        Returns:
            The teacher.

        Raises:
            ValueError: It cannot be opened.
        """
        name = "" if cell.teacher is None else cell.teacher.run().folder
        if name not in self._teachers:
            self._teachers.clear()  # one at a time in memory
            own = cell.teacher
            found = self._real() if own is None else frozen(kept_model(self.root / name), own.name)
            self._teachers[name] = found
        return self._teachers[name]

    def conversations(self, cell: LinearCell) -> Path | None:
        """The file of conversations that a cell reads.

        Args:
            cell: The cell.

        Returns:
            The file; None where no stage reads one.

        Raises:
            ValueError: There are none, and none can be made.
        """
        if not cell.reads_chat:
            return None
        return self.chat or write_conversations(self.corpus(cell), self.root / FILE)

    def about(self, cell: LinearCell) -> dict[str, Any]:
        """What identifies texts and the real teacher, for the header of a cell's run.

        Args:
            cell: The cell.

        Returns:
            Hashes.

        Raises:
            ValueError: As the other methods.
        """
        chat = self.conversations(cell)
        return {
            "corpus": corpus_hash(self.corpus(cell)),
            "real": weights_fingerprint(self.teacher(cell).model) if cell.is_real else None,
            "chat": None if chat is None else file_sha256(chat),
        }

    def _real(self) -> Teacher:
        if self.real is None:
            raise ValueError("teacher: no path given (this cell learns from SmolLM2-135M-Instruct)")
        return load_teacher(self.real)

    def _real_text(self) -> Corpus:
        self._check_text()
        if self.real is None:
            raise ValueError("teacher: no path given (this cell learns from SmolLM2-135M-Instruct)")
        return open_text(self.text, self.real, self.root, progress=self.progress)

    def _byte_text(self) -> Corpus:
        self._check_text()
        if (self.text / MANIFEST).is_file():
            return Corpus(self.text)
        config = CorpusConfig(sources=(str(self.text),))
        folder = self.root / f"text-{config_hash(config.model_dump(mode='json'))}"
        prepare(config, folder, progress=self.progress)
        return Corpus(folder)

    def _check_text(self) -> None:
        if not self.text.exists():
            raise ValueError(
                f"text: {str(self.text)!r} is not there (must be a corpus, a file or a folder)"
            )


def kept_model(folder: Path) -> LoopedModel:
    """The teacher that a cell has trained and kept.

    Args:
        folder: Folder of the cell's run.

    Returns:
        The model, in float32 on the CPU.

    Raises:
        ValueError: There is none.
    """
    run = RunFolder.open(folder)
    kept = run.checkpoints()
    if run.status != "done" or not kept:
        raise ValueError(f"{folder} holds no trained teacher (its cell must be done)")
    work = TeacherWork.model_validate(run.config["work"])
    model = LoopedModel(work.config.model).to(torch.float32)
    load_weights(kept[0], model)
    return model.eval()
