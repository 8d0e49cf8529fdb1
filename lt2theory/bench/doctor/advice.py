"""What follows from a diagnosis: what to install, and what to avoid."""

from collections.abc import Sequence
from itertools import groupby

from lt2theory.bench.doctor.diagnosis import Diagnosis
from lt2theory.bench.doctor.environment import faults_here
from lt2theory.bench.doctor.measure import Outcome

_ISSUES = {
    "fla": "https://github.com/fla-org/flash-linear-attention/issues",
    "triton": "https://github.com/triton-lang/triton/issues",
}
_AXES = {"dtype": "dtype", "width": "width", "length": "tokens", "start": "start"}


def advise(diagnosis: Diagnosis) -> tuple[str, ...]:
    """Say what to do about what was found.

    Args:
        diagnosis: What was found.

    Returns:
        One text a piece: what is missing, what was measured to be broken, and the public faults of
        what is installed.
    """
    advice = [*_installations(diagnosis), *_measured(diagnosis.outcomes)]
    broken = dict.fromkeys(each.kernel for each in diagnosis.kernels if each.failed)
    if broken:
        advice.append(
            f"our own kernels that failed: {', '.join(broken)}; train with backend 'chunked' and "
            "decode without `Decoder` until that is clear, and report the table above"
        )
    for fault in faults_here(diagnosis.environment):
        kernels = ", ".join(fault.kernels)
        named = " and the name 'fla' takes after a gradient self-test" if fault.self_test else ""
        advice.append(
            f"known fault in these versions of {kernels}, which `auto` avoids{named}: "
            f"{fault.what}. Remedy: {fault.remedy}. {fault.source}"
        )
    unserved = [each for each in diagnosis.served if not each.backend]
    advice += [f"{each.mixer} has no backend here: {each.reason}" for each in unserved]
    return tuple(advice) or ("nothing: every case that ran is right",)


def _installations(diagnosis: Diagnosis) -> list[str]:
    """What is missing."""
    if diagnosis.environment["device_type"] != "cuda":
        return [
            "FLA's Triton kernels need a GPU and were not measured: here `chunked` serves every "
            "mixer. Run `lt2 doctor` again on the machine that trains"
        ]
    packages = diagnosis.environment["packages"]
    needed = ("triton", "fla-core", "einops")
    missing = [name for name in needed if not packages.get(name)]
    if not missing:
        return []
    return [
        f"install {' '.join(missing)} (pip install {' '.join(missing)}): FLA's kernels need it, "
        "and without them every linear mixer runs in plain torch"
    ]


def _measured(outcomes: Sequence[Outcome]) -> list[str]:
    """What was broken, a text for each mixer, backend and verdict."""

    def group(outcome: Outcome) -> tuple[str, str, str]:
        return outcome.case.mixer, outcome.case.backend, outcome.verdict

    failed = sorted((outcome for outcome in outcomes if outcome.failed), key=group)
    advice = []
    for (mixer, backend, verdict), found in groupby(failed, key=group):
        bad = list(found)
        ran = [
            outcome
            for outcome in outcomes
            if (outcome.case.mixer, outcome.case.backend) == (mixer, backend)
            and outcome.verdict != "refused"
        ]
        worst = max(bad, key=_badness)
        text = (
            f"avoid backend {backend!r} for {mixer}: {verdict} in {len(bad)} of {len(ran)} "
            f"cases{_where(bad, ran)}; {worst.reason}"
        )
        if backend in _ISSUES:
            text += f". If it is not known there, report it: {_ISSUES[backend]}"
        advice.append(text)
    return advice


def _where(bad: Sequence[Outcome], ran: Sequence[Outcome]) -> str:
    """The values of every axis on which only some of what ran is broken."""
    said = []
    for axis, name in _AXES.items():
        values = list(dict.fromkeys(str(getattr(outcome.case, axis)) for outcome in bad))
        if len(values) < len({str(getattr(outcome.case, axis)) for outcome in ran}):
            said.append(f"{name} {', '.join(values)}")
    return f" ({'; '.join(said)} only)" if said else ""


def _badness(outcome: Outcome) -> float:
    """How wrong an outcome is; what has no number is worst."""
    errors = (outcome.value_error, outcome.gradient_error)
    return max(float("inf") if error is None else error for error in errors)
