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
# # Rank expansion: what do T loops do to a state that one cannot?
#
# A linear mixer changes its state by `diag(decay) - (one column)`: a gate and a correction of
# rank one. T loops on one state compose T of them. Does the correction then have rank T, and if
# so, are the T directions of any size?
#
# Move the sliders (they appear where a kernel is live): the number of loops, the cosine between
# the loops' keys, the erase strength beta and the decay.

# %%
# %matplotlib inline
import torch

from lt2theory.analysis import (
    DPLROperator,
    compose_factors,
    designed_transitions,
    loop_spectrum,
    loop_transitions,
)
from lt2theory.experiments.explorations import explore, is_fast, rank_expansion
from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.report import (
    effective_rank_by_loops,
    effective_ranks,
    readable,
    spectrum_by_loops,
)
from proofs_checks.runner import outcome_table, run, select

FAST = is_fast()  # LT2_NOTEBOOKS=fast

# %%
explore(
    rank_expansion,
    num_loops=(1, 8),
    coherence=(0.0, 1.0, 0.05),
    beta=(0.0, 2.0, 0.1),
    decay=(0.1, 1.0, 0.05),
)

# %% [markdown]
# Left, each singular value of the correction `prod D - A_T ... A_1`; right, how many of them
# count. Orthogonal keys (diamonds) give T equal values (R3). The more alike the keys, the more of
# the spectrum is in one value, though the exact rank stays T (R4). At cosine 1 nothing is gained
# (R5).

# %%
rank_expansion(coherence=0.9)

# %%
rank_expansion(coherence=0.0, beta=2.0)

# %% [markdown]
# ## One operator in hand
#
# `DPLROperator` is `diag(diagonal) - left right^T`. Composing adds columns and drops nothing.

# %%
keys = torch.eye(4, dtype=torch.float64)[:3]
betas = torch.tensor([1.0, 0.5, 2.0], dtype=torch.float64)
compose_factors(keys, betas)

# %%
one = DPLROperator.from_factor(keys[0], betas[2])
one.compose(one)  # a reflection twice: rank 0

# %%
readable(designed_transitions(3, coherence=0.5))

# %% [markdown]
# ## A looped model's own factors
#
# Under `accumulate` the product acts on one state; what a model gains depends on how different
# the keys of its loops are. In this one, which is not trained, a loop changes the residual stream
# so little that its keys are almost the same (`key_coherence`): rank T, and an effective rank of
# 1.

# %%
config = LoopedConfig(pattern="gdn", num_loops=2 if FAST else 4, loop_state="accumulate")
config

# %%
model = LoopedModel(config, generator=torch.Generator().manual_seed(0))
trace = model.trace(torch.randint(256, (2, 16), generator=torch.Generator().manual_seed(1)))
transitions = loop_transitions(trace)
told = ["rank", "entropy_rank", "ideal_entropy_rank", "key_coherence"]
readable(transitions.groupby("num_loops")[told].mean())

# %%
spectrum_by_loops(loop_spectrum(trace))

# %%
effective_rank_by_loops(effective_ranks(transitions, "gdn, not trained"))

# %% [markdown]
# ## The claims behind it
#
# R1 to R8 of docs/theory.md, checked here and now. A claim that its source puts wrongly is
# `refuted_as_stated`, with its smallest counter-example.

# %%
outcomes = run(
    select(
        ["R2", "R3", "R4", "R6", "R7"] if FAST else ["R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8"]
    ),
    fast=True,
)
readable(outcome_table(outcomes))

# %%
outcomes[0].record

# %% [markdown]
# ## What to try next
#
# - `loop_state="rescan"` in the config: the table then says that the product acts on no state (L1).
# - `negative_eigenvalues=True`: beta up to 2, so that loops can reflect.
# - The same two figures of a trained model: notebook 04 trains one, `lt2 analyze RUN` measures it.
# - Notebook 03: what `rescan` and `accumulate` do with these transitions.
