"""What kernels on runs of keys read and write: of native sparse attention, and of windows."""

from dataclasses import dataclass

from jaxtyping import Float, Int32
from torch import Tensor

from lt2theory.ops.sparse.nsa_spans import Spans, Window
from lt2theory.ops.sparse.tiling import Heads


@dataclass(frozen=True)
class Branch:
    """One branch, without its gates.

    Attributes:
        number: Its place among the gates.
        heads: Queries, and the keys and values that the branch reads.
        rest: What the keys have beyond their dtype's digits, or None.
        spans: What every query reads of them.
    """

    number: int
    heads: Heads
    rest: Float[Tensor, "b m g k"] | None
    spans: Spans | Window


@dataclass(frozen=True)
class Piece:
    """Queries `start` to `stop - 1` of `count` rows and key heads from `first` on.

    Rows and key heads are numbered together, `row * key heads + key head`.

    Attributes:
        first: First of them.
        count: How many.
        start: First query.
        stop: Query after the last.
    """

    first: int
    count: int
    start: int
    stop: int

    @property
    def length(self) -> int:
        """Queries of a row."""
        return self.stop - self.start


@dataclass(frozen=True)
class Parts:
    """What the queries of a piece have of keys outside a span: p places a query, some unused.

    Attributes:
        values: Outputs or gradients by key head, query, place and query head `[j n p r w]`.
        lse: Logarithms to base 2 of the sums of exponentials `[j n p r]`; of gradients, empty.
        taken: Blocks that every query takes `[j n]`.
        each: Places of a block.
    """

    values: Float[Tensor, "j n p r w"]
    lse: Float[Tensor, "..."]
    taken: Int32[Tensor, "j n"]
    each: int


@dataclass(frozen=True)
class Gradients:
    """What the way back reads, for all n branches, and the sums that it writes.

    A branch that is alone has no gate. What the sums are written in is rounded once; float32 where
    more than one is added.

    Attributes:
        output: Gradient of the gated sum `[b t h v]`.
        gates: Gates of the branches `[b t h n]`, or None where there is one.
        dots: Products of `output` with every branch `[b t h n]`, float32. Of one alone they are
            written with the gradient of the queries.
        q: Gradient of the queries `[b t h k]`.
        k: Gradient of the keys `[b m g k]`.
        v: Gradient of the values `[b m g v]`.
        result: What a branch alone gave `[b t h v]`; None where there are more.
    """

    output: Float[Tensor, "b t h v"]
    gates: Float[Tensor, "b t h n"] | None
    dots: Float[Tensor, "b t h n"]
    q: Float[Tensor, "b t h k"]
    k: Float[Tensor, "b m g k"]
    v: Float[Tensor, "b m g v"]
    result: Float[Tensor, "b t h v"] | None = None


def whole(heads: Heads) -> Piece:
    """All queries.

    Args:
        heads: Whose.

    Returns:
        One piece.
    """
    return Piece(0, len(heads.q) * heads.k.shape[2], 0, heads.q.shape[1])
