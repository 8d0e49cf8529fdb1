"""Values, gradients and the number of compiled graphs, in a process without run-time type checks.

The checks of jaxtyping, on under pytest, are no code that torch.compile can trace. Run with the
name of a compiler backend of torch and the names of presets; prints one line of JSON for each.
"""

import json
import sys
from unittest import mock

import torch
from torch._dynamo.utils import counters

from lt2theory.models import LoopedConfig, LoopedModel, compiled_block, presets


def relative(found: torch.Tensor, expected: torch.Tensor) -> float:
    far = (found - expected).abs().max() / expected.abs().max().clamp(min=1e-30)
    return far.item()


def both(model: LoopedModel, tokens: torch.Tensor) -> tuple[float, float]:
    """Largest relative difference of the logits, and of any parameter's gradient."""
    found = []
    for compiled in (False, True):
        model.compiled = compiled
        logits = model(tokens)
        gradients = torch.autograd.grad(
            logits.square().mean(), list(model.parameters()), allow_unused=True
        )
        found.append((logits, gradients))
    (plain, expected), (logits, gradients) = found
    pairs = zip(gradients, expected, strict=True)
    return relative(logits, plain), max(
        relative(one, other) for one, other in pairs if one is not None and other is not None
    )


def measure(config: LoopedConfig, backend: str) -> dict[str, object]:
    """Two lengths of the text, odd ones, in float64; in float32 where code is generated."""
    torch.compiler.reset()
    counters.clear()
    parts = tuple(
        torch.compile(part, fullgraph=True, backend=backend)
        for part in (compiled_block._before, compiled_block._after)
    )
    dtype = torch.float32 if backend == "inductor" else torch.float64
    model = LoopedModel(config).to(dtype)
    generator = torch.Generator().manual_seed(1)
    with mock.patch.object(compiled_block, "_parts", return_value=parts):
        first = both(model, torch.randint(200, (3, 21), generator=generator))
        graphs = counters["stats"]["unique_graphs"]
        second = both(model, torch.randint(200, (2, 17), generator=generator))
    return {"graphs": graphs, "differences": [*first, *second]}


if __name__ == "__main__":
    named = presets()
    for name in sys.argv[2:]:
        deep = named[name].model_copy(update={"num_layers": 4, "num_loops": 3})
        sys.stdout.write(json.dumps({"name": name, **measure(deep, sys.argv[1])}) + "\n")
