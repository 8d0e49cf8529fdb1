"""The cells of the study: what is compared, with how many seeds, and in which order."""

from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from lt2theory.experiments.cells import Cell, in_order
from lt2theory.experiments.studies import studies
from lt2theory.experiments.study_cells import (
    GROUPS,
    PAIR,
    S3_SEEDS,
    SECOND_THOUGHTS,
    SEEDS,
    loops,
)
from lt2theory.experiments.study_recipes import (
    FAMILIES,
    HEADLINE,
    RUNGS,
    SETTLED,
    recall,
)
from lt2theory.experiments.study_words import LENGTHS, exact_start, words
from lt2theory.training import CurriculumConfig

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def cells() -> dict[str, Cell]:
    return {cell.name: cell for cell in in_order(studies()["loops"]())}


def test_every_cell_resolves_and_is_named_after_its_arm(cells: dict[str, Cell]) -> None:
    for name, cell in cells.items():
        assert name == f"{cell.config.label}-s{cell.config.seed}"
        assert cell.resolved.model.vocab_size == cell.config.task.create().vocab_size


def test_arms_differ_in_more_than_their_name(cells: dict[str, Cell]) -> None:
    alike = Counter(
        cell.config.model_copy(update={"label": "x"}).model_dump_json() for cell in cells.values()
    )
    assert max(alike.values()) == 1


def test_claims_have_three_seeds_or_more(cells: dict[str, Cell]) -> None:
    seeds = Counter(cell.config.label for cell in cells.values() if cell.block < 4)
    assert set(seeds.values()) == {SEEDS, S3_SEEDS}
    assert all(cell.exploratory == (cell.block == 4) for cell in cells.values())
    assert {cell.config.seed for cell in cells.values() if cell.exploratory} == {0}


def test_block_one_is_the_headline_setting(cells: dict[str, Cell]) -> None:
    first = [cell for cell in cells.values() if cell.block == 1]
    labels = {f"recall-{family}-t{num_loops}" for family in FAMILIES for num_loops in (1, 4)}
    settled = "recall-gdn-window-t4-settled"
    assert {cell.config.label for cell in first} == labels | {settled}
    for cell in first:
        columns = cell.columns()
        assert (columns["supervision"], columns["layout"]) == HEADLINE
        assert columns["negative_eigenvalues"]
        assert columns["pass_mark"] == 0.9
        assert cell.config.stages == RUNGS
        assert cell.config.optimiser.learning_rate <= 1e-3
        assert cell.config.min_steps == (SETTLED if cell.config.label == settled else 0)


def test_further_recipes_are_those_of_the_search(cells: dict[str, Cell]) -> None:
    found = pd.read_csv(ROOT / "results" / "study-tuning.csv", keep_default_na=False)
    for family in SECOND_THOUGHTS:
        tried = found[found["arm"] == f"recall-{family}-t4"]["setting"].tolist()
        for rank in (1, 2, 3):
            suffix = "" if rank == 1 else f"-rank{rank}"
            config = cells[f"recall-{family}-t4{suffix}-s0"].config
            optimiser, model = config.optimiser, config.model
            assert tried[rank - 1] == (
                f"learning_rate {optimiser.learning_rate}, weight_decay {optimiser.weight_decay}, "
                f"betas {optimiser.betas}, init_std {model.init_std}, "
                f"embedding_std {model.embedding_std}"
            )


def test_word_problems_cross_semantics_loops_and_beta(cells: dict[str, Cell]) -> None:
    labels = {cell.config.label for cell in cells.values() if cell.block == 2}
    for group in GROUPS:
        for beta in ("", "-beta1"):
            assert f"{group.lower()}-t1{beta}" in labels
            for num_loops in (2, 4):
                for state in ("rescan", "accumulate"):
                    assert f"{group.lower()}-t{num_loops}-{state}{beta}" in labels


def test_word_problems_are_tested_at_four_times_their_length() -> None:
    for group in GROUPS:
        config = words(group)
        assert config.test_stages[-1] == 4 * config.stages[-1] == 4 * LENGTHS[-1]
    # Shorter words are too few to confirm 0.99.
    assert words("S3", letters="all").stages[0] == 8
    assert words("S5", letters="all").stages[0] == 4
    assert words("S5").stages[0] == words("Z60").stages[0] == 16


def test_letters_are_few_but_for_s3(cells: dict[str, Cell]) -> None:
    for cell in cells.values():
        if cell.config.task.name == "group_word":
            knobs = cell.config.task.knobs
            every = knobs["group"] == "S3" or cell.config.label.endswith("-all")
            assert knobs["tokens"] == ("all" if every else "generators")


def test_arms_of_a_group_have_one_size_but_for_the_loop_gate() -> None:
    sizes = {
        config.label: config.model.width * config.model.num_loops
        for config in (words("S5", num_loops=1), words("S5", num_loops=4))
    }
    parameters = [
        Cell(name="x", block=2, config=config).columns()["parameters"]
        for config in (words("S5", num_loops=1), words("S5", num_loops=4))
    ]
    gates = list(sizes.values())
    assert parameters[1] - parameters[0] == gates[1] - gates[0]


def test_controls_have_the_depth_and_the_products_of_four_loops() -> None:
    looped, deep, wide = (
        Cell(name="x", block=3, config=config)
        for config in (
            recall("gdn-window", num_loops=4),
            recall("gdn-window", num_loops=1, num_layers=16),
            recall("gdn-window", num_loops=1, width=512),
        )
    )
    assert deep.step_flops(64) == pytest.approx(looped.step_flops(64), rel=0.02)
    assert wide.step_flops(64) == pytest.approx(looped.step_flops(64), rel=0.1)


def test_the_exact_start_trains_as_long_as_a_stage_that_fails() -> None:
    config, drawn = exact_start(3), words("S3", loop_state="rescan", letters="all")
    assert (config.start, config.seed, config.label) == ("s3_rescan", 3, "s3-t2-rescan-exact")
    assert config.min_steps == config.step_budget == drawn.step_budget
    assert config.model == drawn.model.model_copy(update={"norm_eps": 1e-3})
    slowed = exact_start(slowed=100)
    assert slowed.optimiser.learning_rate == pytest.approx(drawn.optimiser.learning_rate / 100)
    assert slowed.label == "s3-t2-rescan-exact-slowed100"


def test_changes_of_block_three_are_those_of_the_best_pair(cells: dict[str, Cell]) -> None:
    changed = {cell.config.label for cell in cells.values() if cell.block == 3}
    assert changed >= {
        f"recall-{family}-t4-{change}" for family in PAIR for change in ("beta1", "accumulate")
    }


def test_a_comparison_is_whole_before_the_next_begins(cells: dict[str, Cell]) -> None:
    for block in (1, 2, 3):
        mine = [cell for cell in cells.values() if cell.block == block]
        arms: dict[int, Counter[str]] = {}
        for cell in mine:
            arms.setdefault(cell.priority, Counter())[cell.config.label] += 1
        assert list(arms) == sorted(arms)
        assert all(len(set(counts.values())) == 1 for counts in arms.values())
        labels = [label for counts in arms.values() for label in counts]
        assert len(set(labels)) == len(labels)  # no arm is split between comparisons
        assert max(len(counts) for counts in arms.values()) <= 4


def test_the_study_is_offered_by_name() -> None:
    assert [cell.name for cell in studies()["loops"]()] == [cell.name for cell in loops()]
    assert isinstance(loops()[0].config, CurriculumConfig)
