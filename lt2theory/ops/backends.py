"""The backends of the linear recurrence and of softmax attention.

Those of the sparse attentions stand beside their ops (`sparse.nsa`, `sparse.dsa`).
"""

from lt2theory.ops import attention_triton
from lt2theory.ops.attention_chunked import chunked_attention
from lt2theory.ops.attention_reference import reference_attention
from lt2theory.ops.chunked.recurrence import chunked_recurrence
from lt2theory.ops.fla.attention import fla_attention, refuses_attention
from lt2theory.ops.fla.recurrence import fla_recurrence
from lt2theory.ops.fla.route import declines, describe, fails, refuses
from lt2theory.ops.reference import reference_recurrence
from lt2theory.ops.registry import Backend, Registry
from lt2theory.ops.triton_delta import route as triton_route
from lt2theory.ops.workload import (
    AttentionRunner,
    AttentionWorkload,
    RecurrenceRunner,
    RecurrenceWorkload,
)


def _load_triton() -> RecurrenceRunner:
    """Our kernels; their operator is made known to torch only when they are used."""
    from lt2theory.ops.triton_delta.recurrence import triton_recurrence

    return triton_recurrence


# Up to this many factor steps the token loop needs fewer operations than one chunk.
_FEW_STEPS = 2


def _too_few_steps(workload: RecurrenceWorkload) -> str | None:
    """Why a chunk is not worth its operations."""
    steps = workload.length * workload.num_factors
    if steps > _FEW_STEPS:
        return None
    return f"{steps} factor steps are fewer than a chunk is worth"


RECURRENCES: Registry[RecurrenceWorkload, RecurrenceRunner] = Registry(
    "linear_recurrence",
    (
        Backend(
            name="triton",
            load=_load_triton,
            merit="our Triton kernels for one decay a head, first derivatives only",
            refuses=triton_route.refuses,
            declines=triton_route.declines,
            describes=triton_route.describe,
        ),
        Backend(
            name="fla",
            load=lambda: fla_recurrence,
            merit="FLA's Triton kernels, first derivatives only",
            refuses=refuses,
            declines=declines,
            describes=describe,
            fails=fails,
        ),
        Backend(
            name="chunked",
            load=lambda: chunked_recurrence,
            merit="by chunks in plain torch, any decay, differentiable twice",
            declines=_too_few_steps,
        ),
        Backend(
            name="reference",
            load=lambda: reference_recurrence,
            merit="token by token, any dtype",
        ),
    ),
)
"""Backends of `linear_recurrence`."""

ATTENTIONS: Registry[AttentionWorkload, AttentionRunner] = Registry(
    "softmax_attention",
    (
        # Before `chunked` inside windows, where that writes every key and value twice, pads, turns
        # the axes and turns them back, forward and backward: 1.1 of 1.4 ms of a layer of 128 rows,
        # 526 tokens and a window of 64. Without a window there is nothing to copy.
        Backend(
            name="triton",
            load=lambda: attention_triton.triton_attention,
            merit="our kernels read the keys of a window where they lie; first derivatives only",
            lacks=attention_triton.lacks,
            refuses=attention_triton.refuses,
            declines=attention_triton.declines,
            describes=attention_triton.describe,
        ),
        Backend(
            name="chunked",
            load=lambda: chunked_attention,
            merit="torch's fused kernel, by blocks inside a window; first derivatives only",
        ),
        Backend(
            name="fla",
            load=lambda: fla_attention,
            merit="FLA's Triton kernel, first derivatives only",
            refuses=refuses_attention,
        ),
        Backend(
            name="reference",
            load=lambda: reference_attention,
            merit="a dense mask, any dtype, any derivative",
        ),
    ),
)
"""Backends of `softmax_attention`."""
