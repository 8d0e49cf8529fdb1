"""The report of whatever a folder holds."""

from pathlib import Path

from lt2theory.report.run_report import report_run
from lt2theory.report.study_report import report_study
from lt2theory.report.text_report import report_text_run
from lt2theory.runs import RunFolder, run_status
from lt2theory.runs.study import MANIFEST
from lt2theory.training.lm.session import KIND as TEXT


def report_path(path: Path, *, output: Path | None = None, command: str = "") -> Path:
    """Write the report of a run's or a study's folder.

    Args:
        path: The folder.
        output: The HTML file; `report.html` in the folder if None.
        command: What a reader types to get the numbers again, or "".

    Returns:
        The HTML file.

    Raises:
        ValueError: The folder is neither, or its report cannot be written.
    """
    if not path.is_dir():
        raise ValueError(f"{path} is not a folder, allowed are folders of a run or a study")
    if (path / MANIFEST).is_file():
        return report_study(path, output=output, command=command)
    if run_status(path) == "absent":
        raise ValueError(f"{path} is neither a run (config.json) nor a study ({MANIFEST})")
    report = report_text_run if RunFolder.open(path).kind == TEXT else report_run
    return report(path, output=output, command=command)
