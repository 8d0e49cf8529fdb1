"""What the table of docs/conformance.md has for rows, columns and empty cells."""

from functools import cache

from lt2theory.analysis.conformance import PROPERTIES as PROPERTIES
from lt2theory.mixers import MIXERS, LinearMixer
from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.ops import ATTENTIONS, BACKENDS, BLOCK_ATTENTIONS, INDEXED_ATTENTIONS, RECURRENCES
from lt2theory.ops.factors import BlockSparseInputs, Factors, IndexedInputs
from lt2theory.ops.registry import Registry

ANY_BACKEND = "auto"
OF_MIXERS = {
    "FLA layer": "weights load both ways, and outputs and gradients are those of FLA's layer",
    "bfloat16": "under autocast outputs and gradients differ by the rounding of products alone",
}
"""Columns of the table that does not depend on the backend: shown with `auto`, on a CPU."""

NOT_IN_FLA = {
    "full": "FLA's layer cannot be made without another package's kernels",
    "window": "FLA's layer cannot be made without another package's kernels",
    "mlstm": "FLA has no such layer",
    "dsa": "FLA has no such layer",
    "nsa": "names and shapes alone: the window of FLA's layer needs another package's kernels",
}
"""Mixers without a layer of FLA's that could be compared, and why."""

NSA_OF_FLA = (
    "FLA's op is of another definition: it always selects the first and the previous block, and "
    "needs 16 query heads for a key head"
)

UNSERVED = {
    (mixer, "triton"): "its kernels have one decay a head, not one a channel"
    for mixer in ("gla", "hgrn2", "kda")
} | {("full", "triton"): "its kernels are for windows alone"}
"""Mixers that a backend of their op refuses, and why."""


@cache
def registry_of(mixer: str) -> Registry[object, object]:
    """The backends of the op that a mixer prepares for."""
    import torch

    config = LoopedConfig(pattern=mixer, num_layers=1, width=8, num_heads=2, vocab_size=2)
    with torch.no_grad():
        prepared = LoopedModel(config).trace(torch.zeros(1, 2, dtype=torch.int64)).factors[0, 0]
    if isinstance(prepared, Factors):
        return RECURRENCES
    if isinstance(prepared, BlockSparseInputs):
        return BLOCK_ATTENTIONS
    return INDEXED_ATTENTIONS if isinstance(prepared, IndexedInputs) else ATTENTIONS


def backends() -> tuple[str, ...]:
    """The names of all backends that can be asked for, without `auto`."""
    return tuple(name for name in BACKENDS if name != "auto")


def why_empty(mixer: str, backend: str, name: str) -> str | None:
    """Why a cell has no test, in a few words, or None where it must have one."""
    if backend not in registry_of(mixer).names:
        if (mixer, backend) == ("nsa", "fla"):
            return NSA_OF_FLA
        return f"`{registry_of(mixer).op}` has no such backend"
    if (mixer, backend) in UNSERVED:
        return UNSERVED[mixer, backend]
    if name == "accumulate" and not issubclass(MIXERS[mixer], LinearMixer):
        return "attention has no recurrent state; its layers rescan"
    return NOT_IN_FLA.get(mixer) if name == "FLA layer" else None


def mixer_of_preset(parameters: dict[str, object]) -> str | None:
    """For the marker: the row of a test whose parameter `preset` is a toy of one mixer."""
    name = str(parameters["preset"]).removeprefix("toy-").removesuffix("-accumulate")
    return name if name in MIXERS else None
