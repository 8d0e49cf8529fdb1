"""The tables of an analysis: every analyser on one model, with work bounded at any length."""

from typing import Any

import pandas as pd
import torch
from torch import Tensor
from torch.nn import functional as F

from lt2theory.analysis import (
    block_rms,
    carried_by_element,
    first_token_mass,
    fitted_residual,
    gated_first_token_mass,
    influence_by_loops,
    law_by_loops,
    loop_gradients,
    loop_spectrum,
    loop_transitions,
    reach_by_loops,
    representations_carried,
    state_rank,
    windows_of,
)
from lt2theory.experiments.analysis_codes import group_tables
from lt2theory.models import LoopedModel, LoopTrace
from lt2theory.ops.factors import Factors
from tasks import Batch, Task
from tasks.group_word import GroupWord

# Work that grows faster than the number of tokens is done on so many of them only.
TRACED_TOKENS = 1 << 12
"""Tokens of the traced instances."""
DENSE_WEIGHTS = 1 << 19
"""Entries of the query-by-token weights of one head, over all its instances."""
JACOBIAN_TOKENS = 1 << 12
"""Tokens of all vector-Jacobian products behind one influence, but at least 4 products."""
SPECTRUM_TOKENS = 1 << 11
"""Tokens whose transitions are composed, over all instances."""
MOST_LOOPS = 6
"""Numbers of loops of an influence map."""
TIMES = 16
"""Moments at which a state's rank is taken."""


def measure(
    model: LoopedModel, task: Task | None, batch: Batch, *, seed: int = 0
) -> dict[str, pd.DataFrame]:
    """All tables about one model.

    Args:
        model: The model, in float64.
        task: Its task; None for text.
        batch: Held-out instances.
        seed: Seed of random probes.

    Returns:
        Table name -> table. `transitions`, `spectrum` and `states` are there for models with a
        recurrence only, `elements`, `representations` and those of `group_tables` for word
        problems alone, `reach` and `law` for windows.
    """
    tokens = torch.from_numpy(batch.inputs)
    with torch.no_grad():
        trace = model.trace(tokens[: _at_most(TRACED_TOKENS // tokens.shape[1], len(tokens))])
    tables = {"residuals": block_rms(trace), "first_token": _first_token(model, trace)}
    if any(isinstance(one, Factors) for one in trace.factors.values()):
        length = tokens.shape[1]
        rows = _at_most(SPECTRUM_TOKENS // length, len(tokens))
        some = first_rows(trace, rows)
        tables["transitions"] = loop_transitions(some)
        tables["spectrum"] = loop_spectrum(some)
        tables["states"] = state_rank(some, every=max(1, length // TIMES))
        if isinstance(task, GroupWord):
            tables |= _word_problem(tables["transitions"], tokens[:rows], task, trace)
            tables |= group_tables(model, task, length, seed=seed)
    tables |= _influence(model, tokens, seed)
    tables |= _gradients(model, tokens, batch)
    return tables


def first_rows(trace: LoopTrace, count: int) -> LoopTrace:
    """The trace of the first instances alone.

    Args:
        trace: A trace.
        count: How many of its batch rows are kept.

    Returns:
        Views into the same tensors.
    """

    def cut(prepared: Any) -> Any:
        fields = {
            name: value[:count] if isinstance(value, Tensor) and name != "skip" else value
            for name, value in vars(prepared).items()  # skip has no batch axis
        }
        return type(prepared)(**fields)

    return LoopTrace(
        trace.config,
        trace.tokens[:count],
        trace.logits[:count],
        tuple(state[:count] for state in trace.states),
        {place: cut(prepared) for place, prepared in trace.factors.items()},
        {place: h[:count] for place, h in trace.residuals.items()},
    )


def _at_most(wanted: int, available: int) -> int:
    return max(1, min(wanted, available))


def _first_token(model: LoopedModel, trace: LoopTrace) -> pd.DataFrame:
    """First-token mass, and behind an output gate where there is one."""
    size, length = trace.tokens.shape
    trace = first_rows(trace, _at_most(DENSE_WEIGHTS // length**2, size))
    first = min(1, length - 1)
    table = first_token_mass(trace, first_query=first)
    gated = gated_first_token_mass(model, trace, first_query=first)
    columns = ["layer", "loop", "head"]
    if gated.empty or not model.config.output_gate:
        return table.assign(passed=float("nan"), gate=float("nan"))
    return table.merge(gated.drop(columns="mass"), on=columns, how="left")


def _word_problem(
    transitions: pd.DataFrame, tokens: Tensor, task: GroupWord, trace: LoopTrace
) -> dict[str, pd.DataFrame]:
    """Ranks by group element, and the nearest representations, after all loops."""
    last = transitions[transitions["num_loops"] == trace.config.num_loops]
    carried = representations_carried(last, tokens, task.token_names)
    return {
        "elements": carried_by_element(last, tokens, task.token_names),
        "representations": pd.DataFrame([vars(one) for one in carried]),
    }


def _influence(model: LoopedModel, tokens: Tensor, seed: int) -> dict[str, pd.DataFrame]:
    """Influence on the last position after some numbers of loops; reach and law for windows."""
    length, width = tokens.shape[1], model.config.width
    exact = length * width <= JACOBIAN_TOKENS
    products = width if exact else min(width, max(4, JACOBIAN_TOKENS // (2 * length)))
    rows = _at_most(JACOBIAN_TOKENS // (length * products), len(tokens))
    loops = shown_loops(model.config.num_loops)
    table = influence_by_loops(
        model,
        tokens[:rows],
        length - 1,
        loops=loops,
        num_probes=None if exact else products,
        generator=None if exact else torch.Generator().manual_seed(seed),
    )
    table = table.assign(instances=rows, vector_jacobian_products=products, exact=exact)
    found = {"influence": table}
    windows = windows_of(model.config)
    if windows is None:
        return found
    found["reach"] = reach_by_loops(windows, loops, num_tokens=length)
    if len(set(windows)) == 1 and windows[0] > 1:
        share = table.loc[table["loops_done"] == loops[-1], "share"].to_numpy()
        applications = len(windows) * loops[-1]
        residual = fitted_residual(share, windows[0], applications)
        law = law_by_loops(windows[0], len(windows), residual, loops, num_tokens=length)
        whole = applications * (windows[0] - 1) < length
        found["law"] = law.assign(residual=residual, away_from_start=whole)
    return found


def shown_loops(num_loops: int) -> list[int]:
    """Numbers of loops that an influence map shows.

    Args:
        num_loops: Loops T of the model.

    Returns:
        1 .. T, or fewer, spread evenly on a logarithmic scale with both ends.
    """
    if num_loops <= MOST_LOOPS:
        return list(range(1, num_loops + 1))
    ratio = num_loops ** (1 / (MOST_LOOPS - 1))
    return sorted({round(ratio**step) for step in range(MOST_LOOPS)})


def _gradients(model: LoopedModel, tokens: Tensor, batch: Batch) -> dict[str, pd.DataFrame]:
    """Gradients of the task's loss, loop by loop."""
    rows = _at_most(SPECTRUM_TOKENS // tokens.shape[1], len(tokens))
    mask = torch.from_numpy(batch.mask[:rows])
    targets = torch.from_numpy(batch.targets[:rows])[mask]

    def loss(trace: LoopTrace) -> Tensor:
        return F.cross_entropy(trace.logits[mask], targets)

    found = loop_gradients(model, tokens[:rows], loss)
    return {"weight_gradients": found.by_loop(), "state_gradients": found.by_state()}
