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
# # Stability: what do more loops do to the sizes inside a model?
#
# The same blocks run T times on their own output. Does the residual stream grow from loop to
# loop, do gradients, and does the first token draw the attention? No factor of a delta rule
# expands a state (S1), but that alone does not bound what is written to it (M6).

# %%
# %matplotlib inline
import torch

from lt2theory.analysis import block_rms, first_token_mass, loop_gradients, residual_rms
from lt2theory.experiments.explorations import is_fast
from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.report import readable, saw_tooth
from proofs_checks.runner import outcome_table, run, select

FAST = is_fast()  # LT2_NOTEBOOKS=fast
LOOPS, LENGTH = (2, 12) if FAST else (6, 32)

# %%
# Weights ten times those of the usual start, as if training had made them large.
config = LoopedConfig(pattern="gdn,full", num_layers=2, num_loops=LOOPS, init_std=0.2)
model = LoopedModel(config, generator=torch.Generator().manual_seed(0))
tokens = torch.randint(256, (4, LENGTH), generator=torch.Generator().manual_seed(1))
trace = model.trace(tokens)
config

# %% [markdown]
# ## The saw-tooth
#
# Size of the residual stream after every block of every loop, and the share of the weights that
# falls on the first token.

# %%
saw_tooth(block_rms(trace), first_token_mass(trace))

# %%
readable(residual_rms(trace).groupby("loops_done")[["rms", "update_rms"]].median())

# %% [markdown]
# ## With Ouro's norms
#
# A norm behind every sub-layer and between the loops holds the stream where it was.

# %%
normed = LoopedConfig(
    pattern="gdn,full", num_layers=2, num_loops=LOOPS, sandwich_norm=True, norm_between_loops=True
)
calm = LoopedModel(normed, generator=torch.Generator().manual_seed(0)).trace(tokens)
saw_tooth(block_rms(calm), first_token_mass(calm))

# %% [markdown]
# ## Gradients, loop by loop
#
# The weights are shared, so that their gradient is a sum over the loops: which loop does it come
# from?

# %%
gradients = loop_gradients(model.double(), tokens, lambda trace: trace.logits.logsumexp(-1).mean())
readable(gradients.by_loop())

# %%
readable(gradients.by_state())

# %% [markdown]
# ## The claims behind it

# %%
readable(outcome_table(run(select(["S1", "S3"] if FAST else ["S", "M6", "G"]), fast=True)))

# %% [markdown]
# ## What to try next
#
# - `output_gate=True`: a gate behind attention lets a sink keep its weight and add little (G1).
# - `loop_gate=False`: without the loop residual rho.
# - `num_loops=24`: where does the size settle?
# - `lt2 train --stability.measure-every 100`: the same instruments during a training run on text.
