"""Bits per byte: what a model spends on the original text, whatever its tokenizer."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch.nn import functional as F

from lt2theory.models import LoopedModel
from lt2theory.training.passes import LOGITS_AT_ONCE, TOKENS_AT_ONCE
from lt2theory.training.runtime import Runtime
from lt2theory.training.text.batches import NO_TARGET
from lt2theory.training.text.corpus import TokenStream
from lt2theory.training.text.windows import filled_windows, window_batches


@dataclass(frozen=True)
class BitsPerByte:
    """What a model spends on documents, each read on its own from its first byte.

    The end of a document is counted too, since a code must say where it is; the mark before a
    document is given.

    Attributes:
        document_bits: Bits of each document: the sum of `-log2 p` over its tokens and its end.
        document_bytes: Bytes of the original text of each document.
        tokens: Tokens that were predicted, ends included.
        length: Most tokens that the model read at once.
        context: Least tokens that stood before a predicted one, where the document has as many.
    """

    document_bits: Float64[np.ndarray, "documents"]
    document_bytes: Int64[np.ndarray, "documents"]
    tokens: int
    length: int
    context: int

    @property
    def value(self) -> float:
        """Bits over bytes, of all documents together."""
        return float(self.document_bits.sum() / self.document_bytes.sum())

    @property
    def bits_per_token(self) -> float:
        """Bits over predicted tokens: the loss, over ln 2."""
        return float(self.document_bits.sum() / self.tokens)


def bits_per_byte(
    model: LoopedModel,
    stream: TokenStream,
    runtime: Runtime,
    *,
    length: int,
    context: int | None = None,
    documents: int | None = None,
    rank: int = 0,
    num_ranks: int = 1,
) -> BitsPerByte:
    """Evaluate a language model on held-out documents by a sliding window.

    A document longer than `length` is read in windows that overlap; each token is predicted once,
    with at least `context` and at most `length` tokens before it in its window.

    Args:
        model: The model.
        stream: A split of a corpus.
        runtime: Device and precision; logits are reduced in at least float32, sums in float64.
        length: Tokens that are read at once.
        context: In 1 .. `length`; None is half of it. A long document costs
            `length / (length - context + 1)` times its tokens.
        documents: Only so many, the first; None is all.
        rank: Which of `num_ranks` processes this is.
        num_ranks: How many share the work: this one reads documents `rank`, `rank + num_ranks`, ...

    Returns:
        The bits and bytes of each document, 0 for those that other processes read: the sums over
        processes are what one would find. A probability of 0 gives infinite bits.

    Raises:
        ValueError: An argument is out of range, or the model has a smaller vocabulary.
    """
    overlap = max(1, length // 2) if context is None else context
    _check(model, stream, length, overlap, documents)
    if not 0 <= rank < num_ranks:
        raise ValueError(f"rank: {rank} must lie in 0..{num_ranks - 1}")
    count = stream.num_documents if documents is None else min(documents, stream.num_documents)
    bits = np.zeros(count)
    sizes = np.zeros(count, dtype=np.int64)
    tokens = 0
    at_once = min(TOKENS_AT_ONCE[runtime.device.type], LOGITS_AT_ONCE // model.config.vocab_size)
    training = model.training
    model.eval()
    with runtime.alone(), torch.no_grad():
        for windows in window_batches(
            stream, range(rank, count, num_ranks), length, overlap, at_once
        ):
            inputs, targets, ids = filled_windows(stream, windows)
            losses = _losses(model, runtime, inputs, targets, ids)
            np.add.at(bits, [window.row for window in windows], losses.sum(1) / math.log(2))
            tokens += int((targets != NO_TARGET).sum())
    model.train(training)
    for row in range(rank, count, num_ranks):
        sizes[row] = stream.document(row)[1]
    return BitsPerByte(bits, sizes, tokens, length, overlap)


def _check(
    model: LoopedModel, stream: TokenStream, length: int, context: int, documents: int | None
) -> None:
    """Refuse what would fail late or mean nothing.

    Raises:
        ValueError: Naming the argument.
    """
    if length < 1:
        raise ValueError(f"length: {length} must be >= 1")
    if not 1 <= context <= length:
        raise ValueError(f"context: {context} must lie in 1..{length} (length)")
    if documents is not None and documents < 1:
        raise ValueError(f"documents: {documents} must be >= 1 or None")
    if model.config.vocab_size < stream.vocab_size:
        raise ValueError(
            f"vocab_size: {model.config.vocab_size} of the model must be at least the "
            f"{stream.vocab_size} of the corpus"
        )


def _losses(
    model: LoopedModel,
    runtime: Runtime,
    inputs: Int64[np.ndarray, "b t"],
    targets: Int64[np.ndarray, "b t"],
    ids: Int64[np.ndarray, "b t"],
) -> Float64[np.ndarray, "b t"]:
    """Cross-entropies in nats, 0 where there is no target."""
    # Without padding a row is one unbroken stream, which is read the fast way.
    documents = runtime.tensor(ids) if (ids < 0).any() else None
    labels = runtime.tensor(targets)
    with runtime.autocast():
        logits = model(runtime.tensor(inputs), documents=documents)
    kept = logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits
    losses = F.cross_entropy(kept.flatten(0, 1), labels.flatten(), reduction="none")
    return losses.view(labels.shape).double().cpu().numpy()
