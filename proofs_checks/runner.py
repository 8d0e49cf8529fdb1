"""Runs claims, several at a time, and says how they came out."""

import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import joblib
import pandas as pd

from lt2theory.mixers import MIXERS, LinearMixer
from proofs_checks.claim import Claim, Record
from proofs_checks.ledger import ledger
from tasks.names import unknown_name

OF_MIXER = {
    ("C3", "decode memory of the linear mixers does not grow"): "patterns",
    ("R8", "the op and the analyser without erasure"): "mixers",
}
"""Claims about models of any linear mixer: id and title, and the keyword that names the mixers."""

OnRecord = Callable[[int, int, "Outcome"], None]


@dataclass(frozen=True)
class Outcome:
    """A record beside the verdict that the ledger expects.

    Attributes:
        record: What the check says.
        expected: What the ledger expects.
    """

    record: Record
    expected: str

    @property
    def as_expected(self) -> bool:
        """Whether both verdicts agree."""
        return self.record.verdict == self.expected


def select(only: Sequence[str]) -> tuple[Claim, ...]:
    """The claims with some ids.

    Args:
        only: Ids such as `R7`, or letters of groups such as `R`; empty for all.

    Returns:
        The claims, in the ledger's order.

    Raises:
        ValueError: An entry names no claim.
    """
    claims = ledger()
    if not only:
        return claims
    ids = {claim.id for claim in claims}
    groups = {name[0] for name in ids}
    for wanted in only:
        if wanted not in ids | groups:
            more = f"or a group: {', '.join(sorted(groups))}; docs/theory.md lists them"
            raise ValueError(unknown_name("only", wanted, sorted(ids), more=more))
    return tuple(c for c in claims if c.id in only or c.id[0] in only)


def run(
    claims: Iterable[Claim],
    *,
    fast: bool = False,
    workers: int = 1,
    on_record: OnRecord | None = None,
) -> list[Outcome]:
    """Check claims.

    Args:
        claims: Which; each is run in a process of its own where there are several workers.
        fast: Cover less.
        workers: Checks at a time.
        on_record: Told the number done, the number in all, and the outcome.

    Returns:
        One outcome a claim, in the order given. A check that crashes is `not_run`, with the error
        in the place of the counter-example.
    """
    every = list(claims)
    places = {_key(claim): place for place, claim in enumerate(every)}
    outcomes: list[Outcome | None] = [None] * len(every)
    jobs = (joblib.delayed(_run_one)(*_key(claim), fast) for claim in every)
    with joblib.parallel_config(**_backend(workers)):
        parallel = joblib.Parallel(n_jobs=workers, return_as="generator_unordered")
        for done, outcome in enumerate(parallel(jobs), start=1):
            outcomes[places[outcome.record.id, outcome.record.title]] = outcome
            if on_record is not None:
                on_record(done, len(every), outcome)
    return [outcome for outcome in outcomes if outcome is not None]


def outcome_table(outcomes: Iterable[Outcome]) -> pd.DataFrame:
    """Outcomes, to be read side by side.

    Args:
        outcomes: From `run` or `run_on_mixer`.

    Returns:
        One row a claim: `id`, `title`, `evidence`, `verdict`, `as expected`, `margin`,
        `counterexample`, `seconds`.
    """
    names = ("id", "title", "evidence", "verdict", "margin", "counterexample", "seconds")
    rows = [
        {name: getattr(one.record, name) for name in names} | {"as expected": one.as_expected}
        for one in outcomes
    ]
    order = [*names[:4], "as expected", *names[4:]]
    return pd.DataFrame(rows, columns=order).fillna({"counterexample": ""})


def run_on_mixer(mixer: str, *, fast: bool = False) -> list[Outcome]:
    """Ask the claims about models of any linear mixer about one of them, such as one of your own.

    Args:
        mixer: Name of a linear mixer (`lt2theory.mixers.register_mixer`).
        fast: Cover less.

    Returns:
        One outcome each of C3 (decode memory) and R8 (no rank without erasure, which a mixer that
        erases must refute).

    Raises:
        ValueError: There is no linear mixer of the name.
    """
    linear = [name for name, kind in MIXERS.items() if issubclass(kind, LinearMixer)]
    if mixer not in linear:
        raise ValueError(unknown_name("mixer", mixer, linear))
    outcomes = []
    for claim in ledger():
        keyword = OF_MIXER.get(_key(claim))
        if keyword is not None:
            record = claim.run(fast=fast, **{keyword: (mixer,)})
            scope = f"{mixer}, in the instances of: {claim.scope}"
            outcomes.append(Outcome(replace(record, scope=scope), claim.expected))
    return outcomes


def _backend(workers: int) -> dict[str, object]:
    if workers == 1:
        return {"backend": "sequential"}
    return {"backend": "loky", "inner_max_num_threads": 1}


def _key(claim: Claim) -> tuple[str, str]:
    return claim.id, claim.title


def _run_one(id: str, title: str, fast: bool) -> Outcome:
    # By name, since other processes cannot be sent the functions behind decorated claims.
    (claim,) = [c for c in ledger() if _key(c) == (id, title)]
    try:
        return Outcome(claim.run(fast=fast), claim.expected)
    except Exception as error:  # noqa: BLE001 - one check's fault must not hide the others
        last = traceback.extract_tb(error.__traceback__)[-1]
        said = f"crashed: {type(error).__name__}: {error} ({last.name}, line {last.lineno})"
        record = Record(
            claim.id,
            claim.title,
            claim.statement,
            claim.conditions,
            claim.scope,
            claim.source,
            claim.evidence,
            "not_run",
            None,
            said,
            0.0,
        )
        return Outcome(record, claim.expected)
