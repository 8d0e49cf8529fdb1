"""What `lt2theory.analysis` measured, in the columns that figures ask for."""

import numpy as np
import pandas as pd
from jaxtyping import Float

from lt2theory.report.frames import require_columns


def effective_ranks(table: pd.DataFrame, label: str, kind: str = "entropy") -> pd.DataFrame:
    """Effective ranks of one model's transitions, for `effective_rank_by_loops`.

    Args:
        table: As `lt2theory.analysis.loop_transitions` makes it.
        label: Name of the arm.
        kind: Definition of effective rank; the orthogonal ideal exists for `entropy` alone.

    Returns:
        One row a token, layer, head and number of loops: `label`, `num_loops`, `value`, and `ideal`
        where it exists.
    """
    require_columns(table, ["num_loops", f"{kind}_rank"], "effective ranks")
    found = pd.DataFrame(
        {
            "label": label,
            "num_loops": table["num_loops"],
            "value": table[f"{kind}_rank"],
        }
    )
    if kind == "entropy" and "ideal_entropy_rank" in table.columns:
        found["ideal"] = table["ideal_entropy_rank"]
    return found.reset_index(drop=True)


def influence_curve(influence: Float[np.ndarray, "t"], label: str) -> pd.DataFrame:
    """Influence by distance, measured or predicted, for `influence_by_distance`.

    Args:
        influence: Influence at distance 0, 1, ..., such as the `share` of a measured influence or
            `lt2theory.analysis.influence_law`; both sum to 1 and can share a figure.
        label: Name of the arm.

    Returns:
        `label`, `distance`, `value`.
    """
    distances = np.arange(len(influence))
    return pd.DataFrame({"label": label, "distance": distances, "value": influence})
