"""docs/study.md: of the committed results, and of studies that never ran."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from lt2theory.experiments.study_cells import PAIR, loops
from lt2theory.experiments.study_figures import FIGURES
from lt2theory.experiments.study_page import main, study_page
from lt2theory.experiments.study_paper import LINES, compared
from lt2theory.experiments.study_searched import SEARCHED, read_search, said_search
from lt2theory.experiments.study_table import CELL_COLUMNS, TABLE, merge, read_study_table
from lt2theory.experiments.study_tables import cost_records
from lt2theory.experiments.study_views import best_hybrids
from lt2theory.experiments.study_word_tables import rank_records, word_records
from lt2theory.runs import COLUMNS, write_table
from tests.experiments.study_runs import recall_run, study, with_ranks, word_run

ROOT = Path(__file__).parents[2]
NO_SEARCH = read_search(Path("absent"))
CELLS = {cell.name: cell for cell in loops()}


def whole(table: pd.DataFrame) -> pd.DataFrame:
    """With the columns of every cell, as a session writes them."""
    names = [f"{label}-s{seed}" for label, seed in zip(table["label"], table["seed"], strict=True)]
    known = {name: CELLS[name].columns() for name in set(names)}
    columns = pd.DataFrame([known[name] for name in names])
    facts = {"status": "done", "progress": 1, "sessions": 1, "device": "a GPU", "source": "x"}
    kept = table.drop(columns=[name for name in columns if name in table])
    filled = pd.concat([kept.reset_index(drop=True), columns], axis=1).assign(**facts)
    types = {name: dtype for name, (dtype, _) in COLUMNS.items()} | CELL_COLUMNS
    return filled.reindex(columns=list(types)).astype(types)


@pytest.fixture
def results(outcome: Any, make_evidence: Any) -> pd.DataFrame:
    recall = [
        recall_run(outcome, f"recall-{family}-t4", seed, stage)
        for family, stages in (("gdn-window", (128, 64, 128)), ("softmax", (64, 64, 64)))
        for seed, stage in enumerate(stages)
    ]
    words = [
        word_run(outcome, "s5-t4-accumulate", seed, far) for seed, far in enumerate((1.0, 0.99))
    ]
    first = study(make_evidence, recall)
    second = with_ranks(
        study(make_evidence, words, task="group_word"),
        {
            "largest_rank": 4,
            "entropy_rank": 2.5,
            "ideal_entropy_rank": 3.5,
            "beta": 1.9,
            "beyond_token": 0.25,
        },
    )
    curve = {"split": "test", "metric": "exact_prefix_accuracy", "stage": 128}
    prefixes = [
        second.drop_duplicates("run").assign(position=place, value=1 / (1 + place), **curve)
        for place in (0, 64, 127)
    ]
    cost = first.drop_duplicates("run").assign(split="cost", metric="device_seconds", value=90.0)
    return whole(pd.concat([first, second, *prefixes, cost], ignore_index=True))


def test_the_page_of_this_tree_is_what_the_results_give() -> None:
    assert main(["--results", str(ROOT / "results"), "--page", str(ROOT / "docs/study.md"),
                 "--check"]) == 0  # fmt: skip


def test_block_three_changes_the_best_two_of_block_one() -> None:
    path = ROOT / "results" / TABLE
    if not path.exists():
        pytest.skip("the study has not run yet")
    table = read_study_table(path)
    asked = {cell.name for cell in loops() if cell.block == 1}
    ended = asked & set(table[table["status"] == "done"]["cell"])
    if ended < asked:
        pytest.skip(f"block 1 has ended {len(ended)} of {len(asked)} cells")
    assert set(best_hybrids(table, ("gdn", "gdn-window", "gdn-nsa", "full-gdn"))[:2]) == set(PAIR)


def searched(**changes: Any) -> pd.DataFrame:
    """What a search of two settings found: that of GDN+Window's recipe, and another one."""
    arm = "recall-gdn-window-t4"
    known = read_search(ROOT / "results" / SEARCHED)
    rows = known[known["arm"] == arm].iloc[:2]
    return rows.assign(**changes)


def test_the_page_says_how_recipes_were_found() -> None:
    said = said_search(searched(seeds=3, stages=[4.0, 3.5], steps=[550.0, 1800.0]))
    assert "settings drawn once for all families, 2 settings of 3 seeds for gdn-window, at" in said
    assert "gdn-window (rank 1 of 2, 4 of 4 rungs in 550 steps)." in said
    assert said.endswith(" Not searched: softmax, gdn, gdn-nsa, full-gdn.")
    turned = said_search(searched().iloc[::-1])
    assert "gdn-window (rank 2 of 2, " in turned
    assert "gdn-window (none of the 2 tried)" in said_search(searched(setting="another"))
    assert said_search(NO_SEARCH) in study_page(merge(()), NO_SEARCH)
    known = read_search(ROOT / "results" / SEARCHED)
    assert "none of the" not in said_search(known), "every recipe is a setting that was tried"


