"""Checkpoints of several processes: torch.distributed.checkpoint into safetensors, and state.json.

Every process writes its slices into files of its own; whoever reads them, in whatever number of
processes, takes the parts it needs. There is no pickle. A checkpoint has a temporary name until all
its files are on the disk, so a kill at any moment leaves the one before it as the newest.
"""

import os
import shutil
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
from torch.distributed.checkpoint.state_dict_saver import async_save, save

from lt2theory.models import LoopedModel
from lt2theory.runs import write_json
from lt2theory.runs.atomic import full_disk_named
from lt2theory.runs.checkpoints import begin_checkpoint, keep_checkpoint
from lt2theory.training.lm.ranks import Ranks
from lt2theory.training.lm.records import LmState
from lt2theory.training.lm.restoring import STATE, one_process_is_meant, training_tensors


class Checkpoints:
    """Writes the checkpoints of a run, at once or beside the next steps.

    Args:
        folder: Where they are kept.
        ranks: The processes; all call every method together, but for `poll`.
        model: The model, on this process.
        optimisers: Its optimisers.
        in_background: Whether to copy to the host's memory and write from there.
    """

    def __init__(
        self,
        folder: Path,
        ranks: Ranks,
        model: LoopedModel,
        optimisers: Sequence[torch.optim.Optimizer],
        *,
        in_background: bool,
    ) -> None:
        self._folder = folder
        self._ranks = ranks
        self._model = model
        self._optimisers = optimisers
        self._in_background = in_background
        self._pending: tuple[Future[Any], Path, LmState] | None = None

    def save(self, state: LmState) -> None:
        """Write, or begin to write, a checkpoint; one that is being written is finished first.

        Args:
            state: Where the run is.

        Raises:
            DiskFullError: The disk is full; earlier checkpoints are intact.
            OSError: Something else is wrong with it.
        """
        self.finish()
        ranks = self._ranks
        with ranks.first_decides():
            mine = begin_checkpoint(self._folder, state.step) if ranks.is_first else None
        folder = Path(ranks.from_first(str(mine)))
        tensors = training_tensors(self._model, self._optimisers)
        writer = HuggingFaceStorageWriter(str(folder), save_distributed=True)
        kept = state.model_copy(deep=True)
        if self._in_background and ranks.size > 1:
            future = async_save(tensors, storage_writer=writer, process_group=ranks.storage)
            assert isinstance(future, Future), "a default stager gives one future"
            self._pending = future, folder, kept
            return
        try:
            with one_process_is_meant():
                save(
                    tensors,
                    storage_writer=writer,
                    process_group=ranks.storage,
                    no_dist=ranks.size == 1,
                )
        except CheckpointException as error:
            self._give_up(folder, error)
        self._keep(folder, kept)

    def poll(self) -> None:
        """Make a checkpoint that was written beside the steps the newest, if it is complete."""
        if self._pending is not None and self._pending[0].done():
            self.finish()

    def finish(self) -> None:
        """Wait for a checkpoint that is being written."""
        if self._pending is None:
            return
        (future, folder, state), self._pending = self._pending, None
        try:
            future.result()
        except CheckpointException as error:
            self._give_up(folder, error)
        self._keep(folder, state)

    def _keep(self, folder: Path, state: LmState) -> None:
        """Name the files in state.json, flush all, and rename the folder; or drop it."""
        if not self._ranks.is_first:
            return
        try:
            files = sorted(folder.iterdir())
            state.files = {path.name: path.stat().st_size for path in files}
            with full_disk_named(folder):
                for path in files:
                    with path.open("rb") as file:
                        os.fsync(file.fileno())
                write_json(folder / STATE, state.model_dump(mode="json"))
            keep_checkpoint(folder)
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)  # a full disk needs the room
            raise

    def _give_up(self, folder: Path, error: CheckpointException) -> None:
        """Drop what was written of a checkpoint that failed, and say why it did.

        Raises:
            OSError: What the system said, if it did; a full disk is named as such.
            CheckpointException: Whatever else it was.
        """
        if self._ranks.is_first:
            shutil.rmtree(folder, ignore_errors=True)
        causes = [failure[0] for failure in error.failures.values()]
        for cause in causes:
            if isinstance(cause, OSError):
                with full_disk_named(folder):
                    raise cause
        raise error
