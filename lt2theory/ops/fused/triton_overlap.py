# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Kernels of a chain that begin while the one before still runs (programmatic dependent launch).

A step of decoding is a chain of some hundred kernels of about ten microseconds, and each would
begin cold: launch, first addresses, first bytes from memory. On Hopper and later a kernel may start
once every program of the one before has called `let_next_start` (or ended), and load what no kernel
of the chain writes: weights, and states as the last token left them. `wait_for_last` then holds it
until the one before has ended and its stores are visible. A kernel that is launched with
`launch_pdl=overlaps(device)` reads:

    ...                     # load weights, states of the last token
    wait_for_last(PDL)      # in every program, before any other load and before any store
    let_next_start(PDL)
    ...                     # all else

What makes this safe:

- Whoever is launched early waits in every program before its first store, and before its first load
  of anything the chain writes. So a kernel ends only after the one before it has, and by induction
  after all before it: after the wait nothing older runs, and no store overtakes an older load.
- The next kernel is let start only after the wait, so that at most two kernels share the device
  (starting still earlier was slower on an H200), and all programs of a kernel hold a multiprocessor
  before the next may start: those that wait keep none from running.
- A kernel that is launched the usual way starts after all before it have ended. One stands between
  any two tokens (the embedding), so what the last token wrote may be loaded before the wait.
"""

from functools import cache
from typing import no_type_check

import torch
import triton
import triton.language as tl
from triton.backends.nvidia.compiler import CUDAOptions

from lt2theory.ops.workload import is_interpreting


def overlaps(device: torch.device) -> bool:
    """Whether kernels on a device may begin before those they depend on have ended.

    Args:
        device: Where they run.

    Returns:
        Whether it is Hopper or later (never in the interpreter): what their launch option
        `launch_pdl` and their constant `PDL` are then.
    """
    return device.type == "cuda" and not is_interpreting() and _has_dependent_launch(device)


@cache
def _has_dependent_launch(device: torch.device) -> bool:
    known = "launch_pdl" in CUDAOptions.__dataclass_fields__
    return known and torch.cuda.get_device_capability(device) >= (9, 0)


@triton.jit
@no_type_check
def let_next_start(PDL: tl.constexpr):
    """Allow the next kernel's programs onto the device as soon as all of this one's are on it."""
    if PDL:
        tl.inline_asm_elementwise(
            "griddepcontrol.launch_dependents; mov.u32 $0, 0;",
            "=r", [], dtype=tl.int32, is_pure=False, pack=1,
        )  # fmt: skip


@triton.jit
@no_type_check
def wait_for_last(PDL: tl.constexpr):
    """Wait until the kernel before has ended and what it stored can be loaded."""
    if PDL:
        tl.inline_asm_elementwise(
            "griddepcontrol.wait; mov.u32 $0, 0;",
            "=r", [], dtype=tl.int32, is_pure=False, pack=1,
        )  # fmt: skip


@triton.jit
@no_type_check
def fetch_to_l2(places, COUNT: tl.constexpr, PDL: tl.constexpr):
    """Ask for COUNT elements from each of a block of pointers (to 16 bytes) to be moved to L2."""
    if PDL:
        BYTES: tl.constexpr = COUNT * places.type.scalar.element_ty.primitive_bitwidth // 8
        size = tl.full(places.shape, BYTES, tl.int32)
        tl.inline_asm_elementwise(
            "cp.async.bulk.prefetch.L2.global [$1], $2; mov.u32 $0, 0;",
            "=r,l,r", [places, size], dtype=tl.int32, is_pure=False, pack=1,
        )  # fmt: skip