def test_the_page_is_checked_against_the_search_too(tmp_path: Path) -> None:
    asked = ["--results", str(tmp_path), "--page", str(tmp_path / "study.md")]
    assert main(asked) == 0
    assert main([*asked, "--check"]) == 0
    searched().to_csv(tmp_path / SEARCHED, index=False)
    assert main([*asked, "--check"]) == 1
    searched().drop(columns="seeds").to_csv(tmp_path / SEARCHED, index=False)
    with pytest.raises(ValueError, match="is no table of searches: it lacks seeds"):
        main(asked)


def test_before_the_run_everything_is_listed_as_not_run() -> None:
    page = study_page(merge(()), NO_SEARCH)
    assert f"0 of {len(CELLS)} cells done." in page
    assert "Kept: 0, broken: 0, undecided: " in page
    assert "](figures/" not in page
    assert "`recall-gdn-window-t4` (seed 0, 1, 2)" in page.split("## Not run")[1]


def test_commits_are_short_and_merged_and_unknown_says_why(results: pd.DataFrame) -> None:
    full = "3bf0468b2166fc135020e8d3693b6730de586ce6"
    cells = list(dict.fromkeys(results["cell"]))
    said = dict.fromkeys(cells[:3], full) | dict.fromkeys(cells[3:5], "3bf0468")
    said |= {cells[5]: f"4ffca9a, {full}, 3bf0468", cells[6]: "unknown"}
    page = study_page(results.assign(source=results["cell"].map(lambda c: said.get(c, "4ffca9a"))),
                      NO_SEARCH)  # fmt: skip
    line = next(line for line in page.splitlines() if "Commits of what has begun" in line)
    assert line.endswith(
        "begun: 3bf0468 (5 cells), 4ffca9a, 3bf0468 (1 cell), unknown (1 cell), 4ffca9a (1 cell). "
        "Unknown: ran before runs recorded their commit."
    )
    known = study_page(results, NO_SEARCH)
    assert "before runs recorded" not in known


def test_numbers_come_from_the_table(results: pd.DataFrame) -> None:
    page = study_page(results, NO_SEARCH)
    assert f"8 of {len(CELLS)} cells done. Commits of what has begun: x (8 cells)." in page
    assert "| gdn-window | 4 | 3 | 128 (64 to 128) |" in page
    assert "0.688" in page, "the best floor stands beside the test"
    assert (
        "| looped softmax stops at 64, whatever T | recall-softmax-t4 | 64, 64, 64 | agrees here |"
        in page
    )
    assert "| s5-t4-accumulate | 2 of 2 seeds [0.158, 1.000] | 32: 1.000, 32: 1.000 |" in page
    assert (
        "| s5-t4-accumulate | 2 that solved | 4 | 2.50 [2.50, 2.50] | 3.50 | 1.90 | 0.25 |" in page
    )
    assert "| 1 | a GPU | 6 | 6 | 6 | 9.0 | 90000.0 |" in page
    lost = page.split("## Not run")[1]
    assert "`s5-t4-accumulate` (seed 2)" in lost
    assert "`recall-softmax-t4`" not in lost


def test_the_best_two_are_so_far_the_best_while_a_cell_is_missing(
    outcome: Any, make_evidence: Any
) -> None:
    stages = {"gdn": 64, "gdn-window": 128, "gdn-nsa": 32, "full-gdn": 64}
    runs = [
        recall_run(outcome, f"recall-{family}-t4", seed, stage)
        for family, stage in stages.items()
        for seed in range(3)
    ]
    said = "block 1's best two (by median stage, then steps): gdn-window and gdn"
    page = study_page(whole(study(make_evidence, runs)), NO_SEARCH)
    assert f"{said}." in page
    page = study_page(whole(study(make_evidence, runs[:-2])), NO_SEARCH)
    assert f"{said} so far, with 2 cells missing." in page


