"""`lt2 analyze RUN`: what the analysers measure on a trained run, as tables and a report."""

from pathlib import Path

import tyro
from pydantic import Field

from lt2theory.cli.errors import DONE
from lt2theory.cli.output import JsonCopy, check_file, check_folder
from lt2theory.cli.parsing import parse
from lt2theory.fields import Frozen


class AnalyzeOptions(Frozen):
    """What is measured, and on what."""

    run: tyro.conf.Positional[Path] = Field(
        description="Folder of a curriculum run, or of a run of lt2 train."
    )
    stage: int | None = Field(
        None, description="Difficulty of the instances; the last stage of training by default."
    )
    instances: int = Field(
        16, ge=1, description="Held-out instances of the test split, or windows of text."
    )
    seed: int = Field(0, ge=0, lt=2**63, description="Which instances, and which random probes.")
    data: Path | None = Field(
        None, description="Corpus of a language model; where it was in training by default."
    )


def run(argv: list[str]) -> int:
    """Measure a run; print the findings and, last, the path of the report alone.

    Args:
        argv: The arguments after the verb.

    Returns:
        The exit code.
    """
    description = (
        "Measure a trained run in float64 on held-out instances: transitions, states, influence, "
        "residual stream and gradients. Tables and a report go into RUN/analysis."
    )
    options, copy = parse("lt2 analyze", argv, description, options=AnalyzeOptions, copy=JsonCopy)
    check_file(copy.json, "--json")
    from lt2theory.experiments.analyze import FOLDER, analyze_run
    from lt2theory.runs import RunFolder, write_json

    RunFolder.open(options.run)
    check_folder(options.run / FOLDER, "RUN")
    analysis = analyze_run(
        options.run,
        stage=options.stage,
        instances=options.instances,
        seed=options.seed,
        data=options.data,
        command=" ".join(["lt2 analyze", *argv]),
    )
    if copy.json is not None:
        write_json(copy.json, analysis.facts | {"report": str(analysis.report)})
    for title, found in analysis.facts["findings"].items():
        print(f"{title}:", *found, sep="\n  ")
    print(analysis.report)
    return DONE
