# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""How kernels of a training step read and write tiles: float32 inside, any dtype in memory."""

from typing import no_type_check

import triton
import triton.language as tl


@triton.jit
@no_type_check
def load_wide(X, at, mask):
    """Numbers in float32, zero outside the mask."""
    return tl.load(X + at, mask=mask, other=0.0).to(tl.float32)


@triton.jit
@no_type_check
def store_as(X, at, value, mask):
    """Write numbers in the dtype of the memory."""
    tl.store(X + at, value.to(X.dtype.element_ty), mask=mask)
