"""`lt2 verify`: the ledger of claims, checked again on this machine."""

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from lt2theory.cli.errors import CHECK_FAILED, DONE, UsageError
from lt2theory.cli.output import JsonCopy, check_files
from lt2theory.cli.parsing import parse, refuse_empty
from lt2theory.fields import Frozen

if TYPE_CHECKING:
    from proofs_checks.runner import Outcome


class VerifyOptions(Frozen):
    """Which claims, how thoroughly, and what is written besides the table."""

    only: tuple[str, ...] = Field(
        (), description="Ids (R7) or groups (R) of docs/theory.md; all by default."
    )
    fast: bool = Field(False, description="Cover less: half a minute instead of minutes.")
    workers: int = Field(2, ge=1, description="Checks at a time.")
    html: Path | None = Field(None, description="File for the records as one HTML page.")
    page: Path | None = Field(
        None, description="File for the page of the docs, in Markdown; needs the whole ledger."
    )


def run(argv: list[str]) -> int:
    """Check claims and say how they came out.

    Args:
        argv: The arguments after the verb.

    Returns:
        0 if every verdict is the one that the ledger expects, else 1.

    Raises:
        UsageError: A file cannot be written, or the page is asked for with a part of the ledger.
    """
    description = (
        "Check the claims of docs/theory.md again, each with the evidence that it names. The exit "
        "code is 1 if a verdict is not the one that the ledger expects."
    )
    refuse_empty(argv, "--only")
    options, copy = parse("lt2 verify", argv, description, options=VerifyOptions, copy=JsonCopy)
    check_files({"--json": copy.json, "--html": options.html, "--page": options.page})
    if options.page is not None and (options.only or options.fast):
        raise UsageError("--page: needs a full run, without --only and --fast")
    from lt2theory.runs import ProgressEvent, TerminalProgress, write_json
    from proofs_checks.runner import run as run_claims
    from proofs_checks.runner import select

    progress = TerminalProgress()

    def show(done: int, total: int, outcome: "Outcome") -> None:
        notes = {"last": outcome.record.id}
        last = done == total
        progress(ProgressEvent("verify", done, total, unit="claim", notes=notes, final=last))

    claims = select(options.only)
    outcomes = run_claims(claims, fast=options.fast, workers=options.workers, on_record=show)
    records = [outcome.record.to_json() for outcome in outcomes]
    if copy.json is not None:
        write_json(copy.json, records)
    _render(options, records, [claim.code for claim in claims])
    return _print(outcomes)


def _render(options: VerifyOptions, records: list[dict[str, object]], code: list[str]) -> None:
    if options.html is None and options.page is None:
        return
    from lt2theory.report import ledger_page, ledger_report, write_report
    from lt2theory.runs import write_text
    from lt2theory.runs.environment import capture

    if options.html is not None:
        environment = capture(threads=1)
        facts = {name: str(environment[name]) for name in ("python", "platform", "cores")}
        write_report(ledger_report(records, facts=facts, command="lt2 verify"), options.html)
    if options.page is not None:
        write_text(options.page, ledger_page(records, code))


def _print(outcomes: "list[Outcome]") -> int:
    """Print a line a claim, then the unexpected ones once more with their reasons."""
    for outcome in outcomes:
        record = outcome.record
        mark = " " if outcome.as_expected else "!"
        print(
            f"{mark} {record.id:<4}{record.verdict:<22}{record.evidence:<12}"
            f"{record.seconds:6.2f} s  {record.title}"
        )
    wrong = [outcome for outcome in outcomes if not outcome.as_expected]
    for outcome in wrong:
        record = outcome.record
        print(
            f"unexpected: {record.id} {record.title}: {record.verdict}, the ledger expects "
            f"{outcome.expected}; {record.counterexample or 'no counter-example'}"
        )
    print(f"{len(outcomes) - len(wrong)} of {len(outcomes)} claims as expected")
    return CHECK_FAILED if wrong else DONE
