"""Irreducible characters of a finite group, from its multiplication table alone.

Over the reals a complex character and its conjugate belong to one representation, so they are
joined here: a `Component` is what a real linear state can hold.
"""

import re
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from tasks.groups import Group

TRIVIAL = "the trivial representation"
SIGN = "the sign"
STANDARD = "the standard representation"
ALTERNATING = ", alternating from token to token"
_ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class Component:
    """A real irreducible representation, as an isotypic component of functions on the group.

    Attributes:
        name: What it is called, such as `the standard representation`.
        degree: Degree of its complex constituent.
        dimension: Real dimension: the degree, or twice the degree for a conjugate pair.
        character: Trace at every element `[order]`.
    """

    name: str
    degree: int
    dimension: int
    character: Float64[np.ndarray, " order"]

    def kernel(self) -> Int64[np.ndarray, " kernel"]:
        """The elements that it cannot tell from the identity."""
        same: Int64[np.ndarray, " kernel"] = np.flatnonzero(
            self.character > self.dimension - _ROUNDING
        )
        return same

    def projection(
        self, ratios: Int64[np.ndarray, "order order"]
    ) -> Float64[np.ndarray, "order order"]:
        """The projection of functions on the group onto the component.

        `P = degree / |G| sum_g chi(g) L_g`, the same for left and right translations (Serre,
        Linear Representations of Finite Groups, 2.6).

        Args:
            ratios: Entry (i, j) is i j^-1, as `ratios` gives it.

        Returns:
            A symmetric matrix `[order order]`.
        """
        matrix: Float64[np.ndarray, "order order"] = self.character[ratios]
        return self.degree / len(ratios) * matrix


def inverses(group: Group) -> Int64[np.ndarray, " order"]:
    """The inverse of every element.

    Args:
        group: The group.

    Returns:
        Element numbers `[order]`.
    """
    found: Int64[np.ndarray, " order"] = np.argmin(group.cayley, axis=1)  # 0 is the identity
    return found


def ratios(group: Group) -> Int64[np.ndarray, "order order"]:
    """Entry (i, j) is "first j^-1, then i".

    Args:
        group: The group.

    Returns:
        Element numbers `[order order]`.
    """
    table: Int64[np.ndarray, "order order"] = group.cayley[inverses(group)].T.astype(np.int64)
    return table


def components(group: Group) -> tuple[Component, ...]:
    """All real irreducible representations, the trivial one first, then by dimension.

    The class sums commute; their common eigenvectors are the central characters (Burnside; Dixon,
    "High speed computation of group characters", 1967), found here from one combination of class
    sums with fixed random weights, in float64.

    Args:
        group: The group; meant for orders up to a few hundred.

    Returns:
        The components; the degrees' squares of their constituents add up to the order.
    """
    found: list[tuple[int, Float64[np.ndarray, " order"]]] = []
    for character in _complex_characters(group):
        degree = round(float(character[0].real))
        pair = float(np.abs(character.imag).max()) > _ROUNDING
        real = (2 if pair else 1) * character.real
        # Of a conjugate pair the second has the real part of the first.
        if not any(np.allclose(real, other, atol=_ROUNDING) for _, other in found):
            found.append((degree, real))
    found.sort(key=lambda one: (not np.allclose(one[1], 1), one[1][0], *(-one[1]).round(6)))
    named = []
    for number, (degree, character) in enumerate(found):
        dimension = round(float(character[0]))
        name = _name(group, character, dimension, number)
        named.append(Component(name, degree, dimension, character))
    return tuple(named)


def with_clock(found: tuple[Component, ...]) -> tuple[Component, ...]:
    """The components of G x Z_2, where every token adds one to the second part.

    A code may change its sign with every token, whatever the token is (theory L6); as a function
    of the product alone its mean is then zero.

    Args:
        found: Components of G.

    Returns:
        Components over the elements (g, parity), g first: those of G, then the alternating ones.
    """
    same, other = [], []
    for one in found:
        steady = np.repeat(one.character, 2)
        turning = steady * np.tile([1.0, -1.0], len(one.character))
        name = "the parity of the position" if one.name == TRIVIAL else one.name + ALTERNATING
        same.append(Component(one.name, one.degree, one.dimension, steady))
        other.append(Component(name, one.degree, one.dimension, turning))
    return (*same, *other)


