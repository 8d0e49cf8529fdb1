"""Whether a mixer does what every mixer must: the properties of docs/conformance.md, measured.

Every property is one number, the largest difference relative to the largest entry, which must be
within rounding of zero.
"""

import pandas as pd

from lt2theory.analysis.conformance_measures import (
    MEASURES,
    accumulate_error,
    draw_tokens,
    small_model,
    step_errors,
)
from lt2theory.mixers import MIXERS, LinearMixer
from lt2theory.models import LoopedModel
from tasks.names import unknown_name

PROPERTIES = {
    "values": "the outputs are those of the definition or, for a faster backend, of `reference`",
    "gradients": "so are the gradients of every parameter",
    "causality": "no output changes with a later token",
    "streaming": "prefill in pieces and decoding give the outputs of the parallel form",
    "padding": "a row padded on the left gives what it gives alone",
    "packing": "packed documents give what each gives alone",
    "checkpointing": "recomputing loops in backward leaves values and gradients as they are",
    "accumulate": "T loops are T factors a token on one state",
}
"""What is measured, and what each says."""

TOLERANCE = 1e-10
"""Largest difference in float64 that is rounding, relative to the largest entry."""


def check_mixer(mixer: str, *, backend: str = "chunked") -> pd.DataFrame:
    """Measure every property of one mixer, in float64 on a CPU.

    Args:
        mixer: Its name; one of your own after `lt2theory.mixers.register_mixer`.
        backend: Backend of its op, such as `chunked` or `reference`.

    Returns:
        One row a property: `property`, `meaning`, `error` (relative to the largest entry),
        `tolerance` and `holds`. `accumulate` is left out for attention, which has no state.

    Raises:
        ValueError: There is no mixer of the name, or its op has no such backend.
    """

    def build(**changes: object) -> LoopedModel:
        return small_model(mixer, backend, **changes)

    def reference(**changes: object) -> LoopedModel:
        return small_model(mixer, "reference", **changes)

    if mixer not in MIXERS:
        raise ValueError(unknown_name("mixer", mixer, MIXERS))
    found = step_errors(build(), reference(), draw_tokens(1, 67))
    errors = {"values": found.pop("logits"), "gradients": max(found.values())}
    errors |= {name: measure(build) for name, measure in MEASURES.items()}
    if issubclass(MIXERS[mixer], LinearMixer):
        errors["accumulate"] = accumulate_error(build)
    rows = [(name, PROPERTIES[name], error, TOLERANCE) for name, error in errors.items()]
    table = pd.DataFrame(rows, columns=["property", "meaning", "error", "tolerance"])
    return table.assign(holds=table["error"] <= table["tolerance"])
