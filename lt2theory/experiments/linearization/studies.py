"""The studies that `lt2 linearize study` knows by name, in the order of their blocks."""

from collections.abc import Callable

from lt2theory.experiments.linearization.cells import LinearCells, with_needs
from lt2theory.experiments.linearization.own_studies import gates, hybrids, sizes
from lt2theory.experiments.linearization.real_studies import instruction, mixers, starts
from tasks.names import unknown_name

ALL = "all"
PARTS: dict[str, Callable[..., LinearCells]] = {
    "mixers": mixers,
    "hybrids": hybrids,
    "starts": starts,
    "sizes": sizes,
    "gates": gates,
    "instruction": instruction,
}


def names() -> tuple[str, ...]:
    """Names of studies.

    Returns:
        The parts, then `all` of them in one folder, which trains a teacher once.
    """
    return (*PARTS, ALL)


def study_cells(name: str, *, tokens: int | None = None) -> LinearCells:
    """The cells of a study, those that others need among them.

    Args:
        name: One of `names()`.
        tokens: Budget of a cell, of the smallest one in `sizes`; None is the study's own.

    Returns:
        The cells in the order in which they are carried out.

    Raises:
        ValueError: There is no such study, or the budget does not fit it.
    """
    if name not in names():
        raise ValueError(unknown_name("study", name, names()))
    if name == ALL:
        if tokens is not None:
            raise ValueError("tokens: is not allowed with 'all' (each study has its own budget)")
        return with_needs(cell for make in PARTS.values() for cell in make())
    return with_needs(PARTS[name]() if tokens is None else PARTS[name](tokens))
