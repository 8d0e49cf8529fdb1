"""Exact matrices over a real quadratic field: A + B sqrt(n) with rational A and B."""

from collections.abc import Sequence
from dataclasses import dataclass

from flint import fmpq, fmpq_mat

from proofs_checks.exact import Rational, identity, matrix, rational


@dataclass(frozen=True, eq=False)
class Surds:
    """A matrix `a + b sqrt(root)`.

    Attributes:
        root: n, not a square.
        a: Rational part.
        b: Part with the root.
    """

    root: int
    a: fmpq_mat
    b: fmpq_mat

    def __add__(self, other: "Surds") -> "Surds":
        return Surds(self.root, self.a + other.a, self.b + other.b)

    def __sub__(self, other: "Surds") -> "Surds":
        return Surds(self.root, self.a - other.a, self.b - other.b)

    def __matmul__(self, other: "Surds") -> "Surds":
        return Surds(
            self.root,
            self.a * other.a + self.b * other.b * fmpq(self.root),
            self.a * other.b + self.b * other.a,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Surds):
            return NotImplemented
        return self.root == other.root and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def key(self) -> tuple[str, ...]:
        """The entries, to tell matrices apart."""
        return tuple(str(entry) for part in (self.a, self.b) for entry in part.entries())

    @property
    def transpose(self) -> "Surds":
        """The transposed matrix."""
        return Surds(self.root, self.a.transpose(), self.b.transpose())

    def times(self, a: Rational, b: Rational = 0) -> "Surds":
        """Multiply by a number.

        Args:
            a: Its rational part.
            b: Its part with the root.

        Returns:
            The multiple.
        """
        x, y = rational(a), rational(b)
        return Surds(self.root, self.a * x + self.b * (y * self.root), self.b * x + self.a * y)

    def trace(self) -> tuple[fmpq, fmpq]:
        """The trace.

        Returns:
            Its rational part and its part with the root.
        """
        size = self.a.nrows()
        return (
            sum((self.a[i, i] for i in range(size)), fmpq(0)),
            sum((self.b[i, i] for i in range(size)), fmpq(0)),
        )

    def rank(self) -> int:
        """The rank over the field.

        Returns:
            Half the rank of the rational matrix that multiplication by this one is.
        """
        rows, width = self.a.nrows(), self.a.ncols()
        whole = fmpq_mat(2 * rows, 2 * width)
        for i in range(rows):
            for j in range(width):
                whole[i, j] = whole[rows + i, width + j] = self.a[i, j]
                whole[i, width + j] = self.b[i, j] * self.root
                whole[rows + i, j] = self.b[i, j]
        return int(whole.rank()) // 2


def surds(
    root: int,
    a: Sequence[Sequence[Rational]],
    b: Sequence[Sequence[Rational]] | None = None,
) -> Surds:
    """A matrix from its two parts.

    Args:
        root: n.
        a: Rows of the rational part.
        b: Rows of the part with the root, or None for zero.

    Returns:
        The matrix.
    """
    rest = matrix([[0] * len(row) for row in a]) if b is None else matrix(b)
    return Surds(root, matrix(a), rest)


def unit_matrix(root: int, size: int) -> Surds:
    """The identity.

    Args:
        root: n.
        size: Rows.

    Returns:
        The matrix.
    """
    one = identity(size)
    return Surds(root, one, one - one)


def surd_factor(key: Surds, beta_norm: Rational = 2) -> Surds:
    """The factor `I - beta k k^T` of a key of any length.

    Args:
        key: A column that is not zero.
        beta_norm: beta |k|^2; 2 is a reflection.

    Returns:
        The factor.
    """
    norm = key.transpose @ key
    x, y = norm.a[0, 0], norm.b[0, 0]
    size = x * x - y * y * key.root  # the field's norm of |k|^2
    scale = rational(beta_norm) / size
    inverse_times = (key @ key.transpose).times(x * scale, -y * scale)
    return unit_matrix(key.root, key.a.nrows()) - inverse_times
