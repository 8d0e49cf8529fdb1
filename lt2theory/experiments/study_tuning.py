"""The search for the study's recipes, as studies of its own, so that a GPU carries it out.

    lt2 curriculum study tune-recall --minutes 9
    lt2 curriculum study tune-s5 --minutes 5
    python -m lt2theory.experiments.study_tuning --csv results/study-tuning.csv STUDY...

Every arm of `experiments.searches` gets the same settings, drawn once, the same seeds and the same
cap on steps; the runs read the evaluation split alone, with seeds that no result uses. The table
ranks each arm's settings as `experiments.tuning` does. Its best go into the study's recipes; if a
family stops early in block 1, its second and third best are tried before that counts.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from lt2theory.experiments.cells import Cell, Cells
from lt2theory.experiments.search_space import configured, draw_settings
from lt2theory.experiments.searches import searches
from lt2theory.experiments.study_steps import measured_shares
from lt2theory.experiments.study_table import merge, read_study_table
from lt2theory.experiments.tuning import SEED, standing

SETTINGS = 8
SEEDS = {"recall": 1, "s5": 2}
"""Seeds of every setting, by search."""


def tuning_cells(name: str) -> Cells:
    """One search as cells.

    Args:
        name: A key of `SEEDS`.

    Returns:
        Cells in such an order that all arms have had the same number of settings at any time.
    """
    search = searches()[name]()
    settings = draw_settings(search.space, SETTINGS)
    block = 1 if name == "recall" else 2
    return tuple(
        Cell(
            name=f"{arm.label}-try{place}-s{seed}",
            block=block,
            config=configured(arm, setting, seed=seed),
            expected_steps=arm.step_budget // 2,
            shares=measured_shares(arm),
        )
        for place, setting in enumerate(settings)
        for seed in range(SEED, SEED + SEEDS[name])
        for arm in search.arms
    )


def ranking(table: pd.DataFrame) -> pd.DataFrame:
    """What the searches have found so far.

    Args:
        table: Tables of the studies that `tuning_cells` makes, merged.

    Returns:
        As `lt2theory.experiments.tuning.standing`, all searches one below the other; settings that
        have not run are left out.
    """
    found = []
    for name in SEEDS:
        search = searches()[name]()
        arms = [arm for arm in search.arms if _has_run(table, arm.label)]
        if arms:
            found.append(standing(table, arms, draw_settings(search.space, SETTINGS)))
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame()


def _has_run(table: pd.DataFrame, label: str) -> bool:
    ended = table[table["split"] == "run"]["label"].astype(str)
    return bool(ended.str.startswith(f"{label} | ").any())


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the ranking.

    Args:
        arguments: Those of the command line; the process's by default.

    Returns:
        The exit code.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("studies", type=Path, nargs="+", help="folders or tables of the studies")
    parser.add_argument("--csv", type=Path, required=True, help="where the ranking goes")
    asked = parser.parse_args(arguments)
    table = ranking(merge(read_study_table(path) for path in asked.studies))
    asked.csv.write_text(table.to_csv(index=False), encoding="utf-8")
    for arm, rows in table.groupby("arm", sort=False):
        best = rows.iloc[0]
        sys.stdout.write(
            f"{arm}: {best['solved']} of {best['seeds']} solved, {best['stages']:g} stages: "
            f"{best['setting']}\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
