"""`lt2 doctor`: what this machine's backends compute, measured against the float64 reference."""

import importlib
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from lt2theory.bench.doctor.cases import Case, Sizes, plan, sizes_for
from lt2theory.bench.doctor.choices import Served
from lt2theory.bench.doctor.diagnosis import Diagnosis
from lt2theory.bench.doctor.environment import describe_environment
from lt2theory.bench.doctor.kernels.measure import KernelOutcome, refusal
from lt2theory.bench.doctor.kernels.table import KERNELS
from lt2theory.bench.doctor.measure import FAILURES, Outcome, Verdict
from lt2theory.bench.doctor.pool import Died, run_jobs
from lt2theory.bench.doctor.state import FinishedCases
from lt2theory.mixers import MIXERS


@dataclass(frozen=True)
class Settings:
    """How a diagnosis is made.

    Attributes:
        device: `cpu`, `cuda` or `cuda:N`.
        full: All widths, dtypes and lengths, and kernels as the autotuner picks them. Otherwise
            the usual ones, and the first configuration of a kernel that runs.
        mixers: Names in `MIXERS`; all if empty.
        backends: Names of backends; all if empty.
        limit: Seconds that a case may take, compiling included.
        workers: Processes at a time.
        state: File to resume from and to note finished cases in.
        imports: Modules that every process imports first, such as one with a backend of yours.
    """

    device: str = "cpu"
    full: bool = False
    mixers: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    limit: float = 120.0
    workers: int = 1
    state: Path | None = None
    imports: tuple[str, ...] = ()


def default_device() -> str:
    """`cuda` where there is one, else `cpu`."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def check_device(device: str) -> None:
    """Refuse a device that is not there.

    Args:
        device: Its name.

    Raises:
        ValueError: If it is none of `cpu`, `cuda` and `cuda:N`, or absent.
    """
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    allowed = ["cpu", *(["cuda"] if count else []), *(f"cuda:{i}" for i in range(count))]
    if device not in allowed:
        raise ValueError(f"device: {device!r} is not there (choose from {', '.join(allowed)})")


class Doctor:
    """A diagnosis in its parts, so that each can be shown when it is there.

    Args:
        settings: How it is made.
        sizes: What to measure; by default what `sizes_for` says.

    Attributes:
        environment: The machine.
        cases: What will be measured, in order.

    Raises:
        ValueError: If a name in the settings does not exist, there is nothing to measure, or the
            state file is another file.
    """

    def __init__(self, settings: Settings, sizes: Sizes | None = None) -> None:
        check_device(settings.device)
        for name in settings.imports:
            importlib.import_module(name)
        self._settings = settings
        if sizes is None:
            sizes = sizes_for(torch.device(settings.device).type, full=settings.full)
        self.cases: tuple[Case, ...] = plan(
            sizes, mixers=settings.mixers, backends=settings.backends
        )
        self.environment = describe_environment(settings.device)
        conditions = {"environment": self.environment, "full": settings.full}
        self._finished = FinishedCases(settings.state, conditions, settings.limit)
        # Verdicts of self-tests on pinned kernels must not be taken for those on tuned ones.
        self._cache = tempfile.mkdtemp(prefix="lt2-doctor-")
        weakref.finalize(self, shutil.rmtree, self._cache, ignore_errors=True)

    def served(self) -> tuple[Served, ...]:
        """What `auto` takes for each mixer.

        Returns:
            One answer a mixer, in the order in which they are named, or of `MIXERS`.
        """
        names = tuple(dict.fromkeys(self._settings.mixers or MIXERS))
        found: dict[str, Served] = {}
        for job, answer in self._run([{"choose": name} for name in names]):
            name = job["choose"]
            lost = isinstance(answer, Died)
            found[name] = Served(name, "", "", answer.reason) if lost else Served.from_json(answer)
        return tuple(found[name] for name in names)

    def outcomes(self) -> Iterator[Outcome]:
        """Measure, except what the state file holds already.

        Yields:
            The outcome of every case: first the known ones, then the others as they end.
        """
        known = [self._finished.get(case) for case in self.cases]
        yield from (outcome for outcome in known if outcome is not None)
        missing = [case for case in self.cases if self._finished.get(case) is None]
        for job, answer in self._run([{"case": case.to_json()} for case in missing]):
            outcome = _outcome(Case(**job["case"]), answer)
            self._finished.add(outcome)
            yield outcome

    @property
    def kernel_checks(self) -> tuple[tuple[str, str], ...]:
        """Our own kernels by name and dtype; none where mixers or backends were named."""
        if self._settings.mixers or self._settings.backends:
            return ()
        return tuple((check.name, dtype) for check in KERNELS for dtype in check.tolerances)

    def kernels(self) -> Iterator[KernelOutcome]:
        """Check our own kernels, each in every dtype; the state file does not hold them.

        Yields:
            The outcomes as they end, or of every check that nothing can run here.
        """
        reason = refusal(self._settings.device)
        if reason is not None:
            for name, dtype in self.kernel_checks:
                yield KernelOutcome(name, dtype, "refused", reason)
            return
        jobs = [{"kernel": name, "dtype": dtype} for name, dtype in self.kernel_checks]
        for job, answer in self._run(jobs):
            if isinstance(answer, Died):
                verdict: Verdict = "hung" if answer.hung else "crashed"
                yield KernelOutcome(job["kernel"], job["dtype"], verdict, answer.reason)
            else:
                yield KernelOutcome.from_json(answer)

    def diagnosis(
        self, served: Sequence[Served], kernels: Sequence[KernelOutcome] = ()
    ) -> Diagnosis:
        """Everything together, when all cases have ended.

        Args:
            served: What `served` returned.
            kernels: What `kernels` yielded.

        Returns:
            The diagnosis, with the outcomes in the order of the cases.
        """
        known = [self._finished.get(case) for case in self.cases]
        outcomes = tuple(outcome for outcome in known if outcome is not None)
        full = self._settings.full
        return Diagnosis(self.environment, full, tuple(served), outcomes, tuple(kernels))

    def _run(self, jobs: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], Any]]:
        """Have jobs done by worker processes."""
        settings = self._settings
        told = {"device": settings.device, "imports": settings.imports, "pinned": not settings.full}
        # One thread: the cases are small, and several processes share the cores.
        environment = {"OMP_NUM_THREADS": "1"}
        if not settings.full:
            environment |= {"LT2_CACHE_DIR": self._cache, "FLA_CACHE_RESULTS": "0"}
        yield from run_jobs(
            jobs,
            told,
            workers=settings.workers,
            limit=settings.limit,
            environment=environment,
            suspect=lambda answer: answer.get("verdict") in FAILURES,
        )


def _outcome(case: Case, answer: dict[str, Any] | Died) -> Outcome:
    """The outcome of a case, also where its process did not live to tell."""
    if isinstance(answer, Died):
        return Outcome(case, "hung" if answer.hung else "crashed", answer.reason)
    return Outcome.from_json(answer)
