"""One process of several that linearize together: python -m tests.linearize.shared FOLDER."""

import sys
from pathlib import Path

import torch

from lt2theory.linearize.engine import run_recipe
from lt2theory.linearize.sources import Sources
from lt2theory.training.lm import Execution
from lt2theory.training.text import Corpus
from tests.linearize.runs import make_recipe, make_teacher


def main() -> None:
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    texts = folder / "sources"
    sources = Sources(make_teacher(), Corpus(texts / "tokens"), texts / "chat.jsonl")
    recipe = make_recipe(dtype="float64")
    run_recipe(recipe, Execution(micro_batch_size=1), sources, folder=folder / "both")


if __name__ == "__main__":
    main()
