"""Which cases the doctor measures."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import torch

from lt2theory.bench.doctor.inputs import Prepared, prepare
from lt2theory.mixers import MIXERS
from lt2theory.ops import (
    ATTENTIONS,
    BACKENDS,
    BLOCK_ATTENTIONS,
    INDEXED_ATTENTIONS,
    RECURRENCES,
    AttentionProblem,
)
from lt2theory.ops.factors import BlockSparseInputs, Factors, IndexedInputs
from lt2theory.ops.workload import AttentionWorkload
from tasks.names import unknown_name

Start = Literal["fresh", "continued"]
"""`fresh`: the first tokens, as in training. `continued`: after a state, or cached keys."""

DTYPES = {name: getattr(torch, name) for name in ("float64", "float32", "float16", "bfloat16")}


@dataclass(frozen=True)
class Case:
    """One measurement.

    Attributes:
        mixer: A name in `MIXERS`.
        backend: A backend of its op.
        dtype: Dtype that the op receives: a name in `DTYPES`.
        width: Key and value width of a head.
        length: Tokens.
        start: What came before them.
    """

    mixer: str
    backend: str
    dtype: str
    width: int
    length: int
    start: Start

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class Sizes:
    """What the cases are spread over; each one of `full` is a case of its own.

    Attributes:
        widths: Widths of a head.
        dtypes: Names of dtypes.
        lengths: Tokens.
        starts: What came before.
    """

    widths: tuple[int, ...]
    dtypes: tuple[str, ...]
    lengths: tuple[int, ...]
    starts: tuple[Start, ...] = get_args(Start)


def sizes_for(device: str, *, full: bool) -> Sizes:
    """What to measure on a device.

    On a GPU float32 is measured beside bfloat16 because a linear mixer hands float32 to its op also
    under autocast. 131 tokens are two chunks of 64 and an odd rest, 33 are less than a chunk,
    and 128 are two whole chunks, which tells a fault of odd lengths from one of all.

    Args:
        device: `cuda` or `cpu`.
        full: All widths and dtypes instead of the usual ones.

    Returns:
        The sizes.
    """
    if full:
        dtypes = ("bfloat16", "float16", "float32", *(["float64"] if device == "cpu" else []))
        return Sizes((16, 32, 64, 100, 128), dtypes, (33, 128, 131, 257))
    if device == "cpu":
        return Sizes((64,), ("float64", "float32", "bfloat16"), (131,))
    return Sizes((64,), ("bfloat16", "float32"), (131,), ("fresh",))


def plan(
    sizes: Sizes, *, mixers: Sequence[str] = (), backends: Sequence[str] = ()
) -> tuple[Case, ...]:
    """The cases, those of one mixer together.

    The reference in float64 is what all are compared with and no case itself.

    Args:
        sizes: What to spread over.
        mixers: Names in `MIXERS`; all if empty. One that is named twice counts once.
        backends: Names of backends; all that the mixer's op has if empty.

    Returns:
        The cases.

    Raises:
        ValueError: If there is no such mixer or backend, or none of the backends serves the mixers.
    """
    refuse_unknown("mixers", mixers, tuple(MIXERS))
    refuse_unknown("backends", backends, all_backends())
    pairs = _pairs(tuple(dict.fromkeys(mixers or MIXERS)), backends)
    return tuple(
        Case(mixer, backend, dtype, width, length, start)
        for mixer, backend in pairs
        for dtype in sizes.dtypes
        if (backend, dtype) != ("reference", "float64")
        for width in sizes.widths
        for length in sizes.lengths
        for start in sizes.starts
    )


def _pairs(mixers: Sequence[str], backends: Sequence[str]) -> list[tuple[str, str]]:
    """Each mixer with each of the backends that its op has; a `ValueError` if there are none."""
    served = [(mixer, backend) for mixer in mixers for backend in backends_of(mixer)]
    pairs = [pair for pair in served if not backends or pair[1] in backends]
    if not pairs:
        allowed = ", ".join(dict.fromkeys(backend for _, backend in served))
        raise ValueError(
            f"backends: none of {', '.join(dict.fromkeys(backends))} serves "
            f"{', '.join(mixers)} (choose from {allowed})"
        )
    return pairs


def all_backends() -> tuple[str, ...]:
    """Every backend that an op has, and every name that a model may ask for."""
    registries = (RECURRENCES, ATTENTIONS, BLOCK_ATTENTIONS, INDEXED_ATTENTIONS)
    names = [*BACKENDS, *(name for registry in registries for name in registry.names)]
    return tuple(name for name in dict.fromkeys(names) if name != "auto")


def backends_of(mixer: str) -> tuple[str, ...]:
    """Backends of a mixer's op, the reference first.

    Args:
        mixer: A name in `MIXERS`.

    Returns:
        Their names.
    """
    names = registry_names(prepare(mixer, width=16, length=2))
    return tuple(sorted(names, key=all_backends().index))


def registry_names(prepared: Prepared) -> tuple[str, ...]:
    """Names of the backends of the op that the inputs are for, those for other inputs left out."""
    if isinstance(prepared, Factors):
        names = RECURRENCES.names
    elif isinstance(prepared, BlockSparseInputs):
        names = BLOCK_ATTENTIONS.names
    elif isinstance(prepared, IndexedInputs):
        names = INDEXED_ATTENTIONS.names
    else:
        tensors = (prepared.q, prepared.k, prepared.v)
        problem = AttentionProblem(*tensors, prepared.window, 1.0, None, None)
        names = ATTENTIONS.names_for(AttentionWorkload.of(problem))
    return tuple(name for name in names if name != "auto")


def refuse_unknown(field: str, given: Sequence[str], allowed: Sequence[str]) -> None:
    """Refuse a name that does not exist.

    Args:
        field: What is named, for the message.
        given: The names.
        allowed: Those that exist.

    Raises:
        ValueError: If one does not.
    """
    for name in given:
        if name not in allowed:
            raise ValueError(unknown_name(field, name, allowed))
