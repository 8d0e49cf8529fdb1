"""What is evaluated: a student beside its teacher, on text, and how thoroughly."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field, model_validator

from lt2theory.fields import Frozen
from lt2theory.linearize.alike import check_alike
from lt2theory.models import LoopedModel
from lt2theory.training.runtime import Runtime
from lt2theory.training.text import Tokenizer
from lt2theory.training.text.corpus import TokenStream

PartName = Literal["recovery", "cloze", "needle", "mqar", "text", "states", "speed", "zero_shot"]
NeedleKind = Literal["number", "word", "hex"]
Haystack = Literal["repeated", "random"]


class EvaluationConfig(Frozen):
    """How an evaluation is carried out; all of it is in its hash."""

    parts: tuple[PartName, ...] = Field(
        ("recovery", "needle", "mqar", "text", "states", "speed"),
        min_length=1,
        description="What is measured; zero_shot needs lm_eval, and names of tasks.",
    )
    split: Literal["eval", "test"] = Field("eval", description="Split of the corpus.")
    documents: int | None = Field(
        200, ge=1, description="Most documents that the comparison with the teacher reads."
    )
    length: int = Field(512, ge=2, description="Tokens that the models read at once.")
    clozes: int = Field(200, ge=1, description="Passages of held-out text, words of each kind.")
    cloze_context: int = Field(256, ge=32, description="Most bytes before such a word.")
    needle_kinds: tuple[NeedleKind, ...] = Field(
        ("number", "word", "hex"), description="Kinds of needles."
    )
    needle_lengths: tuple[int, ...] = Field(
        (256, 512, 1024, 2048, 4096, 8192),
        description="Most tokens of a haystack with its question.",
    )
    haystack: Haystack = Field(
        "repeated",
        description="Filler: one sentence again and again, as in RULER's first task, or words "
        "drawn one by one, which is harder.",
    )
    needles: int = Field(100, ge=1, description="Texts of each kind and length.")
    pairs: tuple[int, ...] = Field(
        (4, 16, 64), description="Numbers of key-value pairs for associative recall."
    )
    recalls: int = Field(200, ge=1, description="Instances of each number of pairs.")
    texts: int = Field(32, ge=1, description="Texts that are generated.")
    prompt: int = Field(64, ge=1, description="Tokens of a prompt, from held-out documents.")
    new_tokens: int = Field(192, ge=8, description="Tokens that are generated after a prompt.")
    windows: int = Field(4, ge=1, description="Windows whose states are analysed.")
    window: int = Field(128, ge=8, description="Tokens of such a window.")
    speed_lengths: tuple[int, ...] = Field(
        (256, 2048), description="Tokens before those that are timed."
    )
    speed_batch: int = Field(1, ge=1, description="Rows that are timed.")
    speed_steps: int = Field(16, ge=2, description="Tokens that are timed.")
    tasks: tuple[str, ...] = Field((), description="Tasks of lm_eval, for zero_shot.")
    include: str = Field("", description="Folder of those tasks' YAML files.")
    limit: int | None = Field(None, ge=1, description="Most instances of such a task.")
    seed: int = Field(0, ge=0, lt=2**63, description="Seed of instances, draws and intervals.")

    @model_validator(mode="after")
    def _check(self) -> "EvaluationConfig":
        for name in ("parts", "needle_kinds", "needle_lengths", "pairs", "speed_lengths"):
            values = getattr(self, name)
            if not values or len(set(values)) < len(values):
                raise ValueError(
                    f"{name}: got {values}, allowed are different values, at least one"
                )
        if "zero_shot" in self.parts and not (self.tasks and self.include):
            raise ValueError("tasks: () is not allowed with zero_shot (name tasks, and include)")
        for name in ("needle_lengths", "pairs", "speed_lengths"):
            if min(getattr(self, name)) < 1:
                raise ValueError(f"{name}: got {getattr(self, name)}, allowed are numbers >= 1")
        return self


@dataclass(frozen=True)
class Pair:
    """A student beside its teacher.

    Attributes:
        teacher: The teacher.
        student: The student, of the same vocabulary.
        stream: Held-out text.
        tokenizer: The tokenizer of the text.
        runtime: Device and precision; both models are on that device.

    Raises:
        ValueError: The vocabularies differ.
    """

    teacher: LoopedModel
    student: LoopedModel
    stream: TokenStream
    tokenizer: Tokenizer
    runtime: Runtime

    def __post_init__(self) -> None:
        check_alike(self.student.config, self.teacher.config, "vocab_size")
        own = self.student.config.vocab_size
        if self.tokenizer.vocab_size > own:
            raise ValueError(
                f"vocab_size: {own} of the models must be at least the "
                f"{self.tokenizer.vocab_size} of tokenizer {self.tokenizer.name!r}"
            )

    def models(self) -> Iterator[tuple[str, LoopedModel]]:
        """Both, by the names that the table gives them.

        Yields:
            `teacher` and `student` with their models.
        """
        yield "teacher", self.teacher
        yield "student", self.student

    def decoding(self, model: LoopedModel) -> LoopedModel:
        """A model as it generates: in the dtype of the runtime, since steps go without autocast.

        Args:
            model: One of the two.

        Returns:
            The model itself, or a copy with rounded weights.
        """
        if self.runtime.dtype == torch.float32:
            return model
        return copy.deepcopy(model).to(self.runtime.dtype)
