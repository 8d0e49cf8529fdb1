"""What T loops did to a state: the transitions of a trained model, composed from its own factors.

The numbers come from the very factors that the op received. What they mean depends on the
loop-state semantics, so every row of every table says it (`meaning`, `acts_on_state`).
"""

from collections.abc import Mapping
from typing import get_args

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from lt2theory.analysis.composed_factors import ComposedFactors, composed_factors
from lt2theory.analysis.instruments import key_coherence
from lt2theory.analysis.rank import RankKind, effective_rank, numerical_rank
from lt2theory.models import LoopedConfig, LoopTrace

MEANINGS: Mapping[str, str] = {
    "single": "one loop: the transition itself, which acts on that loop's state",
    "accumulate": "accumulate (L2): the product of the loops' transitions acts on the state",
    "rescan": (
        "rescan (L1): a product of transitions of separate states; it acts on no single state "
        "and measures what the factors could do, not what they did"
    ),
}
"""What a composed transition is, under each loop-state semantics (theory L1, L2)."""


def loop_transitions(
    trace: LoopTrace, *, span: int = 1, rank_tol: float = 1e-8, absolute_tol: float = 0.1
) -> pd.DataFrame:
    """Rank and effective rank of every composed transition, relative to its gate baseline.

    The correction is `prod D - A_T ... A_1` (theory R1 to R14): without erasure it is exactly
    zero for every T (R8), and a rank against the identity would only measure the gates (R10).

    Args:
        trace: What `LoopedModel.trace(tokens)` returns.
        span: Tokens a span, as in `composed_factors`; over n tokens the rank is at most
            `min(n T, d_k)` (R11).
        rank_tol: Relative tolerance of the column `rank`.
        absolute_tol: Threshold of the column `absolute_rank`, in units of beta: every other rank
            ignores the scale of a spectrum, so that a nearly idle transition counts there as much
            as a reflection does.

    Returns:
        One row for each batch row, span, layer, head and number of loops, with

        - `batch`, `token` (first of the span), `span`, `layer`, `head`, `num_loops`,
          `num_factors`, `mixer_erases`, `loop_state`, `acts_on_state`, `meaning`;
        - `rank`, `absolute_rank`, `<kind>_rank` for every kind of `effective_rank`,
          `ideal_entropy_rank` (of the orthogonal ideal), `largest`, `norm` (Frobenius);
        - `key_coherence` and `mean_key_coherence`, largest and mean |cosine| between two
          different keys (NaN for one factor);
        - `beta`, and `beta_distance_0`, `_1`, `_2`: mean distance of beta from "no erasure",
          "projection" and "reflection" (NaN without erasure);
        - `decay`: geometric mean over channels of the product of all decays.

    Raises:
        ValueError: If `span`, `rank_tol` or `absolute_tol` is out of range, or no layer has a
            recurrence.
    """
    if not absolute_tol >= 0:
        raise ValueError(f"absolute_tol: {absolute_tol} is not allowed (must be >= 0)")
    tables = []
    for composed in composed_factors(trace, span=span):
        values = composed.spectrum()
        largest, mean = key_coherence(composed.keys)
        columns: dict[str, Tensor] = {
            "rank": numerical_rank(values, rank_tol),
            "absolute_rank": (values > absolute_tol).sum(-1),
            **{f"{kind}_rank": effective_rank(values, kind) for kind in get_args(RankKind)},
            "ideal_entropy_rank": effective_rank(composed.orthogonal_ideal()),
            "largest": values.amax(-1) if values.shape[-1] else values.sum(-1),
            "norm": values.square().sum(-1).sqrt(),
            "key_coherence": largest,
            "mean_key_coherence": mean,
            **_erase_strengths(composed),
        }
        tables.append(_label(_frame(columns), composed, span, trace.config))
    return _join_tables(tables)


def loop_spectrum(trace: LoopTrace, *, span: int = 1) -> pd.DataFrame:
    """Singular values of every correction beside the orthogonal ideal, in long form.

    Args:
        trace: What `LoopedModel.trace(tokens)` returns.
        span: Tokens a span, as in `composed_factors`.

    Returns:
        The labels of `loop_transitions` and `index` (0 is the largest), `singular_value`,
        `orthogonal_ideal`. Layers without erasure have no singular values and so no rows.

    Raises:
        ValueError: If `span` is out of range or no layer has a recurrence.
    """
    tables = []
    for composed in composed_factors(trace, span=span):
        columns = {
            "singular_value": composed.spectrum(),
            "orthogonal_ideal": composed.orthogonal_ideal(),
        }
        tables.append(_label(_frame(columns), composed, span, trace.config))
    return _join_tables(tables)


def _erase_strengths(composed: ComposedFactors) -> dict[str, Tensor]:
    """Return mean beta, its mean distances from 0, 1 and 2, and the overall decay."""
    shape, betas, decays = composed.keys.shape[:3], composed.betas, composed.log_decays
    nothing = torch.full(shape, torch.nan, dtype=composed.keys.dtype)
    columns = {"beta": nothing if betas is None else betas.mean(-1)}
    for value in (0, 1, 2):
        distance = nothing if betas is None else (betas - value).abs().mean(-1)
        columns[f"beta_distance_{value}"] = distance
    if decays is None:
        columns["decay"] = torch.ones_like(nothing)
    else:
        per_channel = decays.sum(3)
        mean = per_channel.mean(-1) if per_channel.ndim > len(shape) else per_channel
        columns["decay"] = mean.exp()
    return columns


def _frame(columns: dict[str, Tensor]) -> pd.DataFrame:
    """Return a table of columns `[b n h]` or `[b n h index]`, one row for each entry."""
    shape = next(iter(columns.values())).shape
    names = ("batch", "token", "head", "index")[: len(shape)]
    axes = np.indices(tuple(shape)).reshape(len(shape), -1)
    data = dict(zip(names, axes, strict=True))
    return pd.DataFrame(data | {name: x.cpu().numpy().ravel() for name, x in columns.items()})


def _label(
    frame: pd.DataFrame, composed: ComposedFactors, span: int, config: LoopedConfig
) -> pd.DataFrame:
    """Return the table with the columns that say what its numbers are."""
    meaning = "single" if composed.num_loops == 1 else config.loop_state
    labels = {
        "batch": frame["batch"],
        "token": frame["token"] * span,
        "span": span,
        "layer": composed.layer,
        "head": frame["head"],
        "num_loops": composed.num_loops,
        "num_factors": composed.keys.shape[-2],
        "mixer_erases": composed.betas is not None,
        "loop_state": config.loop_state,
        "acts_on_state": meaning != "rescan",
        "meaning": pd.Categorical([MEANINGS[meaning]] * len(frame), list(MEANINGS.values())),
    }
    return pd.DataFrame(labels | {name: frame[name] for name in frame if name not in labels})


def _join_tables(tables: list[pd.DataFrame]) -> pd.DataFrame:
    """Return all tables as one.

    Raises:
        ValueError: If there is none.
    """
    if not tables:
        raise ValueError("trace: no layer has a recurrence (must have at least one linear mixer)")
    return pd.concat(tables, ignore_index=True)
