"""What a run of `lt2 train` is held against: xz, recomputation, and other processes.

python -m lt2theory.experiments.text_checks RUN --json FILE [--other RUN] [--device cuda]

The other run is a copy of the run's folder, taken when it had a checkpoint, that the same command
has continued under torchrun.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from lt2theory.models import LoopedModel, Reading, generate
from lt2theory.report.text_baseline import baselines_of
from lt2theory.runs import RunFolder, read_json, write_json
from lt2theory.training.lm import load_lm
from lt2theory.training.lm.session import CORPUS
from lt2theory.training.lm.step import lm_runtime
from lt2theory.training.text import Corpus, bits_per_byte

PROMPTS, PROMPT = 4, 64
"""Held-out documents that are gone on with, and tokens of each that are given."""
SPLITS = ("eval", "test")


def check_run(
    folder: Path, *, other: Path | None = None, device: str = "cpu", new_tokens: int = 128
) -> dict[str, Any]:
    """Hold a run against what it should beat or equal.

    Args:
        folder: The run, whose corpus is where it was in training.
        other: The same run, continued from one of its checkpoints by other processes.
        device: Where the model runs.
        new_tokens: Tokens of a text.

    Returns:
        `held_out`: bits per byte of the eval and the test split; `xz`: those of `xz -9` on the eval
        split, alone and after the training text; `texts` as `texts_by_three_ways`; and where
        `other` is given `processes` as `losses_compared`.

    Raises:
        ValueError: A folder holds no such run, or the corpus is gone.
    """
    model, config = load_lm(folder, device=device)
    model.eval()
    corpus = Corpus(Path(read_json(folder / CORPUS)["folder"]))
    runtime = lm_runtime(torch.device(device), config.dtype)
    held_out = {}
    for split in SPLITS:
        stream = corpus.stream(split)
        own = bits_per_byte(model, stream, runtime, length=config.sequence_length)
        size = int(own.document_bytes.sum())
        count = len(own.document_bytes)
        held_out[split] = {"bits_per_byte": own.value, "documents": count, "bytes": size}
    found: dict[str, Any] = {"held_out": held_out, "xz": baselines_of(RunFolder.open(folder))}
    found["texts"] = texts_by_three_ways(model, _prompts(corpus), new_tokens)
    if other is not None:
        found["processes"] = losses_compared(folder, other)
    return found


def _prompts(corpus: Corpus) -> Int[Tensor, "b t"]:
    """How the first held-out documents begin."""
    stream = corpus.stream("eval")
    documents = (stream.document(i)[0] for i in range(stream.num_documents))
    rows = [ids[:PROMPT].tolist() for ids in documents if len(ids) >= PROMPT]
    return torch.tensor(rows[:PROMPTS])


@torch.no_grad()
def texts_by_three_ways(
    model: LoopedModel, prompts: Int[Tensor, "b t"], new_tokens: int
) -> dict[str, Any]:
    """Greedy texts from fixed buffers, from a growing cache, and read anew for every token.

    Args:
        model: The model.
        prompts: Token ids.
        new_tokens: Tokens that are generated a row.

    Returns:
        `rows`, `new_tokens`, the shares of tokens that buffers and cache choose as recomputation
        does (`decoder`, `cache`), and `least_margin`: the smallest distance between the two largest
        logits there, below which rounding decides.
    """
    prompts = prompts.to(model.embedding.weight.device)
    whole = prompts
    for _ in range(new_tokens):
        whole = torch.cat([whole, model(whole, last_logits=1)[:, -1:].argmax(-1)], 1)
    wanted = whole[:, prompts.shape[1] :]
    told: dict[str, Any] = {"rows": len(prompts), "new_tokens": new_tokens}
    for name, fast in (("decoder", True), ("cache", False)):
        own = generate(model, prompts, new_tokens, reading=Reading(fast=fast)).tokens
        told[name] = float((own == wanted).float().mean())
    logits = model(whole, last_logits=new_tokens + 1)[:, :-1].float()
    best = logits.topk(2).values
    return told | {"least_margin": float((best[..., 0] - best[..., 1]).min())}


def losses_compared(folder: Path, other: Path) -> dict[str, Any]:
    """Records of training of two ways to carry a run out, where they differ.

    Args:
        folder: The run.
        other: The same, continued elsewhere from a checkpoint: its records before that are copies.

    Returns:
        `from_step` (the last record that is the same to the bit), `steps` (records after it:
        step, both losses, `relative` difference) and `bits_per_byte` of both at the evaluations
        after it.
    """
    one, two = _records(folder), _records(other)
    both = sorted(set(one["train"]) & set(two["train"]))
    differ = [step for step in both if one["train"][step] != two["train"][step]]
    start = max((step for step in both if not differ or step < differ[0]), default=0)
    steps = [
        {
            "step": step,
            "one": one["train"][step],
            "two": two["train"][step],
            "relative": abs(two["train"][step] / one["train"][step] - 1),
        }
        for step in both
        if step > start
    ]
    held_out = [
        {"step": step, "one": bits, "two": two["eval"][step]}
        for step, bits in one["eval"].items()
        if step > start and step in two["eval"]
    ]
    return {"from_step": start, "steps": steps, "bits_per_byte": held_out}


def _records(folder: Path) -> dict[str, dict[int, float]]:
    """Losses and evaluations of a run by step."""
    names = {"train": "loss", "eval": "bits_per_byte"}
    found: dict[str, dict[int, float]] = {split: {} for split in names}
    for line in RunFolder.open(folder).metrics():
        name = names.get(line["split"])
        if name is not None and name in line["metrics"]:
            found[line["split"]][int(line["step"])] = float(line["metrics"][name])
    return found


def main() -> None:
    """Check a run, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--other", type=Path)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--new-tokens", type=int, default=128)
    asked = parser.parse_args()
    found = check_run(
        asked.run, other=asked.other, device=asked.device, new_tokens=asked.new_tokens
    )
    write_json(asked.json, found)
    for name, value in found.items():
        sys.stdout.write(f"{name}: {json.dumps(value)}\n")


if __name__ == "__main__":
    main()
