"""Zero-shot accuracies on local tasks of lm-evaluation-harness, through the saved model."""

import importlib
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lt2theory.linearize.evaluation.pair import EvaluationConfig, Pair
from lt2theory.linearize.evaluation.table import Measured
from lt2theory.models import LoopedModel
from lt2theory.training.evaluation import wilson
from lt2theory.training.text import Tokenizer
from lt2theory.training.text.tokenizer import BYTES

_AT_ONCE = 8
"""Texts that lm_eval runs at once."""
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


def zero_shot_rows(pair: Pair, config: EvaluationConfig) -> list[Measured]:
    """Zero-shot accuracies as rows of the table.

    Args:
        pair: The models and their tokenizer; each is saved to a temporary folder first.
        config: `tasks`, `include` and `limit`.

    Returns:
        As `harness_rows`, of both models.

    Raises:
        ValueError: lm_eval is missing, or the tokenizer's folder is gone.
    """
    rows = []
    for name, model in pair.models():
        with tempfile.TemporaryDirectory() as folder:
            save_for_harness(model, pair.tokenizer, Path(folder))
            rows += harness_rows(name, _ran(Path(folder), config, str(pair.runtime.device)))
    return rows


def _ran(saved: Path, config: EvaluationConfig, device: str) -> Mapping[str, Any]:
    """What lm_eval says about a saved model; ValueError where it is missing."""
    try:
        harness = importlib.import_module("lm_eval")
        managers = importlib.import_module("lm_eval.tasks")
    except ImportError as error:
        raise ValueError(
            f"zero_shot: lm_eval cannot be imported ({error}): pip install 'lt2theory[hf]'"
        ) from error
    importlib.import_module("lt2theory.hf")
    found: Mapping[str, Any] = harness.simple_evaluate(
        model="hf",
        model_args={"pretrained": str(saved), "dtype": "auto"},
        tasks=list(config.tasks),
        task_manager=managers.TaskManager(include_path=config.include),
        limit=config.limit,
        batch_size=_AT_ONCE,
        device=device,
    )
    return found


def harness_rows(name: str, found: Mapping[str, Any]) -> list[Measured]:
    """What lm_eval returned, as rows of the table.

    Args:
        name: `student` or `teacher`.
        found: What `simple_evaluate` returned.

    Returns:
        A row a task and metric, `kind` the task's name. Intervals of accuracies are Wilson's,
        others normal ones of lm_eval's standard errors. lm_eval knows no floors, so they are null.
    """
    rows = []
    for task, numbers in found["results"].items():
        n = found.get("n-samples", {}).get(task, {}).get("effective")
        for key, value in numbers.items():
            metric, _, filtered = key.partition(",")
            if not filtered or metric.endswith("_stderr") or not isinstance(value, int | float):
                continue
            error = numbers.get(f"{metric}_stderr,{filtered}")
            low, high = _ends(metric, float(value), error, n)
            metric = metric if filtered == "none" else f"{metric}_{filtered}"
            rows.append(
                Measured(
                    part="zero_shot",
                    model=name,
                    kind=task,
                    metric=metric,
                    value=float(value),
                    low=low,
                    high=high,
                    n=n,
                )
            )
    return rows


def _ends(
    metric: str, value: float, error: object, n: int | None
) -> tuple[float | None, float | None]:
    """Ends of an interval, where there can be one."""
    if metric.startswith(("acc", "exact_match")) and n:
        ends = wilson(value, n)  # not degenerate at 0 and 1, as a normal one is
        return ends.low, ends.high
    if not isinstance(error, int | float):
        return None, None
    return value - _Z * float(error), value + _Z * float(error)
