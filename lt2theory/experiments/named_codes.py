"""Which representations the models of a study found, seed by seed."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from lt2theory.analysis import named_codes
from lt2theory.analysis.characters import STANDARD
from lt2theory.experiments.analysis_codes import group_tables
from lt2theory.training import load_model
from tasks.group_word import GroupWord


def found_codes(folder: Path, length: int) -> pd.DataFrame:
    """What a trained model's states carry of the running product.

    Args:
        folder: Folder of a run on a word problem.
        length: Tokens of a word.

    Returns:
        One row a component that a head holds, as `named_codes` makes it, with `rank_off` and
        `whole_off`, the mean over elements of |effective rank - rank(I - rho(g))| on the code's
        key directions and over all. No rows where nothing is held.

    Raises:
        ValueError: The run's task is no word problem.
    """
    model, config = load_model(folder)
    task = config.task.create()
    if not isinstance(task, GroupWord):
        raise ValueError(f"task of {folder}: {task.name} is not allowed (must be group_word)")
    tables = group_tables(model.double(), task, length)
    if "group_codes" not in tables:
        return pd.DataFrame()
    elements = tables["group_elements"]
    off = pd.DataFrame(
        {
            name: (elements[column] - elements["reference"]).abs()
            for name, column in (("rank_off", "rank_mean"), ("whole_off", "whole_rank"))
        }
    )
    by_component = off.groupby(elements["component"]).mean()
    return named_codes(tables["group_codes"]).join(by_component, on="component")


def said_of_codes(found: Mapping[int, pd.DataFrame], label: str) -> str:
    """One sentence about all seeds.

    Args:
        found: Seed -> what `found_codes` returned.
        label: The arm.

    Returns:
        How many models carry which representation, and the ranks of the largest one.
    """
    rows = [frame[frame["kind"] == "representation"] for frame in found.values() if len(frame)]
    carried = pd.concat(rows) if rows else pd.DataFrame()
    if carried.empty:
        return f"{label}: no representation is carried in any of the {len(found)} models."
    carried = carried[carried["dimension"] == carried["dimension"].max()]
    name = carried["component"].iloc[0]
    law = "n - cycles" if name == STANDARD else "rank(I - rho(g))"
    return (
        f"{label}: in {len(carried)} of {len(found)} models a head carries {name} as a linear "
        f"representation. The effective rank of I - A is {law} on its key directions, within "
        f"{carried['rank_off'].max():.2f} in the mean over elements in every model; over all key "
        f"directions, which the head changes too, it is off by {carried['whole_off'].min():.2f} "
        "at least."
    )


def code_table(found: Mapping[int, pd.DataFrame]) -> pd.DataFrame:
    """What every seed's model found, ready to show.

    Args:
        found: Seed -> what `found_codes` returned.

    Returns:
        One row a seed and component.
    """
    rows = []
    for seed, frame in found.items():
        for row in frame.to_dict("records"):
            rows.append(
                {
                    "seed": seed,
                    "representation": row["component"],
                    "kind": row["kind"],
                    "head": row["head"] + 1,
                    "after loop": row["loop"] + 1,
                    "key directions": f"{row['directions']} of {row['key_width']}",
                    "carried": f"{row['carried']:.2f} ± {row['carried_std']:.2f}",
                    "explained by the token": f"{row['by_token']:.3f}",
                    "rank off by": f"{row['rank_off']:.2f}",
                }
            )
    return pd.DataFrame(rows)
