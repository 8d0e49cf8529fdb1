"""Finding out what a folder holds."""

import pytest

from lt2theory.report.dispatch import report_path


def test_runs_and_studies_are_told_apart(write_run, write_study):
    run = report_path(write_run(), command="lt2 report RUN")
    assert "pointer_game, seed 0" in run.read_text(encoding="utf-8")
    study = report_path(write_study([("solved", "b", 1, {})]))
    assert "1 of 1 run ended" in study.read_text(encoding="utf-8")


def test_anything_else_is_refused(tmp_path):
    with pytest.raises(ValueError, match="is not a folder, allowed are folders of a run or a"):
        report_path(tmp_path / "missing")
    with pytest.raises(ValueError, match=r"is neither a run \(config.json\) nor a study"):
        report_path(tmp_path)
