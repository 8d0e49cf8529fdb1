"""The doctor's findings as plain lines of at most 100 columns."""

import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, get_args

from lt2theory.bench.doctor.choices import LENGTH, WIDTH, Served
from lt2theory.bench.doctor.measure import Outcome, Verdict

COLUMNS = 100
_ROW = "{:<18} {:<9} {:<8} {:>5} {:>6} {:<9} {:>7} {:>7} {:<13} {}"


def environment_lines(environment: dict[str, Any]) -> list[str]:
    """The machine and its versions.

    Args:
        environment: What `describe_environment` returned.

    Returns:
        The lines.
    """
    packages = environment["packages"]
    device, source = environment["device"], environment["source"] or "of no known revision"
    if environment["capability"]:
        device += f", capability {environment['capability']} ({environment['architecture']})"
    cuda = environment["cuda"] or "none (torch is built without it)"
    facts = {
        "python": environment["python"],
        "platform": environment["platform"],
        "device": device,
        "cuda": f"{cuda}, driver {environment['driver']}" if environment["driver"] else cuda,
        **{name: packages[name] or "not installed" for name in ("torch", "triton", "fla-core")},
        "lt2theory": f"{packages['lt2theory'] or 'not installed'}, source {source}",
    }
    return ["this machine", *(f"  {name:<10} {fact}" for name, fact in facts.items())]


def served_lines(served: Sequence[Served]) -> list[str]:
    """What `auto` takes for every mixer, and what it passed over.

    Args:
        served: The answers.

    Returns:
        The lines.
    """
    title = (
        "which backend serves which mixer: what `auto` takes in a model that trains (under "
        f"bfloat16 autocast on a GPU, heads of width {WIDTH}, {LENGTH} tokens)"
    )
    lines = textwrap.wrap(title, COLUMNS)
    said: set[tuple[str, str]] = set()
    for each in served:
        lines += _entry(each.mixer, each.backend or "nothing", each.reason)
        for name, objection in each.passed_over:
            again = (name, objection) in said
            lines += _entry("", f"not {name}", "as above" if again else objection)
            said.add((name, objection))
    return lines


def _entry(mixer: str, backend: str, why: str) -> list[str]:
    """One wrapped line of the choices."""
    start = f"  {mixer:<18} {backend:<13} "
    return textwrap.wrap(why, COLUMNS, initial_indent=start, subsequent_indent=" " * len(start))


class OutcomeTable:
    """The table of cases, a row when it is known; a refusal shows once a mixer and backend."""

    def __init__(self) -> None:
        self._shown: set[tuple[str, ...]] = set()

    def head(self, total: int, *, full: bool) -> list[str]:
        """The title and the names of the columns.

        Args:
            total: How many cases there are.
            full: Whether kernels run as they are tuned.

        Returns:
            The lines.
        """
        kernels = "kernels as tuned" if full else "first kernel configuration that runs"
        title = f"relative errors against the float64 reference: {total} cases, {kernels}"
        names = ("mixer", "backend", "dtype", "width", "tokens", "start", "values", "grads")
        return [title, _ROW.format(*names, "worst", "verdict")]

    def rows(self, outcome: Outcome) -> list[str]:
        """The lines of one case.

        Args:
            outcome: What it came to.

        Returns:
            Its row, with the reason below where it failed or a backend refused; nothing for a
            refusal that was shown.
        """
        case = outcome.case
        refused = outcome.verdict == "refused"
        if refused and not self._first(case.mixer, case.backend, outcome.reason):
            return []
        measured = outcome.tolerance is not None
        row = _ROW.format(
            case.mixer,
            case.backend,
            case.dtype,
            case.width,
            case.length,
            case.start,
            _number(outcome.value_error) if measured else "-",
            _number(outcome.gradient_error) if measured else "-",
            outcome.worst_gradient,
            outcome.verdict,
        )
        lines = [row.rstrip()]
        if outcome.failed or (refused and self._first(case.backend, outcome.reason)):
            said = f"{outcome.verdict}: {outcome.reason}"
            lines += textwrap.wrap(said, COLUMNS, initial_indent="    ", subsequent_indent="      ")
        return lines

    def _first(self, *key: str) -> bool:
        """Whether something comes for the first time."""
        new = key not in self._shown
        self._shown.add(key)
        return new


def summary_line(outcomes: Sequence[Outcome]) -> str:
    """How many cases came to what.

    Args:
        outcomes: All outcomes.

    Returns:
        One line.
    """
    said = verdict_counts(outcome.verdict for outcome in outcomes)
    return f"{len(outcomes)} cases: {said or 'nothing to measure'}"


def verdict_counts(verdicts: Iterable[Verdict]) -> str:
    """Count verdicts.

    Args:
        verdicts: One a case.

    Returns:
        Those that there are with their numbers, in the order of `Verdict`.
    """
    counts = Counter(verdicts)
    return ", ".join(f"{counts[each]} {each}" for each in get_args(Verdict) if counts[each])


def advice_lines(advice: Sequence[str]) -> list[str]:
    """What to install or avoid, wrapped.

    Args:
        advice: One text a piece.

    Returns:
        The lines.
    """
    lines = ["what to install or avoid"]
    for text in advice:
        lines += textwrap.wrap(
            text,
            COLUMNS,
            initial_indent="  - ",
            subsequent_indent="    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return lines


def _number(error: float | None) -> str:
    """An error in seven columns; what is not finite has no number."""
    return "inf" if error is None else f"{error:.1e}"
