# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""What the forward and the backward kernel of the delta rule share: one chunk's loads and decays.

Importing this module imports Triton. Axes: c steps of a chunk, k and v widths.
"""

from typing import no_type_check

import triton
import triton.language as tl

LEAST_LOG_DECAY = tl.constexpr(-87.0)
"""Log decays below it empty the state: e^-87 is the smallest normal number of float32."""


@triton.jit
@no_type_check
def load_rows(P, rows, real, columns, WIDTH: tl.constexpr):
    """Rows of a matrix from their places, in float32; zero where a row or a column is not real."""
    mask = real[:, None] & (columns < WIDTH)[None, :]
    return tl.load(P + rows[:, None] + columns[None, :], mask=mask, other=0.0).to(tl.float32)


@triton.jit
@no_type_check
def store_rows(P, x, rows, real, columns, WIDTH: tl.constexpr):
    """The reverse of `load_rows`, in the dtype of the buffer."""
    mask = real[:, None] & (columns < WIDTH)[None, :]
    tl.store(P + rows[:, None] + columns[None, :], x.to(P.dtype.element_ty), mask=mask)


@triton.jit
@no_type_check
def load_gates(
    DECAY, BETA, WRITE, at, real,
    DECAYS: tl.constexpr, ERASES: tl.constexpr, WRITES: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Log decay, erase and write strength of a chunk; what is not given has its default."""
    raw = tl.zeros([C], tl.float32)
    if DECAYS:
        raw = tl.load(DECAY + at, mask=real, other=0.0).to(tl.float32)
    beta = tl.zeros([C], tl.float32)
    if ERASES:
        beta = tl.load(BETA + at, mask=real, other=0.0).to(tl.float32)
    write = beta
    if WRITES:
        write = tl.load(WRITE + at, mask=real, other=0.0).to(tl.float32)
    elif not ERASES:
        write = tl.full([C], 1.0, tl.float32)
    return raw, beta, write


@triton.jit
@no_type_check
def decays_of(raw, C: tl.constexpr):
    """Decays of a chunk from its log decays.

    The one between steps i and j is `e^{G_i - G_j}` for j at most i and 0 elsewhere; nothing
    positive is exponentiated. Log decays that empty the state are counted, not added up: they
    would cost the sum its last digits.

    Returns:
        The decays between steps `[c c]`, from the start, to the end (`[c]` both) and in total, and
        which steps do not empty the state.
    """
    i = tl.arange(0, C)
    gone = raw < LEAST_LOG_DECAY
    kept = tl.where(gone, 0.0, raw)
    summed = tl.cumsum(kept, 0)
    cuts = tl.cumsum(gone.to(tl.int32), 0)
    whole = tl.sum(kept, 0)
    all_cuts = tl.sum(gone.to(tl.int32), 0)
    met = (i[:, None] >= i[None, :]) & (cuts[:, None] == cuts[None, :])
    between = tl.exp(tl.where(met, summed[:, None] - summed[None, :], float("-inf")))
    start = tl.exp(tl.where(cuts == 0, summed, float("-inf")))
    end = tl.exp(tl.where(cuts == all_cuts, whole - summed, float("-inf")))
    total = tl.exp(tl.where(all_cuts == 0, whole, float("-inf")))
    return between, start, end, total, gone == 0


@triton.jit
@no_type_check
def _leading(x):
    """Float32 numbers cut to the 10 bits of TensorFloat-32, as a product cuts them."""
    return (x.to(tl.int32, bitcast=True) & -8192).to(tl.float32, bitcast=True)


@triton.jit
@no_type_check
def whole_dot(a, b):
    """A product of float32 tiles that no digit is cut from: three of TensorFloat-32, small first.

    Triton's own "tf32x3" is this and a guard of infinities, in a fifth more instructions.

    Returns:
        The product in float32.
    """
    x = _leading(a)
    y = _leading(b)
    product = tl.dot(a - x, y, input_precision="tf32")
    product = tl.dot(x, b - y, acc=product, input_precision="tf32")
    return tl.dot(x, y, acc=product, input_precision="tf32")


@triton.jit
@no_type_check
def unit_lower_inverse(below, LOG: tl.constexpr):
    """The inverse of `I + below`, a strictly lower triangular matrix of 2^LOG rows.

    With X the inverse of the diagonal blocks and L what lies below the first of two of them,
    `X - X L X` is the inverse of the blocks of twice the size. Unlike a power series of the whole
    matrix it stays small where beta is 2 and keys are equal.

    Returns:
        The inverse `[c c]`.
    """
    i = tl.arange(0, 1 << LOG)
    row = i[:, None]
    column = i[None, :]
    pair = ((row >> 1) == (column >> 1)) & (row > column)
    inverse = tl.where(row == column, 1.0, 0.0) - tl.where(pair, below, 0.0)
    for level in tl.static_range(1, LOG):
        corner = ((row >> (level + 1)) == (column >> (level + 1))) & (
            (row >> level) > (column >> level)
        )
        corners = tl.where(corner, below, 0.0)
        product = whole_dot(inverse, corners)
        inverse -= whole_dot(product, inverse)
    return inverse
