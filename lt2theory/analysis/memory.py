"""What the matrix states of a trained model hold: their rank, and how well pairs are recalled.

A pair is one factor's key and value; under `accumulate` a token stores one for each loop so far.
An mLSTM's state is its memory C, before the normaliser and without the stabiliser's scale.
"""

from typing import get_args

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from lt2theory.analysis.rank import RankKind, effective_rank, numerical_rank
from lt2theory.analysis.received import received_factors, states_over_time
from lt2theory.models import LoopTrace


def state_rank(
    trace: LoopTrace, *, every: int = 1, rank_tol: float = 1e-8, backend: str = "auto"
) -> pd.DataFrame:
    """Rank, effective rank and size of every matrix state over time.

    From an empty state the rank is at most `min(F t, d_k, d_v)` with F writes a token (theory M5);
    the effective rank is the "state resolution" that arXiv 2504.14366 asks for.

    Args:
        trace: What `LoopedModel.trace(tokens)` returned for one unbroken stream.
        every: Tokens between two measurements; the last token is always measured.
        rank_tol: Relative tolerance of the column `rank`.
        backend: Backend that runs the recurrence, in float64.

    Returns:
        One row for each layer, loop, head, batch row and measured token: `num_tokens` and
        `num_pairs` (read so far, itself included), `rank`, `bound`, `<kind>_rank` for every kind
        of `effective_rank`, `largest` singular value and Frobenius `norm`.

    Raises:
        ValueError: If `every` or `rank_tol` is out of range, or no layer has a recurrence.
    """
    tables = []
    for layer, loop, factors in received_factors(trace):
        for num_tokens, state in states_over_time(factors, every=every, backend=backend):
            values = torch.linalg.svdvals(state)
            num_pairs = num_tokens * factors.num_factors
            columns = {
                "rank": numerical_rank(values, rank_tol),
                **{f"{kind}_rank": effective_rank(values, kind) for kind in get_args(RankKind)},
                "largest": values.amax(-1),
                "norm": values.square().sum(-1).sqrt(),
            }
            frame = _rows(columns)
            frame.insert(0, "num_pairs", num_pairs)
            frame.insert(0, "num_tokens", num_tokens)
            bound = min(num_pairs, *state.shape[-2:])
            tables.append(frame.assign(layer=layer, loop=loop, bound=bound))
    return _concatenate(tables)


def retrieval_snr(trace: LoopTrace, *, every: int = 1, backend: str = "auto") -> pd.DataFrame:
    """Signal and noise of reading every stored pair back by its own key.

    The state S after t tokens, read with the key of an earlier pair, gives `S^T k_j = c v_j + e`
    with e orthogonal to v_j; a pair written once and never disturbed has `c = w |k_j|^2`. For
    linear attention with independent mean-zero unit keys the noise energy is the sum of the other
    values' energies over d_k (theory M1); a decay gamma forgets like `gamma^age` (M4).

    Args:
        trace: What `LoopedModel.trace(tokens)` returned for one unbroken stream.
        every: Tokens between two measurements; the last token is always measured.
        backend: Backend that runs the recurrence, in float64.

    Returns:
        One row for each layer, loop, head, measured token and age in pairs (0 is the newest):
        `num_tokens`, `num_pairs`, `age`, `recall` (batch mean of c), `signal` and `noise` (batch
        means of `c^2 |v_j|^2` and `|e|^2`), and `snr`, their ratio (infinite without noise, NaN
        without either).

    Raises:
        ValueError: If `every` is below 1, or no layer has a recurrence.
    """
    tables = []
    for layer, loop, factors in received_factors(trace):
        for num_tokens, state in states_over_time(factors, every=every, backend=backend):
            keys = factors.k[:, :num_tokens].flatten(1, 2).transpose(1, 2).flip(2)
            values = factors.v[:, :num_tokens].flatten(1, 2).transpose(1, 2).flip(2)
            read = keys @ state
            energy = values.square().sum(-1)
            overlap = (read * values).sum(-1)
            recall = torch.where(energy > 0, overlap / energy, torch.zeros_like(energy))
            noise = (read - recall[..., None] * values).square().sum(-1)
            columns = {"recall": recall, "signal": recall.square() * energy, "noise": noise}
            means = {name: x.mean(0).cpu().numpy() for name, x in columns.items()}
            head, age = np.indices(means["recall"].shape).reshape(2, -1)
            frame = pd.DataFrame({"head": head, "num_tokens": num_tokens, "age": age})
            frame["num_pairs"] = num_tokens * factors.num_factors
            frame = frame.assign(**{name: x.ravel() for name, x in means.items()})
            tables.append(frame.assign(layer=layer, loop=loop))
    table = _concatenate(tables)
    with np.errstate(divide="ignore", invalid="ignore"):
        return table.assign(snr=table["signal"].to_numpy() / table["noise"].to_numpy())


def recall_horizon(table: pd.DataFrame, *, least_snr: float | int = 1) -> pd.DataFrame:
    """Pairs that can be read back before the signal-to-noise ratio first falls below a level.

    Args:
        table: From `retrieval_snr`.
        least_snr: Level, positive.

    Returns:
        One row for each layer, loop, head and measured token: `num_tokens`, `num_pairs`, `horizon`
        (how many of the newest pairs all reach the level) and `snr` (of all stored pairs
        together: total signal over total noise).

    Raises:
        ValueError: If `least_snr` is not positive.
    """
    if not least_snr > 0:
        raise ValueError(f"least_snr: {least_snr} is not allowed (must be > 0)")
    keys = ["layer", "loop", "head", "num_tokens", "num_pairs"]
    ordered = table.sort_values([*keys, "age"])
    held = (ordered["snr"] >= least_snr).groupby([ordered[key] for key in keys]).cummin()
    grouped = ordered.assign(horizon=held.astype(int)).groupby(keys)
    sums = grouped[["horizon", "signal", "noise"]].sum().reset_index()
    with np.errstate(divide="ignore", invalid="ignore"):
        snr = sums["signal"].to_numpy() / sums["noise"].to_numpy()
    return sums[[*keys, "horizon"]].assign(snr=snr)


def _rows(columns: dict[str, Tensor]) -> pd.DataFrame:
    """Return a table of columns `[b h]`, one row for each entry."""
    shape = next(iter(columns.values())).shape
    batch, head = np.indices(tuple(shape)).reshape(2, -1)
    return pd.DataFrame(
        {"batch": batch, "head": head}
        | {name: x.cpu().numpy().ravel() for name, x in columns.items()}
    )


def _concatenate(tables: list[pd.DataFrame]) -> pd.DataFrame:
    """Return all tables as one, place and time first.

    Raises:
        ValueError: If there is none.
    """
    if not tables:
        raise ValueError("trace: no layer has a recurrence (must have at least one linear mixer)")
    table = pd.concat(tables, ignore_index=True)
    first = ["layer", "loop", "head", "num_tokens", "num_pairs"]
    return table[first + [name for name in table if name not in first]]