def commuting_part(group: Group) -> Int64[np.ndarray, " order"]:
    """The class of every element modulo commutators: the sign for S_n, everything for Z_n.

    Args:
        group: The group.

    Returns:
        Class numbers `[order]`, the identity's is 0.

    Example:
        >>> from tasks.groups import group
        >>> commuting_part(group("S3")).tolist()
        [0, 1, 1, 0, 0, 1]
    """
    linear = np.stack([c for c in _complex_characters(group) if abs(c[0].real - 1) < _ROUNDING])
    values = np.concatenate([linear.real, linear.imag]).T.round(5) + 0.0
    _, first, label = np.unique(values, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(np.argsort(first))
    return order[label.reshape(-1)].astype(np.int64)


def eigenvalues(component: Component, group: Group) -> list[list[complex]]:
    """The eigenvalues of rho(g), from the character at the powers of g.

    Args:
        component: The representation, of G itself.
        group: G.

    Returns:
        For every element `dimension` roots of unity, by angle.
    """
    found = []
    for element in range(group.order):
        powers = [0]
        while (now := int(group.cayley[powers[-1], element])) != 0:
            powers.append(now)
        # Multiplicities are the discrete Fourier transform of the character over the powers.
        counts = np.fft.fft(component.character[powers]).real / len(powers)
        angles = 2j * np.pi * np.arange(len(powers)) / len(powers)
        pairs = zip(np.exp(angles).tolist(), counts.tolist(), strict=True)
        found.append([root for root, count in pairs for _ in range(round(count))])
    return found


def _complex_characters(group: Group) -> list[np.ndarray]:
    """All irreducible characters `[order]`, complex, in no particular order."""
    table, inverse = group.cayley, inverses(group)
    conjugates = np.stack([table[table[inverse[h]], h] for h in range(group.order)])
    _, label = np.unique(conjugates.min(axis=0), return_inverse=True)
    sizes = np.bincount(label)
    first = np.array([int(np.flatnonzero(label == c)[0]) for c in range(len(sizes))])
    weights = np.random.default_rng(0).standard_normal(len(sizes))
    # Entry (s, t): sum over y in class s of the weight of z_t y^-1.
    weighted = weights[label[table[inverse][:, first]]]
    matrix = np.zeros((len(sizes), len(sizes)))
    np.add.at(matrix, label, weighted)
    root = np.sqrt(sizes)
    _, vectors = np.linalg.eig(matrix / root[:, None] * root[None, :])  # normal when scaled so
    found = []
    for vector in vectors.T:
        central = vector * root / (vector[label[0]] * root[label[0]])
        degree = np.sqrt(group.order / float((np.abs(central) ** 2 / sizes).sum()))
        found.append((round(degree) * central / sizes)[label])
    assert round(sum(float(c[0].real) ** 2 for c in found)) == group.order
    return found


def _name(
    group: Group, character: Float64[np.ndarray, " order"], dimension: int, number: int
) -> str:
    """What a character is called; by its dimension and number where it has no common name."""
    if np.allclose(character, 1):
        return TRIVIAL
    if "x" not in group.name:
        family, points = group.name[0], int(group.name[1:])
        moved = np.array([len(re.findall(r"\d+", name)) for name in group.names])
        cycles = np.array([name.count("(") for name in group.names]) - (moved == 0)
        odd = 1.0 - 2.0 * ((moved - cycles) % 2)
        standard = points - moved - 1.0
        if np.allclose(character, odd):
            return SIGN
        if family == "Z":
            generator = "(" + " ".join(str(point) for point in range(1, points + 1)) + ")"
            cosine = float(character[group.names.index(generator)]) / dimension
            steps = round(float(np.arccos(np.clip(cosine, -1, 1))) * points / (2 * np.pi))
            return f"the rotation by {steps}/{points} of a turn"
        if np.allclose(character, standard):
            return STANDARD
        if np.allclose(character, odd * standard):
            return "the sign times the standard representation"
    return f"the representation of dimension {dimension} (no. {number})"
