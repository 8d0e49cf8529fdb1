"""Every prediction of the study: kept, broken and open on tables that say so."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pandas as pd
import pytest

from lt2theory.experiments.cells import Cell
from lt2theory.experiments.linearization.predictions import predictions as of_linearization
from lt2theory.experiments.study_cells import DIAGONAL, GROUPS, loops
from lt2theory.experiments.study_coverage import cells_about
from lt2theory.experiments.study_prediction import (
    EXPECTED,
    UNRUN,
    Judged,
    Prediction,
    judged,
)
from lt2theory.experiments.study_predictions import predictions
from lt2theory.experiments.study_rank_rows import ERASING
from lt2theory.experiments.study_recipes import FAMILIES
from proofs_checks.ledger import ledger
from tests.experiments.study_runs import recall_run, study, with_ranks, word_run

KEPT, BROKEN, OPEN = "as predicted", "not as predicted", "inconclusive"
BY_NAME = {prediction.name: prediction for prediction in predictions()}
ONE_LOOP = [f"{group.lower()}-t1" for group in GROUPS]
SMALL = [f"{g.lower()}-t4-{state}-beta1" for g in GROUPS for state in ("rescan", "accumulate")]
NO_ERASURE = [f"s3-t{arm}" for name in DIAGONAL for arm in (f"1-{name}", f"2-rescan-{name}")]
CYCLIC = ["z5-t1", "z60-t1", "a4xz5-t1"]

SEEDS = Counter(cell.config.label for cell in loops())
ALL_HOLD = {
    "s5-accumulate-4": ["s5-t4-accumulate"],
    "a5-s4-accumulate-2": ["a5-t2-accumulate", "s4-t2-accumulate"],
    "cyclic-accumulate-2": ["z5-t2-accumulate"],
    "parity": ["parity-t1"],
}
NONE_HOLD = {
    "s5-accumulate-2": ["s5-t2-accumulate"],
    "one-loop": ONE_LOOP,
    "small-beta-groups": SMALL,
    "diagonal": NO_ERASURE,
    "cyclic-one-loop": CYCLIC,
    "parity-small-beta": ["parity-t1-beta1"],
}


def length_of(name: str) -> int:
    return 1024 if name.startswith("parity") else 128


def every_seed(label: str, far: Sequence[float]) -> list[float]:
    """Three values for all seeds of an arm: those of an arm that has more repeat the first."""
    return [*far, *far[:1] * (SEEDS[label] - 3 if len(far) == 3 else 0)]


@pytest.fixture
def runs(outcome: Any, make_evidence: Any) -> Any:
    def make(labels: Sequence[str], far: Sequence[float], length: int = 128) -> pd.DataFrame:
        made = [
            word_run(outcome, label, seed, value, length=length)
            for label in labels
            for seed, value in enumerate(every_seed(label, far))
        ]
        return study(make_evidence, made, task="group_word")

    return make


@pytest.mark.parametrize(
    ("far", "expected"),
    [
        ((1.0, 0.99, 0.95), KEPT),
        ((1.0, 0.99, 0.2), BROKEN),
        ((1.0, 0.99, 0.9), OPEN),  # its interval has the mark inside
        ((1.0, 0.99), OPEN),
        ((0.1,), BROKEN),
    ],
)
@pytest.mark.parametrize("name", ALL_HOLD)
def test_all_seeds_hold(name: str, far: Sequence[float], expected: str, runs: Any) -> None:
    table = runs(ALL_HOLD[name], far, length_of(name))
    row = judged(BY_NAME[name], table)
    assert row.verdict == expected
    assert all(label in row.happened for label in ALL_HOLD[name])


@pytest.mark.parametrize(
    ("far", "expected"),
    [
        ((0.1, 0.2, 0.8), KEPT),
        ((0.1, 0.2, 0.95), BROKEN),
        ((0.1, 0.2, 0.9), OPEN),
        ((0.1, 0.2), OPEN),
    ],
)
@pytest.mark.parametrize("name", NONE_HOLD)
def test_no_seed_holds(name: str, far: Sequence[float], expected: str, runs: Any) -> None:
    row = judged(BY_NAME[name], runs(NONE_HOLD[name], far, length_of(name)))
    assert row.verdict == expected


def test_an_arm_of_more_seeds_is_open_until_all_have_ended(runs: Any) -> None:
    table = runs(ONE_LOOP, (0.1, 0.1, 0.1))
    assert SEEDS["s3-t1"] > 3
    assert judged(BY_NAME["one-loop"], table).verdict == KEPT
    row = judged(BY_NAME["one-loop"], table[table["seed"] < 3])
    assert row.verdict == OPEN
    assert "s3-t1: held by 0 of 3 seeds [0.000, 0.708], 2 open." in row.happened


@pytest.mark.parametrize(
    ("far", "expected"), [((0.1, 0.1, 0.1), KEPT), ((0.1, 0.1, 1.0), BROKEN), ((0.1, 0.1), OPEN)]
)
def test_s5_is_learnt_by_no_control(far: Sequence[float], expected: str, runs: Any) -> None:
    row = judged(BY_NAME["s5-controls"], runs(["s5-t1", "s5-t4-rescan"], far))
    assert row.verdict == expected


@pytest.mark.parametrize(
    ("rescan", "accumulate", "expected"),
    [
        ((1, 1, 0, 0, 0), (1, 1, 1, 0, 0), KEPT),
        ((1, 1, 1, 0, 0), (1, 1, 1, 1, 1), BROKEN),
        ((0, 0, 0, 0, 0), (1, 1, 0, 0, 0), BROKEN),
        ((0, 0, 0, 0), (1, 1, 1, 1, 1), OPEN),
    ],
)
def test_rescan_learns_s3_less_often(
    rescan: Sequence[float], accumulate: Sequence[float], expected: str, runs: Any
) -> None:
    table = pd.concat([runs(["s3-t2-rescan"], rescan), runs(["s3-t2-accumulate"], accumulate)])
    assert judged(BY_NAME["s3-rescan"], table).verdict == expected


@pytest.mark.parametrize(
    ("slow", "fast", "expected"),
    [
        ([1.0] * 5, [0.2] * 5, (KEPT, KEPT)),
        ([1.0] * 4 + [0.5], [0.2] * 4 + [1.0], (BROKEN, BROKEN)),
        ([1.0] * 4, [0.2] * 4, (OPEN, OPEN)),
    ],
)
def test_the_exact_start(
    slow: Sequence[float], fast: Sequence[float], expected: tuple[str, str], runs: Any
) -> None:
    labels = ("s3-t2-rescan-exact-slowed100", "s3-t2-rescan-exact")
    table = pd.concat([runs([labels[0]], slow), runs([labels[1]], fast)])
    found = [judged(BY_NAME[name], table).verdict for name in ("exact-start-slow", "exact-start")]
    assert tuple(found) == expected


def recall_table(outcome: Any, make_evidence: Any, reached: dict[str, Sequence[int]]) -> Any:
    made = [
        recall_run(outcome, label, seed, stage)
        for label, stages in reached.items()
        for seed, stage in enumerate(stages)
    ]
    return study(make_evidence, made)


@pytest.mark.parametrize(
    ("name", "reached", "expected"),
    [
        ("hybrids", {"gdn-window-t4": (128, 128, 128)}, KEPT),
        ("hybrids", {"gdn-window-t4": (128, 128), "gdn-nsa-t4": (8, 8, 8)}, OPEN),
        ("hybrids", {f"{f}-t4": (128, 64, 128) for f in FAMILIES}, BROKEN),
        ("softmax", {"softmax-t1": (8, 8, 8), "softmax-t4": (64, 32, 64)}, KEPT),
        ("softmax", {"softmax-t1": (8, 8, 8), "softmax-t4": (64, 128)}, BROKEN),
        ("softmax", {"softmax-t4": (64, 64, 64)}, OPEN),
        ("pure-gdn", {"gdn-t4": (64, 64, 64)}, KEPT),
        ("pure-gdn", {"gdn-t4": (128,)}, BROKEN),
        ("pure-gdn", {"gdn-t4": (8, 8)}, OPEN),
        ("loops-help", {f"{f}-t{t}": (8 * t,) * 3 for f in FAMILIES for t in (1, 4)}, KEPT),
        ("loops-help", {"gdn-t1": (8, 8, 8), "gdn-t4": (4, 4, 64)}, BROKEN),
        ("loops-help", {"gdn-t1": (8, 8, 8), "gdn-t4": (64, 64, 64)}, OPEN),
        ("small-beta", {f"{f}-t4{b}": (n,) * 3 for f in ("gdn", "gdn-nsa")
                        for b, n in (("", 64), ("-beta1", 32))}, KEPT),
        ("small-beta", {"gdn-nsa-t4": (64,) * 3, "gdn-nsa-t4-beta1": (64,) * 3}, BROKEN),
        ("small-beta", {"gdn-nsa-t4": (64,) * 3, "gdn-nsa-t4-beta1": (8,) * 2}, OPEN),
    ],
)  # fmt: skip
def test_stages_of_recall(
    name: str, reached: dict[str, Sequence[int]], expected: str, outcome: Any, make_evidence: Any
) -> None:
    labelled = {f"recall-{label}": stages for label, stages in reached.items()}
    row = judged(BY_NAME[name], recall_table(outcome, make_evidence, labelled))
    assert row.verdict == expected


@pytest.fixture(scope="module")
def recall_cells() -> tuple[Cell, ...]:
    return cells_about("state_based_recall")


@pytest.mark.parametrize(
    ("value", "low", "high", "expected"),
    [(0.95, 0.94, 0.96, KEPT), (0.6, 0.58, 0.62, BROKEN), (0.69, 0.67, 0.71, OPEN)],
)
def test_no_shortcut_explains_a_solved_stage(
    value: float,
    low: float,
    high: float,
    expected: str,
    recall_cells: tuple[Cell, ...],
    outcome: Any,
    make_evidence: Any,
) -> None:
    made = [recall_run(outcome, cell.config.label, cell.config.seed, 128) for cell in recall_cells]
    table = study(make_evidence, made)
    last = (table["split"] == "test") & (table["stage"] == 128)
    table.loc[last.idxmax(), ["value", "low", "high"]] = [value, low, high]
    assert judged(BY_NAME["no-shortcut"], table).verdict == expected


@pytest.mark.parametrize(("low", "high", "expected"), [(0.94, 0.96, OPEN), (0.58, 0.62, BROKEN)])
def test_what_holds_everywhere_is_open_while_a_cell_is_missing(
    low: float,
    high: float,
    expected: str,
    recall_cells: tuple[Cell, ...],
    outcome: Any,
    make_evidence: Any,
) -> None:
    made = [
        recall_run(outcome, cell.config.label, cell.config.seed, 128) for cell in recall_cells[1:]
    ]
    table = study(make_evidence, made)
    last = (table["split"] == "test") & (table["stage"] == 128)
    table.loc[last.idxmax(), ["low", "high"]] = [low, high]
    row = judged(BY_NAME["no-shortcut"], table)
    assert row.verdict == expected
    assert f"Of {len(recall_cells)} cells that this is about 1 are missing." in row.happened


RANKED = [cell.config for cell in cells_about("group_word", ERASING)]


@pytest.mark.parametrize(
    ("rank", "missing", "unmeasured", "expected"),
    [
        (1.0, 0, 0, KEPT),
        (5.0, 0, 0, BROKEN),
        (5.0, 3, 0, BROKEN),
        (1.0, 1, 0, OPEN),
        (1.0, 0, 1, OPEN),
        (None, 0, 0, OPEN),
    ],
)
def test_the_bound_of_the_rank(
    rank: float | None,
    missing: int,
    unmeasured: int,
    expected: str,
    outcome: Any,
    make_evidence: Any,
) -> None:
    made = [
        word_run(outcome, config.label, config.seed, 0.1, diverged=not place)
        for place, config in enumerate(RANKED[: len(RANKED) - missing])
    ]
    table = study(make_evidence, made, task="group_word")
    if rank is not None:
        diverged = table["run"].iloc[0]
        without = [diverged, *table["run"].drop_duplicates().iloc[1 : 1 + unmeasured]]
        kept = with_ranks(table, {"largest_rank": rank})
        table = kept[~((kept["split"] == "rank") & kept["run"].isin(without))]
    assert judged(BY_NAME["rank-bound"], table).verdict == expected


@pytest.mark.parametrize(
    ("far", "rank", "expected"),
    [
        ((1.0, 0.1, 1.0), 2.6, KEPT),
        ((1.0, 0.1), 2.6, OPEN),  # a seed has not ended
        ((1.0, 0.1), 1.7, BROKEN),
        ((0.1, 0.1, 0.1), 2.6, OPEN),
    ],
)
def test_the_rank_of_what_was_learnt(
    far: Sequence[float], rank: float, expected: str, runs: Any
) -> None:
    table = with_ranks(runs(["s5-t4-accumulate"], far), {"entropy_rank": rank})
    assert judged(BY_NAME["effective-rank"], table).verdict == expected


def test_a_model_that_solved_and_was_not_measured_leaves_the_rank_open(runs: Any) -> None:
    table = with_ranks(runs(["s5-t4-accumulate"], (1.0, 1.0, 1.0)), {"entropy_rank": 2.6})
    last = table["run"].iloc[-1]
    table = table[~((table["split"] == "rank") & (table["run"] == last))]
    row = judged(BY_NAME["effective-rank"], table)
    assert (row.verdict, row.happened[-14:]) == (OPEN, " Open: 1 seed.")


# The least that decides: of every prediction the labels whose seeds must all have ended.
WHOLE = {
    **{name: (labels, 0.1) for name, labels in NONE_HOLD.items()},
    **{name: (labels, 1.0) for name, labels in ALL_HOLD.items()},
    "s5-controls": (["s5-t1", "s5-t4-rescan"], 0.1),
}


@pytest.mark.parametrize("name", WHOLE)
def test_no_arm_that_is_missing_is_taken_for_kept(name: str, runs: Any) -> None:
    labels, far = WHOLE[name]
    table = runs([*labels[1:], "another-arm"], (far,) * 3, length_of(name))
    assert judged(BY_NAME[name], table).verdict == OPEN


@pytest.mark.parametrize("name", BY_NAME)
def test_nothing_is_decided_before_the_run(name: str, runs: Any) -> None:
    empty = runs([], ())
    row = judged(BY_NAME[name], empty)
    assert (row.verdict, row.happened) == (OPEN, UNRUN)
    other = judged(BY_NAME[name], runs(["another-arm"], (1.0,)))
    assert other.verdict == OPEN


def test_a_run_that_diverged_does_not_hold(outcome: Any, make_evidence: Any) -> None:
    made = [word_run(outcome, "s5-t4-accumulate", seed, 0.1, diverged=True) for seed in range(3)]
    table = study(make_evidence, made, task="group_word")
    assert judged(BY_NAME["s5-accumulate-4"], table).verdict == BROKEN


def test_every_prediction_names_its_basis_and_arms_of_the_study() -> None:
    assert len(BY_NAME) == len(predictions())
    labels = {cell.config.label for cell in loops()}
    for names in (*ALL_HOLD.values(), *NONE_HOLD.values()):
        assert set(names) <= labels


def test_what_is_implied_names_a_claim_that_holds() -> None:
    claims = {f"implied by {claim.id} ({claim.title})": claim for claim in ledger()}
    found = Counter(one.basis for one in (*predictions(), *of_linearization()))
    del found[EXPECTED]
    assert {claims[basis].expected for basis in found} == {"holds"}
    assert {BY_NAME[name].basis.split(" (")[0] for name in NONE_HOLD if name != "diagonal"} == {
        f"implied by {claim}" for claim in ("E8", "E5", "E4")
    }
    assert BY_NAME["one-loop"].basis != BY_NAME["s5-accumulate-2"].basis  # both of E8


@pytest.mark.parametrize(
    ("basis", "provided", "message"),
    [
        ("I think so", "", "basis: got 'I think so'"),
        ("implied by E8", "some", "basis: got 'implied by E8', allowed are 'implied by <claim id>"),
        ("implied by E8 (a claim)", "", "provided: got ''"),
        (EXPECTED, "luck", "provided: got 'luck'"),
    ],
)
def test_what_is_implied_says_of_what(basis: str, provided: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Prediction("x", "x", basis, "x", lambda _: Judged((None,), ""), provided)
