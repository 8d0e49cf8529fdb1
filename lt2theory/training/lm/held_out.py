"""Bits per byte on the eval split, by all processes of a run together."""

from typing import Any

import numpy as np

from lt2theory.fields import KnownFields
from lt2theory.models import LoopedModel
from lt2theory.training.lm.config import LmConfig
from lt2theory.training.lm.ranks import Ranks
from lt2theory.training.runtime import Runtime
from lt2theory.training.text import BitsPerByte, TokenStream, bits_per_byte


class HeldOut(KnownFields, frozen=True):
    """An evaluation on the eval split.

    Attributes:
        bits_per_byte: Bits over bytes of the original text.
        bits_per_token: Bits over predicted tokens.
        documents: Documents that were read.
        bytes: Bytes of their text.
    """

    bits_per_byte: float
    bits_per_token: float
    documents: int
    bytes: int

    @classmethod
    def of(cls, found: BitsPerByte) -> "HeldOut":
        """Sum an evaluation up.

        Args:
            found: Bits and bytes of each document.

        Returns:
            The sums.
        """
        return cls(
            bits_per_byte=found.value,
            bits_per_token=found.bits_per_token,
            documents=len(found.document_bytes),
            bytes=int(found.document_bytes.sum()),
        )


def evaluate(
    model: LoopedModel, stream: TokenStream, config: LmConfig, runtime: Runtime, ranks: Ranks
) -> HeldOut:
    """Evaluate a model, each process on its share of the documents.

    Args:
        model: The model, whole in every process.
        stream: The eval split.
        config: How long its windows are, and how many documents are read.
        runtime: Device and precision.
        ranks: The processes.

    Returns:
        The evaluation, the same in every process.
    """
    mine = bits_per_byte(
        model,
        stream,
        runtime,
        length=config.evaluation_length or config.sequence_length,
        documents=config.evaluation_documents,
        rank=ranks.rank,
        num_ranks=ranks.size,
    )
    count = len(mine.document_bits)
    *both, tokens = ranks.sum(
        [*mine.document_bits.tolist(), *mine.document_bytes.tolist(), mine.tokens]
    )
    whole = BitsPerByte(
        np.array(both[:count]),
        np.array(both[count:], dtype=np.int64),
        int(tokens),
        mine.length,
        mine.context,
    )
    return HeldOut.of(whole)


def held_out_line(found: HeldOut, *, step: int) -> dict[str, Any]:
    """An evaluation.

    Args:
        found: What it found.
        step: Steps done.

    Returns:
        The record.
    """
    metrics = {"bits_per_byte": found.bits_per_byte, "bits_per_token": found.bits_per_token}
    return {"split": "eval", "step": step, "n": found.documents, "metrics": metrics}
