# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""The softmax of a tile of queries, online over tiles of keys: what every attention kernel shares.

`top` is the largest score so far, `total` the sum of the exponentials of `score - top`, and `acc`
the values weighted so. With BASE_2, scores have been multiplied by log2(e) and exponentials and
logarithms are to base 2. Importing this module imports Triton.
"""

from typing import no_type_check

import triton
import triton.language as tl


@triton.jit
@no_type_check
def add_tile(s, v, top, total, acc, BASE_2: tl.constexpr, PREC: tl.constexpr):
    """One tile more: scores s, minus infinity where nothing is seen, and the values of its keys."""
    higher = tl.maximum(top, tl.max(s, 1))
    # Nothing may be seen so far; minus infinity minus itself would be NaN.
    base = tl.where(higher == float("-inf"), 0.0, higher)
    if BASE_2:
        p = tl.exp2(s - base[:, None])
        shrink = tl.exp2(top - base)
    else:
        p = tl.exp(s - base[:, None])
        shrink = tl.exp(top - base)
    total = total * shrink + tl.sum(p, 1)
    acc = acc * shrink[:, None]
    acc = tl.dot(p.to(v.dtype), v, acc=acc, input_precision=PREC)
    return higher, total, acc


@triton.jit
@no_type_check
def finish(top, total, acc, BASE_2: tl.constexpr):
    """The outputs, zero where nothing was seen, and the logarithms of the sums."""
    some = total > 0
    divisor = tl.where(some, total, 1.0)
    o = acc / divisor[:, None]
    # Plus infinity makes every probability zero on the way back.
    lse = tl.where(some, top + (tl.log2(divisor) if BASE_2 else tl.log(divisor)), float("inf"))
    return o, lse
