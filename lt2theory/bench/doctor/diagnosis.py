"""What `lt2 doctor` found, and its form on disk."""

from dataclasses import dataclass
from typing import Any

from lt2theory.bench.doctor.choices import Served
from lt2theory.bench.doctor.kernels.measure import KernelOutcome
from lt2theory.bench.doctor.measure import Outcome


@dataclass(frozen=True)
class Diagnosis:
    """What was found.

    Attributes:
        environment: See `describe_environment`.
        full: Whether all sizes were measured.
        served: What `auto` takes, by mixer.
        outcomes: What every case came to.
        kernels: What every check of our own kernels came to.
    """

    environment: dict[str, Any]
    full: bool
    served: tuple[Served, ...]
    outcomes: tuple[Outcome, ...]
    kernels: tuple[KernelOutcome, ...] = ()

    @property
    def healthy(self) -> bool:
        """Whether nothing was wrong, crashed or hung, and every mixer is served."""
        served = all(each.backend for each in self.served)
        results: tuple[Outcome | KernelOutcome, ...] = (*self.outcomes, *self.kernels)
        return served and not any(outcome.failed for outcome in results)

    def to_json(self) -> dict[str, Any]:
        """The diagnosis as JSON values."""
        return {
            "environment": self.environment,
            "full": self.full,
            "served": [each.to_json() for each in self.served],
            "outcomes": [outcome.to_json() for outcome in self.outcomes],
            "kernels": [outcome.to_json() for outcome in self.kernels],
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Diagnosis":
        """What `to_json` gave.

        Args:
            values: Its fields; others are ignored.

        Returns:
            The diagnosis.
        """
        return cls(
            values["environment"],
            values["full"],
            tuple(Served.from_json(each) for each in values["served"]),
            tuple(Outcome.from_json(each) for each in values["outcomes"]),
            tuple(KernelOutcome.from_json(each) for each in values["kernels"]),
        )
