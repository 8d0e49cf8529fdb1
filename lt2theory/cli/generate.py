"""`lt2 generate PATH`: texts of a trained language model."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

import tyro

from lt2theory.cli.errors import DONE
from lt2theory.cli.output import JsonCopy, check_file
from lt2theory.cli.parsing import check_seed, parse


@dataclass(frozen=True, kw_only=True)
class GenerateOptions:
    """What is gone on with, and how."""

    path: tyro.conf.Positional[Path]
    """Folder of a run of `lt2 train`, or of a model saved for transformers with its tokenizer."""
    prompt: str = ""
    """Text before; none begins a document."""
    max_new_tokens: int = 200
    """Most tokens of a text."""
    greedy: bool = False
    """Take the likeliest token instead of drawing one."""
    temperature: float = 1.0
    """Draw from the logits divided by this."""
    top_k: int | None = None
    """Draw among so many of the likeliest tokens."""
    seed: int = 0
    """Seed of the draws."""
    samples: int = 1
    """Texts of one prompt."""
    num_loops: int | None = None
    """Run so many loops of the model instead of all."""
    exit_threshold: float | None = None
    """For models with an exit gate: leave the loop where this share of the gate's probability lies
    behind a token, from 0 (one loop) to 1 (all)."""
    fast: bool | None = None
    """Steps from buffers of fixed size, on a GPU as one CUDA graph; by default on a GPU where they
    serve."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where the model runs."""

    def __post_init__(self) -> None:
        """Refuse what is out of range.

        Raises:
            ValueError: `seed` or `prompt` is.
        """
        check_seed(self.seed)
        try:
            self.prompt.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"prompt: got {self.prompt!r}, allowed is text ({error})") from None


def run(argv: list[str]) -> int:
    """Print how a trained model goes on with a text.

    Args:
        argv: The arguments after the verb.

    Returns:
        The exit code.
    """
    description = "Go on with a text, by a model that lt2 train has trained or that was saved."
    options, copy = parse("lt2 generate", argv, description, options=GenerateOptions, copy=JsonCopy)
    check_file(copy.json, "--json")
    import torch

    from lt2theory.experiments.text_models import continue_text, open_text_model
    from lt2theory.models import Reading, Sampling, at_depth
    from lt2theory.runs import write_json
    from lt2theory.training.runtime import Runtime

    device = Runtime.of(options.device, "float32").device
    sampling = None
    if not options.greedy:
        generator = torch.Generator(device).manual_seed(options.seed)
        sampling = Sampling(generator, options.temperature, options.top_k)
    reading = Reading(fast=options.fast, exit_threshold=options.exit_threshold)
    source = open_text_model(options.path, device=device)
    if options.num_loops is not None:
        source = replace(source, model=at_depth(source.model, options.num_loops))
    texts = continue_text(
        source,
        options.prompt,
        max_new_tokens=options.max_new_tokens,
        sampling=sampling,
        samples=options.samples,
        reading=reading,
    )
    if copy.json is not None:
        rows = [asdict(text) for text in texts]
        write_json(copy.json, {"prompt": options.prompt, "continuations": rows})
    for number, text in enumerate(texts):
        if options.samples > 1:
            print(f"--- {number + 1} of {options.samples}")
        print(f"{options.prompt}{text.text}")
        if text.loops:
            print(f"({sum(text.loops) / len(text.loops):.2f} loops a token)")
    return DONE
