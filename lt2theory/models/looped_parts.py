"""The parts of a looped model, their start, and what stands before and after the loop."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from lt2theory.mixers import Stream
from lt2theory.mixers.initialise import truncated_normal_
from lt2theory.mixers.norm import RMSNorm
from lt2theory.models.block import Block
from lt2theory.models.config import LoopedConfig
from lt2theory.models.exits import exit_log_probabilities
from lt2theory.models.looped_blocks import LoopedBlocks
from lt2theory.models.streaming import open_stream
from lt2theory.models.validation import check_positions, check_tokens
from lt2theory.ops.fused.rows import product_dtype


class LoopedParts(LoopedBlocks):
    """Embedding, blocks, norm and head as the config names them, at their start.

    Args:
        config: Everything that defines it.
        generator: Source of the starting weights; None is a generator seeded with 0, so that a
            model is a function of its config. The global generator is never touched.
    """

    def __init__(self, config: LoopedConfig, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.config = config
        default = torch.get_default_device()
        devices = [default] if default.type == "cuda" else []
        with torch.random.fork_rng(devices):  # torch's own layers draw on construction
            self.embedding = nn.Embedding(config.vocab_size, config.width)
            if config.max_length is not None:
                self.position_embedding = nn.Embedding(config.max_length, config.width)
            self.blocks = nn.ModuleList(
                Block(config, *config.mixers_at(layer)) for layer in range(config.num_layers)
            )
            if config.loop_gate:
                self.loop_gate = nn.Parameter(torch.zeros(config.num_loops, config.width))
            self.norm = RMSNorm(config.width, config.norm_eps)
            if not config.tie_embeddings:
                self.head = nn.Linear(config.width, config.vocab_size, bias=False)
            if config.exit_gate:
                self.exit_gate = nn.Linear(config.width, 1)
        self._initialise(generator or torch.Generator().manual_seed(0))

    def _initialise(self, generator: torch.Generator) -> None:
        """Draw every matrix from a cut normal; mixers set their own gates."""
        std = self.config.init_std
        for block in self.blocks:
            assert isinstance(block, Block)
            for mixer in block.mixers:
                mixer.initialise(generator, std)
            for linear in () if block.ffn is None else block.ffn.children():
                assert isinstance(linear, nn.Linear)
                truncated_normal_(linear.weight, std, generator)
        truncated_normal_(self.embedding.weight, self.config.embedding_std, generator)
        if self.config.max_length is not None:
            truncated_normal_(self.position_embedding.weight, std, generator)
        if not self.config.tie_embeddings:
            truncated_normal_(self.head.weight, std, generator)
        if self.config.exit_gate:
            truncated_normal_(self.exit_gate.weight, std, generator)
            nn.init.zeros_(self.exit_gate.bias)

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of the parameters."""
        return self.embedding.weight.dtype

    def embed(self, tokens: Tensor, stream: Stream | None = None) -> Float[Tensor, "b t d"]:
        """h^(0): token embeddings, plus learned positions where the config has them.

        Args:
            tokens: Token ids `[b t]`.
            stream: Positions of the tokens; None counts from 0.

        Returns:
            `[b t d]`.

        Raises:
            ValueError: Bad tokens, or more of them than learned positions.
        """
        if stream is None:
            check_tokens(self.config, tokens)
            stream = open_stream(tokens, None, None)
            check_positions(self.config, stream)
        h: Tensor = self.embedding(tokens)
        if self.config.positions == "learned":
            h = h + self.position_embedding(stream.positions)
        return h

    def read_out(self, h: Float[Tensor, "*tokens d"]) -> Float[Tensor, "*tokens vocab"]:
        """Final norm and head.

        Args:
            h: Residual stream after a loop.

        Returns:
            Logits.
        """
        return F.linear(self.head_inputs(h), self.head_weight)

    @property
    def head_weight(self) -> Float[Tensor, "vocab d"]:
        """Weights of the head `[vocab d]`: the embedding's where the two are tied."""
        return self.embedding.weight if self.config.tie_embeddings else self.head.weight

    def head_inputs(self, h: Float[Tensor, "*tokens d"]) -> Float[Tensor, "*tokens d"]:
        """What the head and the exit gate read: `read_out` without its product.

        Args:
            h: Residual stream after a loop.

        Returns:
            The stream after the final norm, unless that stands between the loops already.
        """
        return h if self.config.norm_between_loops else self.norm(h, product_dtype(h))

    def exit_log_probabilities(
        self, states: Sequence[Float[Tensor, "b t d"]]
    ) -> Float[Tensor, "loops b t"]:
        """How likely a token leaves after each loop, by the exit gate.

        Args:
            states: h^(1) .. h^(T), as `read_loops` gives them.

        Returns:
            Natural logs `[T b t]`, in at least float32.

        Raises:
            ValueError: The config has no exit gate.
        """
        if not self.config.exit_gate:
            raise ValueError("exit_gate: False is not allowed here (the model has no exit gate)")
        gates = [self.exit_gate(self.head_inputs(h)).squeeze(-1) for h in states]
        return exit_log_probabilities(torch.stack(gates))
