"""What the notebooks call."""

import sys
from types import SimpleNamespace

import pytest
from matplotlib.figure import Figure

from lt2theory.experiments import explorations
from lt2theory.experiments.explorations import (
    VARIABLE,
    committed_study,
    explore,
    influence_quantiles,
    is_fast,
    rank_expansion,
    run_folder,
    stage_table,
    window_influence,
)
from lt2theory.experiments.recipes import recipes
from lt2theory.linearize import SelectionConfig, recipe_a
from lt2theory.training import resolve


def test_the_setting_comes_from_the_environment(monkeypatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert not is_fast()
    monkeypatch.setenv(VARIABLE, "fast")
    assert is_fast()
    monkeypatch.setenv(VARIABLE, "quick")
    with pytest.raises(ValueError, match="LT2_NOTEBOOKS: 'quick' is not allowed"):
        is_fast()


def test_without_a_kernel_a_figure_with_defaults(monkeypatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert isinstance(explore(window_influence, window=(2, 8)), Figure)


def test_with_a_kernel_sliders(monkeypatch) -> None:
    widgets = pytest.importorskip("ipywidgets")
    monkeypatch.delenv(VARIABLE, raising=False)
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setattr(widgets, "interactive", lambda draw, **knobs: (draw, knobs))
    assert explorations.explore(rank_expansion, num_loops=(1, 8)) == (
        rank_expansion,
        {"num_loops": (1, 8)},
    )
    monkeypatch.setenv(VARIABLE, "fast")
    assert isinstance(explore(rank_expansion, num_loops=(1, 8)), Figure)


def test_both_panels_are_drawn() -> None:
    left, right = rank_expansion(num_loops=3, coherence=0.9).axes
    assert left.get_ylabel() == "singular value of the correction"
    assert right.get_ylabel() == "effective rank (entropy)"


def test_one_loop_and_several_are_drawn_once_each() -> None:
    assert len(window_influence(window=4, loops=1).axes[0].get_lines()) == 2  # curve and reach
    assert len(window_influence(window=4, loops=3).axes[0].get_lines()) == 4


def test_quantiles_are_those_of_the_ledger() -> None:
    table = influence_quantiles(applications=(5, 8, 9, 25)).set_index("N T")
    assert dict(table["99 % within"]) == {5: 107, 8: 147, 9: 155, 25: 253}
    assert list(table["holds"]) == [True, True, False, False]


def test_runs_are_kept_apart(tmp_path) -> None:
    one, two = (resolve(recipes()[name]()) for name in ("s3", "s3-rescan"))
    assert run_folder(one, tmp_path) != run_folder(two, tmp_path)
    assert run_folder(one, tmp_path) == run_folder(one, tmp_path)


def test_what_builds_on_a_run_is_named_after_it_too(tmp_path) -> None:
    recipe = recipe_a("gdn")
    one, two = (run_folder(recipe, tmp_path, after=tmp_path / name) for name in ("one", "two"))
    assert one.name.startswith("A-gdn-seed0-")
    assert len({one, two, run_folder(recipe, tmp_path)}) == 3
    assert run_folder(SelectionConfig(), tmp_path).name.startswith("SelectionConfig-seed0-")


def test_a_study_that_is_not_there_is_empty(tmp_path) -> None:
    study = committed_study(tmp_path / "study.parquet")
    assert study.empty
    assert stage_table(study).empty
