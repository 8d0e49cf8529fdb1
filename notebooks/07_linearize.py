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
# # Linearization: what does a linear student keep of its teacher, and which layers does it need?
#
# A softmax model (the teacher) becomes one with linear-time mixers (the student). Four questions:
# what is the student worth before training, what does training bring, which layers should keep
# softmax, and what can the student still not do?
#
# The teacher is a toy: a byte model of four layers and two loops, trained here on 54 kB for a
# minute (two layers and 20 steps in the fast setting, which teach it little more than how often
# letters occur). It shows how to ask; what holds of real models needs real ones
# (docs/linearization.md).

# %%
# %matplotlib inline
from pathlib import Path

import pandas as pd

from lt2theory.analysis import state_rank
from lt2theory.experiments.explorations import is_fast, run_folder
from lt2theory.linearize import (
    Recipe,
    SelectionConfig,
    Sources,
    axis_cases,
    load_student,
    load_teacher,
    recipe_a,
    run_recipe,
    select_layers,
    untrained_table,
)
from lt2theory.linearize.evaluation import EvaluationConfig, Pair, evaluate_pair
from lt2theory.linearize.texts import eval_tokens, train_tokens
from lt2theory.models import LoopedConfig
from lt2theory.report import readable, state_rank_over_time
from lt2theory.runs import TerminalProgress
from lt2theory.training import Runtime
from lt2theory.training.lm import Execution, LmConfig, LmOptimiserConfig, run_lm
from lt2theory.training.text import Corpus, CorpusConfig, prepare

FAST = is_fast()  # LT2_NOTEBOOKS=fast
RUNS = Path("../runs")
LENGTH = 256  # everything is read at the teacher's length: beyond it the teacher is the worse one

# %% [markdown]
# ## Text and teacher

# %%
wanted = CorpusConfig(sources=("excerpt",), piece_bytes=600, eval_share=0.2)
text = run_folder(wanted, RUNS)
prepare(wanted, text)
corpus = Corpus(text)
corpus

# %%
config = LmConfig(
    model=LoopedConfig(
        vocab_size=258,
        pattern="full",
        positions="rope",
        num_layers=2 if FAST else 4,
        num_loops=2,
    ),
    optimiser=LmOptimiserConfig(learning_rate=3e-3, warmup_steps=5),
    steps=20 if FAST else 300,
    batch_size=8,
    sequence_length=LENGTH,
    evaluate_every=0,
    label="teacher",
)
teacher_run = run_folder(config, RUNS, after=text)
run_lm(config, Execution(), data=text, folder=teacher_run, progress=TerminalProgress())

# %%
teacher = load_teacher(teacher_run)
teacher

# %% [markdown]
# ## Before training
#
# Queries, keys, values and outputs are copied. What softmax does not tell (decays, erase
# strengths, gates) has to be chosen. One choice is changed at a time; `kl` is the divergence from
# the teacher in nats a token, on other text than the student was fitted to.

# %%
cases = axis_cases(["gdn"])
untrained = untrained_table(
    teacher.model,
    cases[:3] if FAST else cases,
    calibration=train_tokens(corpus, 4, LENGTH),
    tokens=eval_tokens(corpus, 4, LENGTH),
)
told = ["copied", "value_scale", "conv", "decay", "gate", "output", "inputs", "linear_rotation"]
readable(untrained.sort_values("kl")[[*told, "kl", "agreement", "loss", "teacher_loss"]])

# %% [markdown]
# ## Recipe A
#
# Attention outputs, hidden states, then cross-entropy beside the divergence (arXiv 2504.14366). A
# recipe is data: stages in order, each a run that can be killed and goes on.

# %%
made = recipe_a(
    "gdn",
    tokens=2_500 if FAST else 150_000,
    batch_size=2 if FAST else 4,
    sequence_length=32 if FAST else 128,
    dtype="float32",
)
lengths = {"calibration_length": LENGTH, "recovery_length": LENGTH}
recipe = Recipe.model_validate(made.model_dump() | lengths)
recipe

# %%
sources = Sources(teacher, corpus)
folder = run_folder(recipe, RUNS, after=teacher_run)
run_recipe(recipe, Execution(), sources, folder=folder, progress=TerminalProgress())

# %% [markdown]
# ## Which layers should keep softmax?
#
# `trained`: one layer of the student is restored at a time, and after a short distillation the
# layers are ranked by the divergence that is left, over several seeds. The other selectors need
# no training. `share` is how many seeds alone would choose the layer: with a few steps and small
# differences a choice is mostly noise, and `lowest` and `highest` say so.

# %%
student = load_student(folder)
selection = SelectionConfig(
    keep=1,
    seeds=2 if FAST else 3,
    steps=2 if FAST else 20,
    last=1 if FAST else 10,
    batch_size=4,
    sequence_length=32 if FAST else 128,
    probe_length=64 if FAST else LENGTH,
)
selected = run_folder(selection, RUNS, after=folder)
select_layers(student, selection, Execution(), sources, folder=selected)["chosen"]

# %%
readable(pd.read_parquet(selected / "scores.parquet"))

# %% [markdown]
# ## What is left of the teacher?
#
# Recovery has intervals over documents, needles have Wilson's. A needle is a value in a text of
# 256 bytes, found if greedy decoding gives all of it. This teacher finds none itself: then the
# student's zero says nothing about its mixer, and no order of mixers may be read from it. The same
# holds of associative recall (`mqar`), whose floor is that of a guesser who knows which values
# there are: both models are below it.

# %%
pair = Pair(
    teacher.model,
    student.eval(),
    corpus.stream("eval"),
    corpus.tokenizer(),
    Runtime.of("cpu", "float32"),
)
evaluation = EvaluationConfig(
    parts=("recovery", "needle", "mqar", "states"),
    documents=4 if FAST else None,
    length=LENGTH,
    needle_lengths=(LENGTH,),
    needles=10 if FAST else 100,
    pairs=(4,),
    recalls=20 if FAST else 200,
    windows=2 if FAST else 4,
    window=32 if FAST else 128,
)
table = evaluate_pair(pair, evaluation, run_folder(evaluation, RUNS, after=folder))
shown = ["part", "model", "kind", "metric", "value", "low", "high", "floor", "n"]
readable(table.query("layer.isna() and loop.isna()")[shown])

# %% [markdown]
# ## How much of its state does the student use?
#
# Entropy rank of the matrix states, of at most as many directions as there were writes (notebook
# 05), and `horizon`: the newest pairs in a row that can be read back with more signal than noise.

# %%
states = table.query("part == 'states'")
readable(states.pivot_table(index=["layer", "loop"], columns="metric", values="value"))

# %%
tokens = eval_tokens(corpus, 2, evaluation.window)
state_rank_over_time(state_rank(student.trace(tokens)).assign(label="student"))

# %% [markdown]
# ## What to try next
#
# - `recipe_a("kda")`, or another of `STUDENT_MIXERS`: compare by `mixer_order`, not by one number.
# - `run_recipe(recipe_b("gdn", [1], tokens=150_000, length=128, lengths=(256,),
#   tokens_per_step=1024, dtype="float32"), Execution(), sources, folder=RUNS / "hybrid")`: recipe
#   B, with softmax in layer 1.
# - `num_loops=4` in the teacher: a restored layer is then softmax in every loop.
# - A real teacher: `load_teacher` opens Llama-like folders and GGUF files; `lt2 linearize run
#   smollm2-gdn` on a GPU (docs/linearization.md).
