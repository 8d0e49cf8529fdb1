# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Float32 numbers as sums of parts of 8 bits, and products of such sums, for the wide delta rule.

Two parts hold 16 bits and three all 24; each is rounded to nearest, so that what is lost has no
sign and does not add up. Tensor cores multiply bfloat16 twice as fast as TensorFloat-32 and, unlike
that, from either order in shared memory. The parts are bfloat16; in Triton's interpreter, which
cannot multiply those, they are float32 numbers of as many bits. A buffer's dtype says which.

Importing this module imports Triton.
"""

from typing import no_type_check

import triton
import triton.language as tl


@triton.jit
@no_type_check
def leading_part(x, LIKE):
    """Float32 numbers rounded to 8 bits, in the dtype of the buffer LIKE."""
    if LIKE.dtype.element_ty == tl.float32:
        bits = (x.to(tl.int32, bitcast=True) + 0x8000) & -65536
        part = bits.to(tl.float32, bitcast=True)
    else:
        part = x.to(LIKE.dtype.element_ty)
    return part


@triton.jit
@no_type_check
def store_parts(P, x, at, SIZE: tl.constexpr, PARTS: tl.constexpr):
    """Write the parts of float32 numbers, SIZE places apart, the leading one first."""
    rest = x
    for index in tl.static_range(PARTS):
        part = leading_part(rest, P)
        tl.store(P + at + index * SIZE, part)
        rest -= part.to(tl.float32)


@triton.jit
@no_type_check
def load_parts(P, at, SIZE: tl.constexpr, PARTS: tl.constexpr):
    """The reverse of `store_parts`: always three, of which those beyond PARTS mean nothing."""
    first = tl.load(P + at)
    second = first
    third = first
    if PARTS > 1:
        second = tl.load(P + at + SIZE)
    if PARTS > 2:
        third = tl.load(P + at + 2 * SIZE)
    return first, second, third


@triton.jit
@no_type_check
def add_product(acc, a, b, c, d, LIKE, LEFT: tl.constexpr, RIGHT: tl.constexpr):
    """`acc` plus the product of float32 numbers in LEFT parts and of what b, c and d are parts of.

    Products of parts that are too small to count are left out; the others are added small first.

    Returns:
        The sum in float32.
    """
    first = leading_part(a, LIKE)
    rest = a - first.to(tl.float32)
    second = leading_part(rest, LIKE)
    if LEFT > 2:
        third = leading_part(rest - second.to(tl.float32), LIKE)
        acc = tl.dot(third, b, acc=acc)
        if RIGHT > 1:
            acc = tl.dot(second, c, acc=acc)
    if RIGHT > 2:
        acc = tl.dot(first, d, acc=acc)
    if LEFT > 1:
        acc = tl.dot(second, b, acc=acc)
    if RIGHT > 1:
        acc = tl.dot(first, c, acc=acc)
    return tl.dot(first, b, acc=acc)
