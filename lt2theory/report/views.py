"""Parts of the run store's tidy table, in the columns that figures and intervals ask for.

The table is documented in `lt2theory.runs.tables`; every function here only selects and renames.
"""

from collections.abc import Mapping

import pandas as pd

from lt2theory.report.frames import in_order, numbers

ACCURACY = "scored_accuracy"
PREFIX = "exact_prefix_accuracy"


def training_curves(table: pd.DataFrame) -> pd.DataFrame:
    """Training loss and evaluation accuracy of every run.

    Args:
        table: A tidy table.

    Returns:
        `label`, `seed`, `step`, `stage`, `metric` (`loss` or `scored_accuracy`), `value`; rows
        without a value (a loss that was not finite) are left out.
    """
    loss = (table["split"] == "train") & (table["metric"] == "loss")
    accuracy = (table["split"] == "eval") & (table["metric"] == ACCURACY)
    rows = table[(loss | accuracy) & table["value"].notna()]
    return rows[["label", "seed", "step", "stage", "metric", "value"]].reset_index(drop=True)


def outcomes(table: pd.DataFrame) -> pd.DataFrame:
    """How every finished run ended.

    Args:
        table: A tidy table.

    Returns:
        One row a run that has ended: `label`, `seed`, `run`, `solved` (every stage was), `steps`
        (all that it took), `diverged`.
    """
    facts = table[table["split"] == "run"]
    keys = ["label", "seed", "run"]
    wide = facts.pivot(index=keys, columns="metric", values="value").reset_index()
    for name in ("solved", "steps", "diverged"):
        wide[name] = numbers(wide, name) if name in wide.columns else 0.0
    # `pivot` sorts; the order of the arms is the table's.
    order = {name: place for place, name in enumerate(in_order(table["run"]))}
    wide = wide.sort_values("run", key=lambda names: names.map(order), ignore_index=True)
    wide["solved"] = wide["solved"] == 1
    wide["diverged"] = wide["diverged"] == 1
    wide.columns.name = None
    return wide[[*keys, "solved", "steps", "diverged"]]


def stage_outcomes(table: pd.DataFrame) -> pd.DataFrame:
    """How every run ended each stage that it reached.

    Args:
        table: A tidy table.

    Returns:
        `label`, `seed`, `stage`, `solved` (bool), `steps` (spent on the stage), `step` (done over
        all stages when it ended).
    """
    rows = table[table["split"] == "stage"]
    steps = rows[rows["metric"] == "steps"].rename(columns={"value": "steps"})
    solved = rows[rows["metric"] == "solved"].rename(columns={"value": "solved"})
    keys = ["label", "seed", "run", "stage"]
    merged = steps[[*keys, "step", "steps"]].merge(solved[[*keys, "solved"]], on=keys)
    merged["solved"] = numbers(merged, "solved") == 1
    return merged[["label", "seed", "stage", "solved", "steps", "step"]]


def accuracies(table: pd.DataFrame, split: str = "test", *, metric: str = ACCURACY) -> pd.DataFrame:
    """Accuracies on one split, the last one of every run and stage.

    Args:
        table: A tidy table.
        split: `test`, `eval` or `confirmation`.
        metric: Which: that of the scored positions, or such as `sequence_accuracy`.

    Returns:
        `label`, `seed`, `run`, `stage`, `value`, `low`, `high`, `n` (instances).
    """
    rows = table[(table["split"] == split) & (table["metric"] == metric)]
    last = rows.drop_duplicates(["run", "stage"], keep="last")
    columns = ["label", "seed", "run", "stage", "value", "low", "high", "n"]
    return last[columns].reset_index(drop=True)


def floors(table: pd.DataFrame) -> pd.DataFrame:
    """Accuracies that need no learning.

    Args:
        table: A tidy table of runs on one task with the same knobs.

    Returns:
        `stage`, `floor` (its name in words), `value`; each once.
    """
    rows = table[table["split"] == "floor"].drop_duplicates(["stage", "metric", "value"])
    names = rows["metric"].astype(str).str.replace("_", " ")
    return rows.assign(floor=names)[["stage", "floor", "value"]].reset_index(drop=True)


def constant_floors(table: pd.DataFrame) -> dict[str, float]:
    """Floors that are the same at every stage, which a figure over steps can draw.

    Args:
        table: As for `floors`.

    Returns:
        Name and accuracy, those of the only stage if there is one.
    """
    groups = floors(table).groupby("floor", sort=False)["value"]
    spans = {str(name): (float(values.min()), float(values.max())) for name, values in groups}
    return {name: low for name, (low, high) in spans.items() if high - low < 1e-9}


def exact_prefixes(table: pd.DataFrame, stage: int) -> pd.DataFrame:
    """Share of test instances without a wrong answer so far, along the sequence.

    Args:
        table: A tidy table.
        stage: The stage whose test is meant.

    Returns:
        `label`, `seed`, `position` (1 is the first token), `value`.
    """
    rows = table[
        (table["split"] == "test") & (table["metric"] == PREFIX) & (table["stage"] == stage)
    ]
    return rows.assign(position=rows["position"] + 1)[
        ["label", "seed", "position", "value"]
    ].reset_index(drop=True)


def longest_prefix_stage(table: pd.DataFrame) -> int | None:
    """The largest stage with answers at more than one position.

    Args:
        table: A tidy table.

    Returns:
        The stage, or None if the task asks at one position alone.
    """
    rows = table[(table["split"] == "test") & (table["metric"] == PREFIX)]
    counts = rows.groupby("stage")["position"].nunique()
    several = counts[counts > 1]
    return int(several.index.max()) if len(several) else None


def task_setting(card: Mapping[str, object]) -> str:
    """What was supervised, which every result must say.

    Args:
        card: The task's card, as a run's summary keeps it.

    Returns:
        Both knobs with their values, a semicolon between them; empty where the card does not say.
    """
    return "; ".join(f"{name}: {card[name]}" for name in ("supervision", "layout") if name in card)


def stage_heading(card: Mapping[str, object]) -> str:
    """What a stage of a task counts.

    Args:
        card: The task's card, as a run's summary keeps it.

    Returns:
        For instance `number of swaps`; `stage` where the card does not say.
    """
    words = str(card.get("allowed_stages", "")).partition(" in ")[0]
    return words.removeprefix("an ").removeprefix("a ") or "stage"
