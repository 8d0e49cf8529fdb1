"""Exact instances of T loops over one state: keys, strengths, decays, and their product."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from flint import fmpq, fmpq_mat

from proofs_checks.exact import (
    columns,
    diagonal,
    factor,
    identity,
    product,
    random_column,
    random_rational,
)
from proofs_checks.exact_vectors import dot, norm2, written

Gates = Literal["none", "scalar", "diagonal"]
ORDERS = ("decay_first", "erase_first")


@dataclass(frozen=True)
class Loops:
    """The factors of one token over T loops, in the order in which they act.

    Attributes:
        keys: Column vectors.
        betas: Erase strengths.
        decays: Diagonal matrices.
        order: `decay_first` or `erase_first`.
    """

    keys: tuple[fmpq_mat, ...]
    betas: tuple[fmpq, ...]
    decays: tuple[fmpq_mat, ...]
    order: str = "decay_first"

    @property
    def count(self) -> int:
        """Number of loops."""
        return len(self.keys)

    @property
    def size(self) -> int:
        """Key width."""
        return int(self.keys[0].nrows())

    @property
    def stacked(self) -> fmpq_mat:
        """The keys side by side."""
        return columns(self.keys)

    @property
    def erasures(self) -> tuple[fmpq, ...]:
        """`beta |k|^2` of each loop."""
        return tuple(b * norm2(k) for k, b in zip(self.keys, self.betas, strict=True))

    def effective(self) -> fmpq_mat:
        """Multiply the transitions out, later loops on the left.

        Returns:
            The matrix that acts on the state.
        """
        factors = zip(self.keys, self.betas, self.decays, strict=True)
        return product([factor(k, b, decay, order=self.order) for k, b, decay in factors])

    def baseline(self) -> fmpq_mat:
        """Multiply the decays alone.

        Returns:
            What the loops do without erasing.
        """
        return product(self.decays)

    def correction(self) -> fmpq_mat:
        """Compare with the baseline.

        Returns:
            Baseline less the effective transition.
        """
        return self.baseline() - self.effective()

    def written(self) -> str:
        """Say the instance in words.

        Returns:
            One line.
        """
        keys = ", ".join(written(k) for k in self.keys)
        decays = ", ".join(
            "diag(" + ", ".join(str(d[i, i]) for i in range(self.size)) + ")" for d in self.decays
        )
        betas = ", ".join(str(b) for b in self.betas)
        return f"keys {keys}; beta {betas}; decays {decays}; {self.order}"


def loops(
    keys: Sequence[fmpq_mat],
    betas: Sequence[fmpq | int],
    decays: Sequence[fmpq_mat] | None = None,
    *,
    order: str = "decay_first",
) -> Loops:
    """Put given factors together.

    Args:
        keys: Column vectors.
        betas: One number a key.
        decays: One diagonal matrix a key, or None for no decay.
        order: `decay_first` or `erase_first`.

    Returns:
        The instance.
    """
    if decays is None:
        decays = [identity(keys[0].nrows())] * len(keys)
    return Loops(tuple(keys), tuple(fmpq(b) for b in betas), tuple(decays), order)


def lower_part(square: fmpq_mat, *, strictly: bool = True) -> fmpq_mat:
    """What lies below the diagonal.

    Args:
        square: A square matrix.
        strictly: Whether the diagonal becomes zero too.

    Returns:
        A matrix of the same size.
    """
    size = int(square.nrows())
    least = 1 if strictly else 0
    entries = [square[i, j] if i - j >= least else 0 for i in range(size) for j in range(size)]
    return fmpq_mat(size, size, entries)


def compact_core(found: Loops) -> fmpq_mat:
    """R1's `M = (I + diag(beta) stril(K^T K))^-1 diag(beta)`.

    Args:
        found: The factors; their decays are not looked at.

    Returns:
        A T x T matrix.
    """
    strength = diagonal(found.betas)
    lower = lower_part(found.stacked.transpose() * found.stacked)
    return (identity(found.count) + strength * lower).inv() * strength


def random_decay(rng: random.Random, most: int = 5) -> fmpq:
    """A random decay.

    Args:
        rng: Source of randomness.
        most: Largest denominator.

    Returns:
        A number in (0, 1].
    """
    denominator = rng.randint(1, most)
    return fmpq(rng.randint(1, denominator), denominator)


def random_decays(rng: random.Random, size: int, count: int, gates: Gates) -> list[fmpq_mat]:
    """Random gates for some loops.

    Args:
        rng: Source of randomness.
        size: Key width.
        count: Loops.
        gates: None, one number a loop, or one a channel.

    Returns:
        Diagonal matrices with entries in (0, 1].
    """
    if gates == "none":
        return [identity(size)] * count
    if gates == "scalar":
        return [identity(size) * random_decay(rng) for _ in range(count)]
    return [diagonal([random_decay(rng) for _ in range(size)]) for _ in range(count)]


def random_strength(rng: random.Random) -> fmpq:
    """A random number that is not zero.

    Args:
        rng: Source of randomness.

    Returns:
        A number in [-3, 3].
    """
    while True:
        value = random_rational(rng)
        if value != 0:
            return value


def random_orthogonal_columns(rng: random.Random, size: int, count: int) -> list[fmpq_mat]:
    """Orthogonal keys of any length, by Gram and Schmidt without roots.

    Args:
        rng: Source of randomness.
        size: Key width.
        count: Keys, at most `size`.

    Returns:
        Column vectors that are not zero.
    """
    found: list[fmpq_mat] = []
    while len(found) < count:
        vector = random_column(rng, size)
        for earlier in found:
            vector = vector - earlier * (dot(earlier, vector) / norm2(earlier))
        if norm2(vector) != 0:
            found.append(vector)
    return found
