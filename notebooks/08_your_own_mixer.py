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
# # Your own mixer: does an idea fit the house, and does it learn?
#
# A mixer says how a token becomes the factors of a recurrence, and how what is read becomes an
# output. Written once, it has a cache, loops, analysers, checks and a curriculum. This one is
# DeltaNet that also forgets at a constant rate, each head at its own.

# %%
# %matplotlib inline
from dataclasses import replace
from pathlib import Path

import torch

from lt2theory.analysis import check_mixer, loop_transitions
from lt2theory.experiments.explorations import is_fast, run_folder
from lt2theory.experiments.recipes import recipes
from lt2theory.mixers import DeltaNet, register_mixer
from lt2theory.models import LoopedConfig, LoopedModel, presets
from lt2theory.report import effective_rank_by_loops, effective_ranks, learning_curves, readable
from lt2theory.report.views import constant_floors, training_curves
from lt2theory.runs import RunFolder, run_table
from lt2theory.training import CurriculumConfig, resolve, run_curriculum
from proofs_checks.runner import outcome_table, run_on_mixer

FAST = is_fast()  # LT2_NOTEBOOKS=fast

# %% [markdown]
# ## The mixer
#
# `prepare` returns `Factors`; the recurrence does the rest. `log_decay` is one number a head and
# token.


# %%
class LeakyDelta(DeltaNet):
    """`S_t = (I - beta k k^T) alpha S_{t-1} + beta k v^T`, with a constant alpha a head."""

    def prepare(self, x, stream, slot=None):
        factors = super().prepare(x, stream, slot)
        rates = -(2.0 ** -torch.arange(3, 3 + self.options.num_heads, device=x.device))
        return replace(factors, log_decay=rates.to(factors.beta).expand_as(factors.beta))


register_mixer("leaky_delta", LeakyDelta)
presets()["toy-leaky_delta"]

# %% [markdown]
# ## Does it do what every mixer must?
#
# The columns of docs/conformance.md, measured in float64: a state that is not in the cache, a
# look ahead or a leak between documents shows here.

# %%
readable(check_mixer("leaky_delta"))

# %% [markdown]
# ## What does the ledger say of it?
#
# C3: its decoding memory does not grow. R8 says that a mixer which does not erase gains no rank;
# this one erases, so that R8 must be refuted for it.

# %%
readable(outcome_table(run_on_mixer("leaky_delta", fast=True)))

# %% [markdown]
# ## Its transitions

# %%
config = LoopedConfig(pattern="leaky_delta", num_loops=2 if FAST else 4, loop_state="accumulate")
model = LoopedModel(config, generator=torch.Generator().manual_seed(0))
trace = model.trace(torch.randint(256, (2, 16), generator=torch.Generator().manual_seed(1)))
effective_rank_by_loops(effective_ranks(loop_transitions(trace), "leaky_delta"))

# %% [markdown]
# ## Does it learn?
#
# Parity, which a delta rule with beta up to 2 solves at any length. Will the leak let it?

# %%
small = {
    "min_steps": 0,
    "step_budget": 20,
    "evaluation_size": 64,
    "confirmation_size": 64,
    "test_size": 64,
}
settings = recipes()["parity"]().model_dump() | (small if FAST else {}) | {"label": "leaky_delta"}
settings["model"] |= {"pattern": "leaky_delta"}
config = resolve(CurriculumConfig.model_validate(settings))
folder = run_folder(config, Path("../runs"))
run_curriculum(config, folder)

# %%
table = run_table(RunFolder.open(folder))
learning_curves(training_curves(table), floors=constant_floors(table), pass_mark=config.pass_mark)

# %% [markdown]
# ## What to try next
#
# - Rates from data: a `torch.nn.Linear` in `__init__`, its output through `logsigmoid`.
# - Break it on purpose (`factors.k.roll(-1, 1)`) and run the check again: causality goes first.
# - Compare with `pattern="deltanet"` and `"gdn"` on three seeds before believing a difference.
# - To keep it: one file, one line and one test (CONTRIBUTING.md).
