"""The report of whatever a folder holds."""

from pathlib import Path

from lt2theory.linearize.evaluation.evaluate import TABLE as EVALUATION
from lt2theory.linearize.results import KIND as LINEARIZATION
from lt2theory.linearize.selectors_compared import KIND as SELECTION
from lt2theory.report.linearization_report import report_linearization
from lt2theory.report.run_report import report_run
from lt2theory.report.study_report import report_study
from lt2theory.report.text_report import report_text_run
from lt2theory.runs import RunFolder, Study, run_status
from lt2theory.runs.found import found, is_corpus
from lt2theory.runs.layout import MANIFEST
from lt2theory.training.curriculum import KIND as CURRICULUM
from lt2theory.training.lm.session import KIND as TEXT
from lt2theory.training.lm.session import STAGE_KIND

_REPORTS = {
    TEXT: report_text_run,
    STAGE_KIND: report_text_run,
    LINEARIZATION: report_linearization,
    SELECTION: report_linearization,
    CURRICULUM: report_run,
}
"""What writes the report of a run, by its kind."""

_EXPECTED = "the folder of a run, a study, a linearization, a selection of layers or an evaluation"


def report_path(path: Path, *, output: Path | None = None, command: str = "") -> Path:
    """Write the report of the folder of a run, a study, a linearization or an evaluation.

    Args:
        path: The folder.
        output: The HTML file; `report.html` in the folder if None.
        command: What a reader types to get the numbers again, or "".

    Returns:
        The HTML file.

    Raises:
        ValueError: The folder is none of these, or its report cannot be written.
    """
    if not path.is_dir():
        raise ValueError(f"{path} is not a folder; expected {_EXPECTED}, found {found(path)}")
    if (path / MANIFEST).is_file() and not is_corpus(path):
        if (kind := Study(path).kind) != CURRICULUM:
            raise ValueError(
                f"{path} is a study of kind {kind}, which has no report of its own (allowed are "
                "studies of curricula, and the folders of its runs)"
            )
        return report_study(path, output=output, command=command)
    if (path / EVALUATION).is_file():
        return report_linearization(path, output=output, command=command)
    if run_status(path) == "absent":
        raise ValueError(f"{path} has no report; expected {_EXPECTED}, found {found(path)}")
    kind = RunFolder.open(path).kind
    if kind not in _REPORTS:
        raise ValueError(f"{path} holds a run of kind {kind}, which has no report")
    return _REPORTS[kind](path, output=output, command=command)
