"""A model whose forward pass is one launch of a CUDA graph."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.training.recording import record
from lt2theory.training.runtime import Runtime


class RecordedModel:
    """Answers without gradients, by a graph for the length that it was last asked about.

    An evaluation one operation after the other is some thousand launches: at 128 swaps beside two
    other runs on an H200 it took 3 to 5 s rather than 0.2, by inference because its thread waits
    for the interpreter at each. The graph reads the weights where they lie, so it
    answers as the model stands, for as long as its parameters stay where they are.

    Args:
        model: The model; it is in evaluation mode whenever it is asked.
        runtime: A GPU and its precision.

    Attributes:
        config: The model's.
    """

    def __init__(self, model: LoopedModel, runtime: Runtime) -> None:
        self.config: LoopedConfig = model.config
        self._model = model
        self._runtime = runtime
        self._lender: torch.cuda.CUDAGraph | None = None
        self.forget()

    @property
    def training(self) -> bool:
        """Whether the model is in training mode."""
        return self._model.training

    def eval(self) -> None:
        """Leave training mode."""
        self._model.eval()

    def train(self, mode: bool = True) -> None:
        """Enter training mode, or leave it.

        Args:
            mode: Whether to enter it.
        """
        self._model.train(mode)

    def borrow(self, lender: torch.cuda.CUDAGraph) -> None:
        """Use the memory of a graph that never runs at the same time, from the next recording on.

        Args:
            lender: The graph, which has been recorded on this thread's stream.
        """
        self.forget()
        self._lender = lender

    def forget(self) -> None:
        """Drop the graph; its memory is free, or its lender's."""
        self._lender = None
        self._graph: torch.cuda.CUDAGraph | None = None
        self._tokens = torch.empty(0, 0, dtype=torch.int64, device=self._runtime.device)
        self._logits = torch.empty(0, device=self._runtime.device)

    @torch.no_grad()
    def __call__(self, tokens: Int64[Tensor, "b t"]) -> Float[Tensor, "b t vocab"]:
        """Logits of every position; the caller's autocast does not matter, `runtime` says it.

        Args:
            tokens: Token ids; the first call of a length decides how many rows a launch takes.

        Returns:
            The logits.
        """
        if self._graph is None or self._tokens.shape[1] != tokens.shape[1]:
            with self._runtime.alone():
                self._record(tokens)
        assert self._graph is not None
        answers = []
        for part in tokens.split(len(self._tokens)):
            # What stands in the rows behind the last ones changes none of these.
            self._tokens[: len(part)] = part
            self._graph.replay()
            answers.append(self._logits[: len(part)].clone())
        return answers[0] if len(answers) == 1 else torch.cat(answers)

    def _record(self, tokens: Tensor) -> None:
        self._graph = None  # its memory goes before the next one needs some
        self._tokens, self._logits = tokens.clone(), self._logits.new_empty(0)
        self._graph = record(self._answer, lender=self._lender)

    def _answer(self) -> None:
        with self._runtime.autocast():
            self._logits = self._model(self._tokens)
