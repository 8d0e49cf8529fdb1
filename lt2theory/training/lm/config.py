"""What a language-model run is told that decides its numbers."""

from typing import Any, Literal

import torch
from pydantic import Field, model_validator

from lt2theory.fields import Frozen, check_one_line
from lt2theory.models import LoopedConfig
from lt2theory.runs import config_hash
from lt2theory.training.lm.options import LmOptimiserConfig, StabilityConfig
from lt2theory.training.text import Corpus


class LmConfig(Frozen):
    """A language-model run: all that decides its numbers but for rounding."""

    model: LoopedConfig = Field(description="The model.")
    corpus: str = Field(
        "", description="Hash of the corpus, filled in from its folder; another one is refused."
    )
    optimiser: LmOptimiserConfig = Field(
        default_factory=LmOptimiserConfig, description="How it is optimised."
    )
    stability: StabilityConfig = Field(
        default_factory=StabilityConfig, description="Steps that go wrong."
    )
    steps: int | None = Field(None, ge=1, description="Optimiser steps; give these or tokens.")
    tokens: int | None = Field(
        None, ge=1, description="Tokens to train on; the last step is taken in full."
    )
    batch_size: int = Field(
        32, ge=1, le=2**20, description="Windows of a step, over all processes."
    )
    sequence_length: int = Field(512, ge=2, le=2**24, description="Tokens of a window.")
    dtype: Literal["float32", "bfloat16", "float64"] = Field(
        "float32",
        description="bfloat16 multiplies under autocast, weights and moments stay float32; "
        "float64 is for checks.",
    )
    seed: int = Field(
        0, ge=0, lt=2**63, description="Seed of the weights and of the order of windows."
    )
    log_every: int = Field(10, ge=1, description="Steps between two records of training.")
    evaluate_every: int = Field(
        500, ge=0, description="Steps between two evaluations on the eval split; 0 for never."
    )
    evaluation_documents: int | None = Field(
        None, ge=1, description="Read only so many documents of the eval split, the first."
    )
    evaluation_length: int | None = Field(
        None, ge=1, description="Tokens read at once there; none is sequence_length."
    )
    label: str = Field("lm", min_length=1, description="Name of the arm, for tables and figures.")

    @model_validator(mode="after")
    def _check(self) -> "LmConfig":
        if (self.steps is None) == (self.tokens is None):
            raise ValueError(
                f"steps: got {self.steps} with tokens {self.tokens}; give one of the two"
            )
        check_one_line("label", self.label)
        limit = self.model.max_length
        longest = max(self.sequence_length, self.evaluation_length or 0)
        if limit is not None and longest > limit:
            raise ValueError(
                f"sequence_length: {longest} is beyond the learned positions (model.max_length "
                f"= {limit})"
            )
        return self

    @property
    def tokens_per_step(self) -> int:
        """Tokens that a step reads, over all processes."""
        return self.batch_size * self.sequence_length

    @property
    def weight_dtype(self) -> torch.dtype:
        """Dtype of weights and moments."""
        return torch.float64 if self.dtype == "float64" else torch.float32

    @property
    def total_steps(self) -> int:
        """Optimiser steps of the run."""
        if self.steps is not None:
            return self.steps
        assert self.tokens is not None
        return -(-self.tokens // self.tokens_per_step)

    def identity(self) -> dict[str, Any]:
        """What names the run in tables.

        Returns:
            `label`, `seed` and `task`, which is `text`.
        """
        return {"label": self.label, "seed": self.seed, "task": "text"}

    def to_json(self) -> dict[str, Any]:
        """The configuration as a run folder stores it.

        Returns:
            Plain JSON values, from which `model_validate` makes an equal configuration.
        """
        return self.model_dump(mode="json")


def resolve(config: LmConfig, corpus: Corpus) -> LmConfig:
    """Fill in what follows from the corpus, and check the configuration against it.

    Args:
        config: The configuration as given.
        corpus: What is trained on.

    Returns:
        The same with the corpus's hash, and steps in place of tokens. Resolving twice changes
        nothing.

    Raises:
        ValueError: The corpus is not the one that the configuration names, has more ids than the
            model, is shorter than a window, or has nothing to evaluate on.
    """
    found = corpus_hash(corpus)
    if config.corpus not in ("", found):
        raise ValueError(f"corpus: {config.corpus} is not that of {corpus.folder}, {found}")
    if config.model.vocab_size < corpus.vocab_size:
        raise ValueError(
            f"model.vocab_size: {config.model.vocab_size} must be at least the "
            f"{corpus.vocab_size} ids of {corpus.folder}"
        )
    present = corpus.manifest.splits["train"].tokens
    if config.sequence_length > present:
        raise ValueError(
            f"sequence_length: {config.sequence_length} must be at most the {present} tokens of "
            f"the train split of {corpus.folder}"
        )
    if config.evaluate_every and not corpus.manifest.splits["eval"].documents:
        raise ValueError(
            f"evaluate_every: got {config.evaluate_every}, but the eval split of {corpus.folder} "
            "holds no document; prepare it with a larger share, or give 0"
        )
    changes = {"corpus": found, "steps": config.total_steps, "tokens": None}
    return LmConfig.model_validate(config.model_dump() | changes)


def corpus_hash(corpus: Corpus) -> str:
    """What a run depends on of a corpus, wherever it lies.

    Args:
        corpus: The corpus.

    Returns:
        A short hash of its tokenizer and of the contents of its shards.
    """
    manifest = corpus.manifest
    shards = {
        name: [shard.sha256 for shard in split.shards] for name, split in manifest.splits.items()
    }
    return config_hash({"tokenizer": manifest.tokenizer.fingerprint, "shards": shards})
