"""A kernel that compiles at some sizes and not at others."""

from typing import no_type_check

import triton
import triton.language as tl


@triton.jit
@no_type_check
def fill_kernel(X, SIZE: tl.constexpr):
    """SIZE ones."""
    at = tl.arange(0, SIZE)
    tl.store(X + at, 1.0 + tl.zeros([SIZE], tl.float32))
