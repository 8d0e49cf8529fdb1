"""A language-model run from a configuration to its summary, in one process or under torchrun."""

from pathlib import Path

import torch

from lt2theory.models import LoopedModel
from lt2theory.runs import Progress, RunFolder
from lt2theory.runs.layout import CONFIG
from lt2theory.training.lm.config import LmConfig, resolve
from lt2theory.training.lm.options import Execution
from lt2theory.training.lm.records import LmSummary
from lt2theory.training.lm.restoring import load_weights
from lt2theory.training.lm.session import KIND, STAGE_KIND, open_session, train_in
from lt2theory.training.records import checked
from lt2theory.training.text import Corpus


def run_lm(
    config: LmConfig,
    execution: Execution,
    *,
    data: Path,
    folder: Path,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> LmSummary:
    """Train a language model, continue it, or return what the run found before.

    Under torchrun every process calls this with the same arguments. A run may be continued by
    another number of processes; then its numbers agree up to rounding. With the same number, on the
    same machine, metrics.jsonl and the weights come out as undisturbed, bit for bit.

    Args:
        config: What to do.
        execution: How.
        data: Folder of the corpus.
        folder: The run's folder; made if it is missing.
        overwrite: Start afresh, whatever run the folder holds.
        progress: Told how far the run is, in the first process.

    Returns:
        The summary, which is also the folder's summary.json.

    Raises:
        ValueError: The configuration does not fit the corpus or the machine, or the folder cannot
            be this run's.
        DiskFullError: The disk is full; the same call continues the run.
        Interrupted: SIGINT or SIGTERM came, or another process is gone; the same call continues
            the run.
    """
    corpus = Corpus(data)
    config = resolve(config, corpus)
    with open_session(execution) as session:
        return train_in(
            session, config, corpus, folder=folder, overwrite=overwrite, progress=progress
        )


def load_lm(folder: Path, *, device: torch.device | str = "cpu") -> tuple[LoopedModel, LmConfig]:
    """Read the model that a run has trained so far.

    Args:
        folder: The run's folder, finished or not.
        device: Where the model goes. On a CPU, kernels of a GPU that the run names are left to
            'auto'.

    Returns:
        The model with the weights of the newest checkpoint, and the run's own configuration,
        whatever the model's own says of backends.

    Raises:
        ValueError: The folder is not a language-model run, or has no checkpoint yet.
    """
    run = RunFolder.open(folder)
    if run.kind not in (KIND, STAGE_KIND):
        raise ValueError(f"{folder} holds a {run.kind} run; expected a {KIND} run")
    own = {name: run.config[name] for name in LmConfig.model_fields if name in run.config}
    config = checked(LmConfig, own, folder / CONFIG)
    checkpoints = run.checkpoints()
    if not checkpoints:
        raise ValueError(f"{folder} has no checkpoint yet")
    model = LoopedModel(config.model.on(device)).to(device, config.weight_dtype)
    load_weights(checkpoints[0], model)
    return model, config
