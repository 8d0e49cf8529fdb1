"""Recovery of the teacher on held-out documents: divergence, bits per byte, agreement."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor
from torch.nn import functional as F

from lt2theory.linearize.divergence import token_kl
from lt2theory.linearize.evaluation.intervals import Estimate, ratio_interval
from lt2theory.linearize.evaluation.pair import EvaluationConfig, Pair
from lt2theory.linearize.evaluation.table import Measured
from lt2theory.mixers.base import at_least_float32
from lt2theory.training.passes import LOGITS_AT_ONCE, TOKENS_AT_ONCE
from lt2theory.training.text import NO_TARGET
from lt2theory.training.text.windows import filled_windows, window_batches


@dataclass(frozen=True)
class DocumentSums:
    """What was added up over the predicted tokens of each document.

    Attributes:
        kl: Divergence from the teacher's last loop, nats.
        kl_by_loop: The same between equal loops `[loops documents]`; without rows where the two
            have different numbers of loops.
        student: Cross-entropy of the student, nats.
        teacher: Cross-entropy of the teacher, nats.
        agreement: Tokens at which both find the same one likeliest.
        tokens: Predicted tokens.
        bytes: Bytes of the text.
    """

    kl: Float64[np.ndarray, " documents"]
    kl_by_loop: Float64[np.ndarray, "loops documents"]
    student: Float64[np.ndarray, " documents"]
    teacher: Float64[np.ndarray, " documents"]
    agreement: Float64[np.ndarray, " documents"]
    tokens: Int64[np.ndarray, " documents"]
    bytes: Int64[np.ndarray, " documents"]


@torch.no_grad()
def document_sums(
    pair: Pair, *, length: int, documents: int | None = None, chunk: int | None = None
) -> DocumentSums:
    """Compare a student with its teacher, document by document.

    Documents longer than `length` are read in windows that overlap by half; every token but a
    document's first mark is predicted once, its end too.

    Args:
        pair: The models and the text.
        length: Most tokens that are read at once.
        documents: Only so many, the first; None for all.
        chunk: Tokens whose logits are held at a time, of both models; None is what
            `LOGITS_AT_ONCE` allows.

    Returns:
        The sums.
    """
    stream, runtime = pair.stream, pair.runtime
    count = min(documents or stream.num_documents, stream.num_documents)
    vocab = pair.teacher.config.vocab_size
    at_once = chunk or max(1, LOGITS_AT_ONCE // (2 * vocab))
    equal = pair.teacher.config.num_loops == pair.student.config.num_loops
    loops = pair.teacher.config.num_loops if equal else 0
    sums = np.zeros((4 + loops, count))
    tokens = np.zeros(count, dtype=np.int64)
    most = TOKENS_AT_ONCE[runtime.device.type]
    for windows in window_batches(stream, range(count), length, max(1, length // 2), most):
        inputs, targets, ids = filled_windows(stream, windows)
        scored = targets != NO_TARGET
        rows = np.array([window.row for window in windows])[np.nonzero(scored)[0]]
        documents_of = runtime.tensor(ids) if (ids < 0).any() else None
        at = runtime.tensor(scored)
        with runtime.alone(), runtime.autocast():
            states = [
                [
                    h[at][None]
                    for h in model.read_loops(runtime.tensor(inputs), documents=documents_of)
                ]
                for _, model in pair.models()
            ]
            labels = runtime.tensor(targets)[at]
            parts = list(_compared(pair, states, labels, at_once, loops))
        np.add.at(sums.T, rows, np.concatenate(parts))
        tokens += np.bincount(rows, minlength=count)
    sizes = np.array([stream.document(row)[1] for row in range(count)], dtype=np.int64)
    return DocumentSums(sums[0], sums[4:], sums[1], sums[2], sums[3], tokens, sizes)


def _compared(
    pair: Pair, states: list[list[Tensor]], labels: Tensor, chunk: int, loops: int
) -> Iterator[Float64[np.ndarray, "n columns"]]:
    """Of some tokens at a time: divergence, both cross-entropies, agreement, divergence by loop."""
    models = pair.teacher, pair.student
    for start in range(0, len(labels), chunk):
        part = slice(start, start + chunk)
        p, q = (m.read_out(hs[-1][:, part])[0] for m, hs in zip(models, states, strict=True))
        found = [token_kl(p, q), _losses(q, labels[part]), _losses(p, labels[part])]
        found.append((p.argmax(-1) == q.argmax(-1)).to(found[0].dtype))
        for loop in range(loops - 1):
            p, q = (m.read_out(hs[loop][:, part])[0] for m, hs in zip(models, states, strict=True))
            found.append(token_kl(p, q))
        found += [found[0]] * (loops > 0)
        yield torch.stack(found, 1).double().cpu().numpy()


def _losses(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(at_least_float32(logits), labels, reduction="none")


def recovery_rows(pair: Pair, config: EvaluationConfig) -> list[Measured]:
    """Recovery as rows of the table.

    Args:
        pair: The models and the text.
        config: `documents`, `length` and `seed`.

    Returns:
        For the pair `kl` (nats a token, by loop too where both loop equally often), `agreement`
        and `loss_gap` (nats a token, paired by documents); for each model `bits_per_byte`, `loss`
        and `perplexity` (a token). Intervals are bootstraps over documents.
    """
    found = document_sums(pair, length=config.length, documents=config.documents)

    def row(model: str, metric: str, one: Estimate, loop: int | None = None) -> Measured:
        place = {"model": model, "metric": metric, "loop": loop, "length": config.length}
        return Measured.of(one, part="recovery", **place)

    def by_token(sums: Float64[np.ndarray, " documents"]) -> Estimate:
        return ratio_interval(sums, found.tokens, seed=config.seed)

    rows = [row("pair", "kl", by_token(found.kl))]
    if len(found.kl_by_loop) > 1:
        rows += [row("pair", "kl", by_token(kl), loop) for loop, kl in enumerate(found.kl_by_loop)]
    rows.append(row("pair", "agreement", by_token(found.agreement)))
    rows.append(row("pair", "loss_gap", by_token(found.student - found.teacher)))
    for model, nats in (("teacher", found.teacher), ("student", found.student)):
        loss = by_token(nats)
        bits = ratio_interval(nats / math.log(2), found.bytes, seed=config.seed)
        value, low, high = np.exp([loss.value, loss.low, loss.high]).tolist()
        perplexity = Estimate(value, low, high, loss.n)
        rows += [row(model, "bits_per_byte", bits), row(model, "loss", loss)]
        rows.append(row(model, "perplexity", perplexity))
    return rows
