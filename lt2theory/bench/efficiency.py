"""Throughput and memory of looped models and their counterparts, by length and batch; resumable.

Every model runs on the fastest path that it has here: decoding as one CUDA graph a step, with the
fused kernels where they run; prompts in pieces into a cache, as a server must read them.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from lt2theory.bench.decode import Setting as Decoding
from lt2theory.bench.decode import decoder_at, random_model
from lt2theory.bench.efficiency_cells import (
    Cell,
    cache_bytes,
    config_of,
    floor_ms,
    weight_bytes,
)
from lt2theory.bench.prefill import Setting as Reading
from lt2theory.bench.prefill import reader
from lt2theory.bench.rates import mean_ms
from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.models.parameters import parameter_count
from lt2theory.models.preset import changed

WAYS = {"fused": True, "graph": False}
"""Ways to decode, the best first: fused kernels and plain torch, each as one graph."""
GIB = 2**30
SLOW_MS = 3000.0
"""A prefill that takes longer is timed once, others three times: the median counts."""
ConfigOf = Callable[[str, Any], LoopedConfig]


class Meter:
    """Time and memory of calls on a CUDA device.

    Attributes:
        device: Its name for torch.
    """

    device = "cuda"

    def memory(self) -> float:
        """Bytes that the device has."""
        return float(torch.cuda.get_device_properties(0).total_memory)

    def begin(self) -> None:
        """Free what is free, and begin to watch the memory."""
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()

    def peak(self) -> float:
        """Bytes in use at the highest, since `begin`."""
        return float(torch.cuda.max_memory_allocated())

    def is_alive(self) -> bool:
        """Whether the device still works: some faults of a kernel end it for the whole process."""
        try:
            torch.cuda.synchronize()
        except Exception:  # noqa: BLE001 - every later call raises what the fault was
            return False
        return True

    def milliseconds(self, call: Callable[[], Tensor], times: int = 1) -> float:
        """Mean time of calls one after the other.

        Args:
            call: What is timed.
            times: How many calls.

        Returns:
            Milliseconds a call.
        """
        return mean_ms(call, times)


def measure_cells(
    cells: Sequence[Cell],
    meter: Meter,
    *,
    until: float,
    most_seconds: float = 20.0,
    steps: int = 30,
    backend: str = "triton",
    config: ConfigOf = config_of,
) -> Iterator[dict[str, Any]]:
    """Measure cells one after the other; those that follow each other on one model share it.

    Args:
        cells: What to measure, in this order.
        meter: The device.
        until: Moment (`time.monotonic`) after which no cell is begun.
        most_seconds: A prefill whose products alone take so long is left out.
        steps: Decoding steps that are timed.
        backend: Backend of the ops of a prefill.
        config: Makes the model of a cell from its arm and form.

    Yields:
        One row a cell: its fields, `path` (fused, graph, or the pieces of a prefill), `ms`,
        `tokens_per_second`, `peak_gib`, `cache_gib` (told), `parameters_m`, `floor_ms` (of an H200)
        and `reason`: why it has no numbers, or why a better path was not taken; else None. A fault
        that the device does not survive gives the last row.
    """
    model: LoopedModel | None = None
    made: tuple[str, str] | None = None
    for cell in cells:
        if time.monotonic() >= until:
            return
        own = config(cell.arm, cell.form)
        told = floor_ms(own, cell)
        row: dict[str, Any] = vars(cell) | {
            "path": None,
            "ms": None,
            "tokens_per_second": None,
            "peak_gib": None,
            "cache_gib": cache_bytes(own, cell) / GIB,
            "parameters_m": parameter_count(own) / 1e6,
            "floor_ms": told,
            "reason": _does_not_fit(own, cell, meter.memory()),
        }
        if cell.phase == "prefill" and told > 1e3 * most_seconds:
            row["reason"] = row["reason"] or f"left out: takes at least {told / 1e3:.0f} s"
        if row["reason"] is None:
            if made != (cell.arm, cell.form):
                model = None  # before the next one is made
                meter.begin()
                model = random_model(own, meter.device)
                made = cell.arm, cell.form
            assert model is not None, "made just now or before"
            # Only a short prompt runs before decoding: no kernels need be tuned for that.
            own_backend = "chunked" if cell.phase == "decode" else backend
            model.config = changed(own, backend=own_backend)
            row |= _measured(model, cell, meter, steps)
            if row["ms"] is None and not meter.is_alive():
                yield row
                return
        yield row


def _does_not_fit(config: LoopedConfig, cell: Cell, memory: float) -> str | None:
    """Out of memory by the weights and the cache alone: nothing has to be tried then."""
    weights, cache = weight_bytes(config), cache_bytes(config, cell)
    if weights + cache <= memory:
        return None
    return (
        f"out of memory: cache {cache / GIB:.0f} GiB and weights {weights / GIB:.1f} GiB of "
        f"{memory / GIB:.0f} GiB"
    )


def _measured(model: LoopedModel, cell: Cell, meter: Meter, steps: int) -> dict[str, Any]:
    """The numbers of a cell on its best path, or the reason why there are none."""
    faults = []
    ways = list(WAYS) if cell.phase == "decode" else [f"pieces of {cell.chunk}"]
    for way in ways:
        meter.begin()
        try:
            if cell.phase == "decode":
                ms = _decode(model, cell, meter, steps, fused=WAYS[way])
            else:
                ms = _prefill(model, cell, meter)
        except torch.OutOfMemoryError:
            faults.append("out of memory")
        except Exception as error:  # noqa: BLE001 - one cell's fault spares the others
            faults.append(f"{way}: {type(error).__name__}: {str(error).splitlines()[:1]}")
        else:
            tokens = cell.batch * (cell.length if cell.phase == "prefill" else 1)
            return {
                "path": way,
                "ms": ms,
                "tokens_per_second": 1e3 * tokens / ms,
                "peak_gib": meter.peak() / GIB,
                "reason": "; ".join(faults) or None,
            }
    return {"reason": "; ".join(dict.fromkeys(faults))}


def _decode(model: LoopedModel, cell: Cell, meter: Meter, steps: int, *, fused: bool) -> float:
    setting = Decoding(cell.arm, cell.batch, cell.length)
    decoder = decoder_at(model, setting, fused=fused, steps=steps)
    tokens = torch.zeros(cell.batch, dtype=torch.int64, device=meter.device)
    step = partial(decoder.step, tokens)
    meter.milliseconds(step, 5)
    return meter.milliseconds(step, steps)


def _prefill(model: LoopedModel, cell: Cell, meter: Meter) -> float:
    setting = Reading(cell.arm, cell.batch, cell.length, chunk=cell.chunk)
    # Two pieces have all the kernels: one without a past, one behind it.
    begun = replace(setting, context=min(cell.length, 2 * cell.chunk))
    meter.milliseconds(reader(model, begun))
    read = reader(model, setting)
    first = meter.milliseconds(read)
    if first > SLOW_MS:
        return first
    return statistics.median([first, *(meter.milliseconds(read) for _ in range(2))])
