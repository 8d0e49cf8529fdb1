"""What a claim of the ledger is, what its check finds, and the record that comes out.

Evidence kinds, weakest to strongest, never mixed up: `statistical` (random or trained things, with
a test and its level), `float64`, `ball` (rigorous interval arithmetic), `exact` (rational numbers
or a quadratic field), `symbolic` (all parameters at once, or a closed parametric identity). A check
at small T and d is `exact` with its scope written out, never `symbolic`.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from lt2theory.cards import card

Variants = Mapping[str, Mapping[str, Any]]
"""Wrong variants of a claim by name, as keyword arguments of its check."""
Evidence = Literal["statistical", "float64", "ball", "exact", "symbolic"]
Verdict = Literal["holds", "holds_with_conditions", "refuted_as_stated", "not_run"]
Check = Callable[..., "Finding"]


@dataclass(frozen=True)
class Finding:
    """What a check found.

    Attributes:
        passed: The claim's statement was verified; of a refuted claim, its counter-example was.
        margin: How far the tightest case was from failing, in the check's own units, or None where
            that has no meaning (exact identities).
        counterexample: The smallest one, written out so that a reader can check it by hand.
        scope: What was covered, where it depends on the run (`--fast`); None keeps the claim's.
    """

    passed: bool
    margin: float | None = None
    counterexample: str | None = None
    scope: str | None = None


@dataclass(frozen=True)
class Record:
    """One line of the ledger, as `lt2 verify --json` writes it.

    Attributes:
        id: Id of the claim in docs/theory.md.
        title: A few words.
        statement: What is claimed; for a refuted claim, as its source puts it.
        conditions: Under what conditions it holds; for a refuted claim, the corrected statement.
        scope: The instances covered: `all`, or written out.
        source: Paper, equation, or derivation.
        evidence: Kind of the evidence.
        verdict: What the check says.
        margin: See `Finding`.
        counterexample: See `Finding`.
        seconds: Time the check took.
    """

    id: str
    title: str
    statement: str
    conditions: str
    scope: str
    source: str
    evidence: Evidence
    verdict: Verdict
    margin: float | None
    counterexample: str | None
    seconds: float

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        facts = {name: value for name, value in asdict(self).items() if value is not None}
        return card(f"{facts.pop('id')} {facts.pop('title')}", facts)

    def to_json(self) -> dict[str, Any]:
        """The record as plain JSON values.

        Returns:
            One entry a field.
        """
        return asdict(self)


@dataclass(frozen=True)
class Claim:
    """A statement with the function that checks it.

    Attributes:
        id: Id in docs/theory.md; several claims may share one, each with its own evidence.
        title: A few words, unique among the claims of one id.
        statement: As in `Record`.
        conditions: As in `Record`.
        scope: As in `Record`.
        source: As in `Record`.
        evidence: Kind of the evidence.
        expected: The verdict that the ledger expects.
        check: The function; it takes `fast` and the keywords that the variants change.
        hypotheses: What the claim needs to be true, each with the variants that drop it; of a
            refuted claim, what makes it true, each with variants that add it, under which the
            counter-example is gone. Every variant must be rejected.
        mutants: Further wrong variants: the statement or a formula altered. Each must be rejected.
    """

    id: str
    title: str
    statement: str
    conditions: str
    scope: str
    source: str
    evidence: Evidence
    expected: Verdict
    check: Check
    hypotheses: Mapping[str, Variants] = field(default_factory=dict)
    mutants: Variants = field(default_factory=dict)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        names = ("statement", "conditions", "scope", "evidence", "expected", "source", "code")
        facts = {name: getattr(self, name) for name in names}
        return card(f"{self.id} {self.title}", facts | {"wrong variants": ", ".join(self.variants)})

    @property
    def variants(self) -> Variants:
        """All wrong variants: those of the hypotheses, then the altered statements."""
        dropped = {name: kw for some in self.hypotheses.values() for name, kw in some.items()}
        return {**dropped, **self.mutants}

    @property
    def code(self) -> str:
        """File and function of the check."""
        return f"{self.check.__module__.replace('.', '/')}.py:{self.check.__name__}"

    def run(self, *, fast: bool = False, **changes: Any) -> Record:
        """Check the claim.

        Args:
            fast: Cover less, so that the whole ledger takes half a minute.
            changes: Keywords of the check, to ask it about other things than the claim is about.

        Returns:
            The record. A check that fails gives `refuted_as_stated`, or `not_run` where the claim
            was expected to be refuted and its counter-example was not verified.
        """
        start = time.perf_counter()
        found = self.check(fast=fast, **changes)
        failed: Verdict = "not_run" if self.expected == "refuted_as_stated" else "refuted_as_stated"
        return Record(
            id=self.id,
            title=self.title,
            statement=self.statement,
            conditions=self.conditions,
            scope=found.scope or self.scope,
            source=self.source,
            evidence=self.evidence,
            verdict=self.expected if found.passed else failed,
            margin=found.margin,
            counterexample=found.counterexample,
            seconds=time.perf_counter() - start,
        )

    def run_mutant(self, name: str) -> Finding:
        """Run one deliberately wrong variant, fast.

        Args:
            name: Key of `variants`.

        Returns:
            Its finding, which must not have passed.
        """
        return self.check(fast=True, **self.variants[name])


def claim(
    id: str,
    title: str,
    *,
    statement: str,
    scope: str,
    source: str,
    evidence: Evidence,
    expected: Verdict = "holds",
    hypotheses: Mapping[str, Variants] | None = None,
    mutants: Variants | None = None,
    where: str = "",
    correction: str = "",
) -> Callable[[Check], Claim]:
    """Turn a check function into a claim.

    Args:
        id: Id in docs/theory.md.
        title: A few words.
        statement: What is claimed.
        scope: The instances covered.
        source: Paper, equation, or derivation.
        evidence: Kind of the evidence.
        expected: The verdict that the ledger expects.
        hypotheses: As in `Claim`; their texts are the conditions that the record states.
        mutants: As in `Claim`.
        where: Definitions and remarks that the conditions need to be read; nothing in it may be an
            assumption that could be dropped.
        correction: The corrected statement of a refuted claim, and only of one.

    Returns:
        The decorator.

    Raises:
        ValueError: There is no wrong variant at all, a hypothesis has none, two have one name, or
            a refuted claim has no correction.
    """
    hypotheses, mutants = hypotheses or {}, mutants or {}
    name = f"{id} ({title})"
    for hypothesis, dropped in hypotheses.items():
        if not dropped:
            raise ValueError(f"hypotheses of {name}: no variant drops {hypothesis!r}")
    names = [*mutants, *(variant for dropped in hypotheses.values() for variant in dropped)]
    if not names:
        raise ValueError(f"mutants of {name}: none given, at least one must be rejected")
    if len(set(names)) < len(names):
        raise ValueError(f"variants of {name}: two of one name among {', '.join(names)}")
    if (expected == "refuted_as_stated") != bool(correction):
        raise ValueError(f"correction of {name}: a refuted claim needs one, no other may have one")
    conditions = correction or "; ".join(hypotheses) or "none"
    conditions += f" ({where})" if where else ""

    def wrap(check: Check) -> Claim:
        return Claim(
            id, title, statement, conditions, scope, source, evidence, expected, check,
            hypotheses, mutants,
        )  # fmt: skip

    return wrap
