"""The checks of our kernels as plain lines of at most 100 columns."""

import textwrap
from collections.abc import Sequence

from lt2theory.bench.doctor.kernels.measure import DRAWS, KernelOutcome
from lt2theory.bench.doctor.text import COLUMNS, verdict_counts

_ROW = "{:<21} {:<9} {:>7} {:>7} {:<13} {:>7} {:<10} {}"


def kernel_head(total: int) -> list[str]:
    """The title and the names of the columns.

    Args:
        total: How many checks there are, dtypes counted.

    Returns:
        The lines.
    """
    title = (
        f"our own Triton kernels against float64: {total} checks of {DRAWS} random problems each, "
        "results poisoned before, and every problem once more for the same bits"
    )
    names = ("kernel", "dtype", "values", "grads", "worst", "allowed", "same bits", "verdict")
    return [*textwrap.wrap(title, COLUMNS), _ROW.format(*names)]


def kernel_rows(outcome: KernelOutcome) -> list[str]:
    """The lines of one check.

    Args:
        outcome: What it came to.

    Returns:
        Its row, with the reason below where it failed.
    """
    row = _ROW.format(
        outcome.kernel,
        outcome.dtype,
        _number(outcome, outcome.value_error),
        _number(outcome, outcome.gradient_error),
        outcome.worst_gradient,
        "-" if outcome.tolerance is None else f"{outcome.tolerance:.0e}",
        {True: "yes", False: "no", None: "-"}[outcome.same_bits],
        outcome.verdict,
    )
    lines = [row.rstrip()]
    if outcome.failed:
        said = f"{outcome.verdict}: {outcome.reason}"
        lines += textwrap.wrap(said, COLUMNS, initial_indent="    ", subsequent_indent="      ")
    return lines


def refused_lines(outcomes: Sequence[KernelOutcome]) -> list[str]:
    """The kernels that could not run, and why, once for all.

    Args:
        outcomes: What the checks came to.

    Returns:
        The lines; none where every kernel ran.
    """
    refused = [outcome for outcome in outcomes if outcome.verdict == "refused"]
    if not refused:
        return []
    names = ", ".join(dict.fromkeys(outcome.kernel for outcome in refused))
    return textwrap.wrap(
        f"our own Triton kernels, not checked: {refused[0].reason}: {names}",
        COLUMNS,
        subsequent_indent="    ",
    )


def kernel_summary(outcomes: Sequence[KernelOutcome]) -> str:
    """How many checks came to what.

    Args:
        outcomes: All outcomes.

    Returns:
        One line.
    """
    said = verdict_counts(outcome.verdict for outcome in outcomes)
    return f"{len(outcomes)} checks of kernels: {said}"


def _number(outcome: KernelOutcome, error: float | None) -> str:
    """An error in seven columns; what is not finite has no number."""
    if outcome.tolerance is None:
        return "-"
    return "inf" if error is None else f"{error:.1e}"
