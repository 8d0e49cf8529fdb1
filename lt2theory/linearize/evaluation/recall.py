"""Associative recall (MQAR) without training: pairs of tokens in the context, asked again."""

import numpy as np
import torch
from jaxtyping import Float64, Int64

from lt2theory.linearize.evaluation.intervals import share_interval
from lt2theory.linearize.evaluation.pair import EvaluationConfig, Pair
from lt2theory.linearize.evaluation.table import Measured
from lt2theory.models import LoopedModel
from lt2theory.training.passes import TOKENS_AT_ONCE
from lt2theory.training.runtime import Runtime
from tasks import Batch
from tasks.mqar import Mqar

_LARGEST = 1024
"""Ids that take part, at most."""


def recall_ids(vocab_size: int, seed: int) -> Int64[np.ndarray, " n"]:
    """Which of a model's tokens stand for the task's.

    Args:
        vocab_size: Vocabulary of the model.
        seed: Seed of the choice.

    Returns:
        Different ids, an even number of them: at most half the vocabulary.

    Raises:
        ValueError: The vocabulary is too small.
    """
    count = min(_LARGEST, vocab_size // 4 * 2)
    if count < 4:
        raise ValueError(f"vocab_size: {vocab_size} must be >= 8 for associative recall")
    rng = np.random.Generator(np.random.Philox(seed))
    return rng.permutation(vocab_size)[:count].astype(np.int64)


@torch.no_grad()
def recalled(
    model: LoopedModel,
    batch: Batch,
    ids: Int64[np.ndarray, " n"],
    runtime: Runtime,
) -> tuple[Float64[np.ndarray, " b"], Float64[np.ndarray, " b"]]:
    """How many queries of each instance a model answers.

    Args:
        model: The model.
        batch: Instances of `tasks.mqar`.
        ids: The model's token for each of the task's.
        runtime: Device and precision.

    Returns:
        Shares of queries answered rightly: with the likeliest of all tokens, and with the
        likeliest of those that stand for values.
    """
    size, length = batch.inputs.shape
    values = runtime.tensor(ids[len(ids) // 2 :])
    shares = np.zeros((2, size))
    rows = max(1, TOKENS_AT_ONCE[runtime.device.type] // length)
    for start in range(0, size, rows):
        part = slice(start, start + rows)
        mask = batch.mask[part]
        labels = ids[batch.targets[part][mask]]
        with runtime.alone(), runtime.autocast():
            h = model.read_loops(runtime.tensor(ids[batch.inputs[part]]))[-1]
            logits = model.read_out(h[runtime.tensor(mask)][None])[0]
        answers = logits.argmax(-1), values[logits[:, values].argmax(-1)]
        asked = mask.sum(1)
        for share, answer in zip(shares, answers, strict=True):
            right = np.zeros(mask.shape)
            right[mask] = answer.cpu().numpy() == labels
            share[part] = right.sum(1) / asked
    return shares[0], shares[1]


def recall_rows(pair: Pair, config: EvaluationConfig) -> list[Measured]:
    """Associative recall as rows of the table.

    Args:
        pair: The models.
        config: `pairs`, `recalls` and `seed`. Numbers of pairs that the vocabulary has no room
            for are left out.

    Returns:
        For each model and number of pairs `recalled` and `recalled_among_values`, shares of the
        queries (Wilson interval over instances), the floor the task's highest.
    """
    ids = recall_ids(pair.teacher.config.vocab_size, config.seed)
    task = Mqar(vocab=len(ids))
    rows = []
    for pairs in config.pairs:
        if 2 * pairs + 2 > len(ids):
            continue
        batch = task.batch(stage=pairs, split="test", seed=config.seed, size=config.recalls)
        for name, model in pair.models():
            shares = recalled(model, batch, ids, pair.runtime)
            for metric, share in zip(("recalled", "recalled_among_values"), shares, strict=True):
                place = {"part": "mqar", "model": name, "length": pairs, "metric": metric}
                floor = max(task.floors(pairs).values())
                rows.append(Measured.of(share_interval(share), floor=floor, **place))
    return rows
