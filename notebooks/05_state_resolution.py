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
# # State resolution: how much of its state does a mixer use, and for how long can it be read?
#
# A head's state is a matrix of d_k by d_v numbers. What has been written to it has at most as
# many directions as there were writes (M5), and what can be read back depends on how much the
# keys interfere (M1 to M4). arXiv 2504.14366 calls it state resolution.

# %%
# %matplotlib inline
from pathlib import Path

import pandas as pd
import torch

from lt2theory.analysis import recall_horizon, retrieval_snr, state_rank
from lt2theory.experiments.explorations import is_fast, run_folder
from lt2theory.experiments.named_codes import found_codes
from lt2theory.experiments.recipes import recipes
from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.report import readable, state_rank_over_time
from lt2theory.training import CurriculumConfig, resolve, run_curriculum
from proofs_checks.runner import outcome_table, run, select

FAST = is_fast()  # LT2_NOTEBOOKS=fast
LENGTH = 16 if FAST else 48

# %% [markdown]
# ## Three mixers before training
#
# Linear attention only adds; Gated DeltaNet forgets; DeltaNet erases what it overwrites.

# %%
tokens = torch.randint(256, (4, LENGTH), generator=torch.Generator().manual_seed(1))
adding = LoopedModel(
    LoopedConfig(pattern="linear_attention"), generator=torch.Generator().manual_seed(0)
).trace(tokens)
gated = LoopedModel(LoopedConfig(pattern="gdn"), generator=torch.Generator().manual_seed(0)).trace(
    tokens
)
erasing = LoopedModel(
    LoopedConfig(pattern="deltanet"), generator=torch.Generator().manual_seed(0)
).trace(tokens)

# %%
ranks = {
    "linear attention": state_rank(adding),
    "gdn": state_rank(gated),
    "deltanet": state_rank(erasing),
}
ranks = pd.concat(ranks, names=["label"]).reset_index("label")
state_rank_over_time(ranks)

# %% [markdown]
# ## How far back a pair can be read
#
# `horizon`: how many of the newest pairs all have more signal than noise when they are read by
# their own key.

# %%
snr = {
    "linear attention": retrieval_snr(adding),
    "gdn": retrieval_snr(gated),
    "deltanet": retrieval_snr(erasing),
}
horizons = pd.concat({name: recall_horizon(table) for name, table in snr.items()}, names=["label"])
readable(horizons.query("num_tokens == @LENGTH").groupby("label")[["horizon", "snr"]].median())

# %% [markdown]
# ## A trained state
#
# The run of notebook 04 (it is trained here if it is not there yet).

# %%
small = {"step_budget": 20, "evaluation_size": 64, "confirmation_size": 64, "test_size": 64}
config = recipes()["s3"]().model_dump() | (small if FAST else {})
config = resolve(CurriculumConfig.model_validate(config))
folder = run_folder(config, Path("../runs"))
run_curriculum(config, folder)

# %% [markdown]
# What its states hold of the running product, head by head: a representation of S3 is carried
# where the state moves with the product as the representation says. Empty where nothing is held,
# as after the few steps of the fast setting.

# %%
readable(found_codes(folder, 16))

# %% [markdown]
# ## The claims behind it

# %%
readable(outcome_table(run(select(["M2", "M5"] if FAST else ["M"]), fast=True)))

# %% [markdown]
# ## What to try next
#
# - `num_loops=4, loop_state="accumulate"`: four writes a token, which raise the bound of M5.
# - `pattern="kda"` or `decay_grain="channel"`: a decay a channel keeps some directions for longer.
# - Notebook 06: whether such states stay bounded.