def test_the_last_length_that_was_trained_stands_beside_its_test(
    outcome: Any, make_evidence: Any
) -> None:
    # Two seeds fail 32 tokens, where they are right on a half; one fails 16, and is tested there.
    runs = [word_run(outcome, "s5-t1", seed, 0.5) for seed in range(2)]
    runs += [outcome("s5-t1", 2, {16: False}, {16: 0.75, 128: 0.25})]
    table = study(make_evidence, runs, task="group_word")
    cells = tuple(cell for cell in CELLS.values() if cell.config.label == "s5-t1")
    (record,) = word_records(table, cells)
    assert record["longest training length, right there"] == "32: 0.500, 32: 0.500, 16: 0.750"
    assert record["solved all"].startswith("0 of 3 seeds")


def test_words_are_right_at_the_last_token_and_at_every_one(results: pd.DataFrame) -> None:
    label = "s5-t4-accumulate"
    tests = results[(results["label"] == label) & (results["split"] == "test")]
    whole_words = tests.assign(metric="sequence_accuracy", value=0.75, low=0.74, high=0.76)
    table = pd.concat([results, whole_words], ignore_index=True)
    cells = tuple(cell for cell in CELLS.values() if cell.config.label == label)
    (record,) = word_records(table, cells)
    assert record["right at the last token"].startswith("1.000 [0.999, 1.000], 0.990 [")
    assert record["right at the last token"].endswith("(best floor 0.688)")
    assert record["right at every token"] == "0.750 [0.740, 0.760], 0.750 [0.740, 0.760]"
    (without,) = word_records(results, cells)
    assert without["right at every token"] == "not tested"
    assert "| right at the last token | right at every token |" in study_page(table, NO_SEARCH)


def test_models_measured_before_a_number_was_have_a_dash_for_it(results: pd.DataFrame) -> None:
    (record,) = rank_records(results)
    (older,) = rank_records(results[results["metric"] != "beyond_token"])
    assert record["beyond the token"] == "0.25"
    assert older == record | {"beyond the token": "—"}


def test_costs_cover_the_same_cells_in_every_column(results: pd.DataFrame) -> None:
    cost = results[results["split"] == "cost"]
    first, second = cost["run"].iloc[:2]
    results.loc[results["run"] == first, ["status", "progress"]] = ["unfinished", 996]
    results.loc[results["run"] == second, "device"] = "another GPU"
    assert cost_records(results) == [
        {
            "block": "1",
            "device": device,
            "cells begun": begun,
            "of them ended": ended,
            "steps": steps,
            "minutes of the device": minutes,
            "ms a step": ms,
        }
        for device, begun, ended, steps, minutes, ms in (
            ("a GPU", "5", "4", "1,000", "7.5", "450.0"),
            ("another GPU", "1", "1", "1", "1.5", "90000.0"),
        )
    ]


@pytest.mark.parametrize(
    ("reached", "expected"),
    [
        ((64, 64, 64), "agrees here"),
        ((128, 32, 128), "differs here"),
        ((64, 128, 64), "undecided"),
        ((64, 64), "undecided"),
        ((), "undecided"),
    ],
)
def test_the_paper_is_judged_by_three_seeds(
    reached: tuple[int, ...], expected: str, outcome: Any, make_evidence: Any
) -> None:
    line = LINES[0]
    runs = [recall_run(outcome, line.label, seed, stage) for seed, stage in enumerate(reached)]
    assert compared(line, study(make_evidence, runs)) == (expected, list(reached))


def test_lines_of_the_paper_are_arms_of_the_study() -> None:
    assert {line.label for line in LINES} <= {cell.config.label for cell in CELLS.values()}


def test_figures_are_small_files_that_the_page_links(results: pd.DataFrame, tmp_path: Path) -> None:
    write_table(tmp_path / TABLE, results)
    page = tmp_path / "study.md"
    asked = ["--results", str(tmp_path), "--page", str(page)]
    assert main([*asked, "--check"]) == 1
    assert main(asked) == 0
    assert main([*asked, "--check"]) == 0
    drawings = {name: draw(results) for name, (draw, _) in FIGURES.items()}
    empty = [name for name, drawing in drawings.items() if drawing is None]
    assert empty == ["study-words-settled"], "no arm of these results stays at each length"
    for name in set(FIGURES) - set(empty):
        drawn = tmp_path / "figures" / f"{name}.svg"
        assert drawn.stat().st_size < 100_000
        assert f"(figures/{name}.svg)" in page.read_text("utf-8")


def test_the_figure_of_stages_has_a_mark_a_seed(results: pd.DataFrame) -> None:
    draw, _ = FIGURES["study-reached"]
    figure = draw(results)
    assert figure is not None
    (axes,) = figure.axes
    heights = sorted(float(line.get_ydata()[0]) for line in axes.lines)  # type: ignore[index,arg-type]
    assert heights == [7, 7, 7, 7, 8, 8]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["softmax", "gdn-window"]
