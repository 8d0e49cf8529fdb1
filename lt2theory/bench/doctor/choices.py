"""What `auto` would take for each mixer on this machine, and what stood in the way of the rest."""

from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import Any

import torch

from lt2theory.bench.doctor.inputs import Prepared, build_mixer, make_stream, make_tokens
from lt2theory.ops import (
    AttentionProblem,
    BlockSparseProblem,
    explain_attention,
    explain_block_attention,
    explain_indexed_attention,
    explain_recurrence,
    stabilise,
)
from lt2theory.ops.factors import BlockSparseInputs, Factors, IndexedInputs
from lt2theory.ops.registry import Choice
from lt2theory.ops.sparse.dsa import indexed_problem

WIDTH, LENGTH = 64, 131


@dataclass(frozen=True)
class Served:
    """A mixer and the backend that a model's training would run it on.

    Attributes:
        mixer: A name in `MIXERS`.
        dtype: Dtype of what the mixer hands to its op.
        backend: What `auto` takes; empty where nothing could be found out.
        reason: Why.
        passed_over: What `auto` would rather have taken, each with the objection.
    """

    mixer: str
    dtype: str
    backend: str
    reason: str
    passed_over: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {**asdict(self), "passed_over": [list(pair) for pair in self.passed_over]}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Served":
        """What `to_json` wrote."""
        pairs = tuple((str(name), str(why)) for name, why in values["passed_over"])
        return cls(**{**values, "passed_over": pairs})


def find_served(mixer: str, device: str) -> Served:
    """Ask `auto`, in the setting of a model that trains: float32 weights, autocast on a GPU.

    Args:
        mixer: A name in `MIXERS`.
        device: Where.

    Returns:
        The answer for heads of width 64 and 131 tokens.
    """
    built = build_mixer(mixer, WIDTH).to(device)
    x = make_tokens(WIDTH, LENGTH).float().to(device)
    on_gpu = torch.device(device).type == "cuda"
    with torch.autocast("cuda", torch.bfloat16) if on_gpu else nullcontext():
        prepared = built.prepare(x, make_stream(LENGTH, device))
        choice = explain(prepared, "auto")
    dtype = str(prepared.q.dtype).removeprefix("torch.")
    return Served(mixer, dtype, choice.backend.name, choice.reason, choice.passed_over)


def explain(prepared: Prepared, backend: str) -> Choice[Any, Any]:
    """Which backend of its op would run the inputs, and why.

    Args:
        prepared: The inputs.
        backend: A name of a backend, or `auto`.

    Returns:
        The choice.

    Raises:
        ValueError: If that backend cannot run them.
    """
    if isinstance(prepared, Factors):
        normalised = prepared.log_write is not None
        factors = stabilise(prepared).factors if normalised else prepared
        return explain_recurrence(factors, backend=backend)
    if isinstance(prepared, IndexedInputs):
        return explain_indexed_attention(indexed_problem(prepared), backend=backend)
    scale = prepared.q.shape[-1] ** -0.5 if prepared.scale is None else prepared.scale
    tensors = (prepared.q, prepared.k, prepared.v)
    if isinstance(prepared, BlockSparseInputs):
        problem = BlockSparseProblem(
            *tensors,
            prepared.window,
            scale,
            None,
            None,
            gates=prepared.gates,
            block_size=prepared.block_size,
            num_blocks=prepared.num_blocks,
        )
        return explain_block_attention(problem, backend=backend)
    plain = AttentionProblem(*tensors, prepared.window, scale, None, None)
    return explain_attention(plain, backend=backend)
