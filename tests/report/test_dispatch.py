"""Finding out what a folder holds."""

import pytest

from lt2theory.report.dispatch import report_path


def test_runs_and_studies_are_told_apart(write_run, write_study):
    run = report_path(write_run(), command="lt2 report RUN")
    assert "pointer_game, seed 0" in run.read_text(encoding="utf-8")
    study = report_path(write_study([("solved", "b", 1, {})]))
    assert "1 of 1 run ended" in study.read_text(encoding="utf-8")


def test_anything_else_is_refused(tmp_path):
    with pytest.raises(
        ValueError, match=r"is not a folder; expected the folder of .* found nothing"
    ):
        report_path(tmp_path / "missing")
    with pytest.raises(
        ValueError, match=r"has no report; expected the folder of .* an empty folder"
    ):
        report_path(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"is not a folder.* found a file"):
        report_path(tmp_path / "file")
    with pytest.raises(ValueError, match=r"has no report.* found a folder with file"):
        report_path(tmp_path)
    (tmp_path / "manifest.json").write_text('{"splits": {}, "tokenizer": {}}')
    with pytest.raises(ValueError, match=r"has no report.* found a prepared corpus"):
        report_path(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(ValueError, match=r"manifest\.json is not valid JSON"):
        report_path(tmp_path)
