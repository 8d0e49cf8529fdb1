"""Zero-shot accuracies on local tasks of lm-evaluation-harness, through the saved model."""

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lt2theory.linearize.evaluation.table import Measured
from lt2theory.models import LoopedModel
from lt2theory.training.text import Tokenizer
from lt2theory.training.text.tokenizer import BYTES

_Z = 1.959963984540054
"""Normal quantile of a 95 % interval."""


def save_for_harness(model: LoopedModel, tokenizer: Tokenizer, folder: Path) -> None:
    """Save a model as `transformers` and lm_eval read it.

    Args:
        model: The model.
        tokenizer: Its tokenizer.
        folder: Where to.

    Raises:
        ValueError: The tokenizer's folder is gone.
    """
    # transformers takes seconds to import.
    from transformers import AutoTokenizer

    from lt2theory.hf import LoopedLTForCausalLM
    from lt2theory.hf.tokenizer import byte_tokenizer

    saved = LoopedLTForCausalLM.from_looped(
        model,
        bos_token_id=tokenizer.begin,
        eos_token_id=tokenizer.end,
        pad_token_id=tokenizer.end,
    )
    saved.save_pretrained(folder)
    if tokenizer.name == BYTES:
        byte_tokenizer().save_pretrained(folder)
        return
    path = Path(tokenizer.name)
    source = path.parent if path.is_file() else path
    if not source.is_dir():
        raise ValueError(f"tokenizer: {tokenizer.name!r} is gone")
    AutoTokenizer.from_pretrained(source, local_files_only=True).save_pretrained(folder)


def zero_shot_rows(
    name: str,
    saved: Path,
    *,
    tasks: Sequence[str],
    include: Path,
    limit: int | None = None,
    batch_size: int = 8,
    device: str = "cpu",
) -> list[Measured]:
    """Run lm_eval on a saved model.

    Args:
        name: `student` or `teacher`.
        saved: Folder of `save_for_harness`.
        tasks: Names of tasks, or of groups.
        include: Folder of their YAML files, such as `lt2theory.hf.needle` writes.
        limit: Most instances of a task.
        batch_size: Texts at once.
        device: Where the model runs.

    Returns:
        As `harness_rows`.

    Raises:
        ValueError: lm_eval is missing, or no task is named.
    """
    if not tasks:
        raise ValueError("zero_shot: () is not allowed (name at least one task)")
    try:
        harness = importlib.import_module("lm_eval")
        managers = importlib.import_module("lm_eval.tasks")
    except ImportError as error:
        raise ValueError(
            f"zero_shot: lm_eval cannot be imported ({error}): pip install 'lt2theory[hf]'"
        ) from error
    importlib.import_module("lt2theory.hf")
    found = harness.simple_evaluate(
        model="hf",
        model_args={"pretrained": str(saved), "dtype": "auto"},
        tasks=list(tasks),
        task_manager=managers.TaskManager(include_path=str(include)),
        limit=limit,
        batch_size=batch_size,
        device=device,
    )
    return harness_rows(name, found)


def harness_rows(name: str, found: Mapping[str, Any]) -> list[Measured]:
    """What lm_eval returned, as rows of the table.

    Args:
        name: `student` or `teacher`.
        found: What `simple_evaluate` returned.

    Returns:
        A row a task and metric, `kind` the task's name; intervals are normal ones of lm_eval's
        standard errors, cut to [0, 1] for accuracies. Floors are unknown to lm_eval, and null.
    """
    rows = []
    for task, numbers in found["results"].items():
        n = found.get("n-samples", {}).get(task, {}).get("effective")
        for key, value in numbers.items():
            metric, _, filtered = key.partition(",")
            if not filtered or metric.endswith("_stderr") or not isinstance(value, int | float):
                continue
            error = numbers.get(f"{metric}_stderr,{filtered}")
            ends: tuple[float | None, float | None] = (None, None)
            if isinstance(error, int | float):
                ends = value - _Z * error, value + _Z * error
                if metric.startswith(("acc", "exact_match")):
                    ends = max(0.0, ends[0]), min(1.0, ends[1])
            metric = metric if filtered == "none" else f"{metric}_{filtered}"
            rows.append(
                Measured(
                    part="zero_shot",
                    model=name,
                    kind=task,
                    metric=metric,
                    value=float(value),
                    low=ends[0],
                    high=ends[1],
                    n=n,
                )
            )
    return rows
