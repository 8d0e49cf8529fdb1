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
# # Receptive field: how far back does a looped window see, and how much of it matters?
#
# N layers of windows of w tokens, looped T times, can read N T (w - 1) + 1 tokens. Being able to
# read a token is not being influenced by it: how much of the influence lies within which
# distance? LT2 (arXiv 2605.20670) says "about 1.5 w, whatever T". Is that so?

# %%
# %matplotlib inline
import torch

from lt2theory.analysis import (
    fitted_residual,
    influence_by_loops,
    law_by_loops,
    reach,
    reach_by_loops,
)
from lt2theory.experiments.explorations import (
    explore,
    influence_quantiles,
    is_fast,
    window_influence,
)
from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.report import influence_map, readable
from proofs_checks.runner import outcome_table, run, select

FAST = is_fast()  # LT2_NOTEBOOKS=fast

# %% [markdown]
# ## The law
#
# With residual weight a, the influence after K = N T layers is a power of one polynomial (W3).
# The sliders change the window, the residual and the loops.

# %%
explore(window_influence, window=(2, 64), residual=(0.0, 0.99, 0.01), loops=(1, 32))

# %%
[reach(1, loops, 16) for loops in (1, 2, 4, 8)]

# %% [markdown]
# ## "About 1.5 w"
#
# At w = 100 and a = 0.95 the claim holds up to 8 layers in a row and no longer from 9 on (W4):
# the distance that holds 99 % grows with the number of hops.

# %%
readable(influence_quantiles(window=100, residual=0.95))

# %% [markdown]
# ## Measured on a model
#
# The Jacobian of a window model, loop by loop, in float64. White is exactly zero: the edge is
# W1's.

# %%
WINDOW, LOOPS, LENGTH = 4, (2 if FAST else 4), (10 if FAST else 20)
config = LoopedConfig(
    pattern="window",
    window=WINDOW,
    num_layers=1,
    num_loops=LOOPS,
    width=16,
    num_heads=2,
    init_std=0.3,
)
model = LoopedModel(config, generator=torch.Generator().manual_seed(0)).double()
tokens = torch.randint(256, (2, LENGTH), generator=torch.Generator().manual_seed(1))
influence = influence_by_loops(model, tokens, LENGTH - 1)
reached = reach_by_loops([WINDOW], range(1, LOOPS + 1), num_tokens=LENGTH)
readable(reached)

# %%
last = influence.query("loops_done == @LOOPS")
residual = fitted_residual(last["share"].to_numpy(), WINDOW, LOOPS)
law = law_by_loops(WINDOW, 1, residual, range(1, LOOPS + 1), num_tokens=LENGTH)
influence_map(
    influence.rename(columns={"share": "value"}),
    reach=reached,
    law=law.rename(columns={"share": "value"}),
)

# %% [markdown]
# The law has one free number, the residual weight; here it is the one with the measured mean
# distance.

# %%
round(residual, 4)

# %% [markdown]
# ## The claims behind it

# %%
outcomes = run(select(["W1", "W3", "W4"] if FAST else ["W"]), fast=True)
readable(outcome_table(outcomes))

# %%
run(select(["W4"]), fast=True)[0].record

# %% [markdown]
# ## What to try next
#
# - `conv_width=4` beside `pattern="gdn,window"`: one linear layer makes the reach unbounded (W2).
# - `pattern="window(8)->window(4)"`: windows that narrow from loop to loop.
# - `lt2 curriculum run distance-probe`: a model trained up to its reach, and one token beyond.
