"""The section with all options of a run."""

import pytest

from lt2theory.report.setting import in_words, setting_section
from lt2theory.runs import RunFolder


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "not set"),
        (float("nan"), "not set"),
        ([], "none"),
        ([0.9, 0.95], "0.9, 0.95"),
        ("abc", "abc"),
        (True, "True"),
        ({"steps": 2, "objective": {"kind": "mse"}}, "steps 2, objective (kind mse)"),
        ({"tokens": None, "betas": [1, 2], "on": []}, "tokens not set, betas (1, 2), on none"),
    ],
)  # fmt: skip
def test_settings_are_told_without_the_marks_of_a_language(value, said):
    assert in_words(value) == said


def test_a_list_of_settings_has_a_row_each(write_run):
    config = {"recipe": {"stages": [{"name": "a"}, {"name": "b"}], "seed": 0}, "chat": None}
    run = RunFolder.open(write_run("solved"))
    run.config = config
    section = setting_section(run, {"parameters": "1,234", "rate": None})
    assert section.tables[0].frame.to_numpy().tolist() == [
        ["parameters", "1,234"],
        ["recipe.stages 1", "name a"],
        ["recipe.stages 2", "name b"],
        ["recipe.seed", "0"],
        ["chat", "not set"],
    ]
