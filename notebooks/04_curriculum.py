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
# # Curriculum: does looping help a model to track a state, and how would one know?
#
# Words over the group S3: after every token the model names the product so far. A run climbs the
# stages of the task, each until it is solved and confirmed on other instances, and reads the test
# split once. Every score stands beside what can be had without solving the task.

# %%
# %matplotlib inline
from pathlib import Path

import pandas as pd

import tasks
from lt2theory.experiments.explorations import committed_study, is_fast, run_folder, stage_table
from lt2theory.experiments.recipes import recipes
from lt2theory.experiments.study_figures import reached
from lt2theory.report import learning_curves, length_generalisation, readable
from lt2theory.report.views import accuracies, constant_floors, floors, training_curves
from lt2theory.runs import RunFolder, TerminalProgress, run_table
from lt2theory.training import CurriculumConfig, resolve, run_curriculum

FAST = is_fast()  # LT2_NOTEBOOKS=fast
RUNS = Path("../runs")

# %% [markdown]
# ## The task

# %%
task = tasks.create("group_word", group="S3")
batch = task.batch(stage=8, split="train", seed=0, index=0, size=2)
batch.inputs, batch.targets

# %%
readable(pd.Series(task.floors(16), name="accuracy"))

# %% [markdown]
# ## A run of about a minute
#
# A recipe is a function that returns a complete configuration. What differs from the defaults is
# shown; the rest is folded away.

# %%
small = {"step_budget": 20, "evaluation_size": 64, "confirmation_size": 64, "test_size": 64}
settings = recipes()["s3"]().model_dump() | (small if FAST else {})
# An experiment of your own begins here, such as:
# settings |= {"label": "A4", "task": {"name": "group_word", "knobs": {"group": "A4"}}}
# settings["model"] |= {"pattern": "kda", "num_loops": 3}
config = resolve(CurriculumConfig.model_validate(settings))
config

# %% [markdown]
# The folder is named after the configuration: the same configuration again says "done before",
# and one that was interrupted goes on.

# %%
folder = run_folder(config, RUNS)
summary = run_curriculum(config, folder, progress=TerminalProgress())
summary

# %%
table = run_table(RunFolder.open(folder))
learning_curves(training_curves(table), floors=constant_floors(table), pass_mark=config.pass_mark)

# %% [markdown]
# ## Beyond the length of training

# %%
length_generalisation(
    accuracies(table).rename(columns={"stage": "length"}),
    floors=floors(table).rename(columns={"stage": "length"}),
    training_length=max(config.stages),
)

# %% [markdown]
# ## The committed study
#
# Many families, loops and seeds, with predictions that were registered before (docs/study.md).
# Where results/study.parquet is not there yet the table is empty.

# %%
study = committed_study(Path("../results/study.parquet"))
readable(stage_table(study))

# %%
reached(study)

# %% [markdown]
# ## What to try next
#
# - `recipes()["s3-rescan"]`, `recipes()["s3-one-loop"]`: the other arms, tuned with equal effort.
# - The lines that begin with `# settings`, without their mark: another group, mixer, number of
#   loops. Give a label too, which names the curve.
# - `lt2 analyze RUN` on the folder: ranks by group element, and the representation that was found.
# - Notebook 05 opens the same run and asks how much of its state it uses.
