# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Loop state: what should a linear mixer's state do in the second loop?
#
# It can be scanned afresh (`rescan`, as LT2's code does), or every token can apply the factors of
# all loops so far to one state (`accumulate`). Two further ways look natural; one of them leaks
# the future. What does each buy, and what does it cost?

# %%
# %matplotlib inline
import torch

from lt2theory.analysis import check_mixer, loop_transitions
from lt2theory.experiments.explorations import is_fast
from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.models.flops import factor_steps
from lt2theory.report import effective_rank_by_loops, effective_ranks, new_figure, readable
from proofs_checks.runner import outcome_table, run, select

FAST = is_fast()  # LT2_NOTEBOOKS=fast
LOOPS = 2 if FAST else 4

# %% [markdown]
# ## The same weights under both

# %%
rescan = LoopedConfig(pattern="deltanet", num_loops=LOOPS, loop_state="rescan")
accumulate = LoopedConfig(pattern="deltanet", num_loops=LOOPS, loop_state="accumulate")
accumulate

# %%
tokens = torch.randint(256, (2, 16), generator=torch.Generator().manual_seed(1))
one = LoopedModel(rescan, generator=torch.Generator().manual_seed(0))
other = LoopedModel(accumulate, generator=torch.Generator().manual_seed(0))
separate, joined = loop_transitions(one.trace(tokens)), loop_transitions(other.trace(tokens))

# %% [markdown]
# The tables say what their numbers mean: under `rescan` the product of the loops' transitions
# acts on no single state (L1), so its rank is what the factors could do and not what they did.

# %%
told = ["num_loops", "acts_on_state", "meaning"]
readable(separate.groupby(told, observed=True)["entropy_rank"].mean())

# %%
readable(joined.groupby(told, observed=True)["entropy_rank"].mean())

# %%
figure, (left, right) = new_figure(2, height=3.8, width=12.5)
effective_rank_by_loops(effective_ranks(separate, "rescan"), ax=left)
effective_rank_by_loops(effective_ranks(joined, "accumulate"), ax=right)

# %% [markdown]
# ## What it costs
#
# Factor steps a token: T under `rescan`, T (T + 1) / 2 under `accumulate` (L7).

# %%
factor_steps(rescan), factor_steps(accumulate)

# %% [markdown]
# ## Both stream exactly
#
# A cache is keyed by layer and loop. The properties that every mixer must have, measured in
# float64:

# %%
readable(check_mixer("deltanet"))

# %% [markdown]
# ## The leak
#
# `sequence_carry` starts loop 2 from the state that loop 1 ended with: every position then knows
# the whole text. `token_carry` agrees with `accumulate` at the last loop, and differs before
# (L4).

# %%
leak = run(select(["L3"]), fast=True)
leak[0].record

# %%
readable(outcome_table(run(select(["L3", "L4", "L7"] if FAST else ["L"]), fast=True)))

# %% [markdown]
# ## What to try next
#
# - `pattern="retnet"`: without erasure `accumulate` gains no rank (R8).
# - `pattern="gated_deltaproduct"`: several factors a token already in one loop.
# - Notebook 04 trains S3, which one loop of one layer does not solve here and `accumulate` does.
