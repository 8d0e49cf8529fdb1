"""The watch that reads the instruments place by place, while a model runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import functional_call

from lt2theory.analysis.instruments import (
    ALPHA_EDGES,
    BETA_EDGES,
    counts_in_bins,
    first_token_share,
    key_coherence,
    massive,
    token_rms,
)
from lt2theory.mixers import Stream
from lt2theory.mixers.base import at_least_float32
from lt2theory.models import LoopedModel
from lt2theory.models.loop_state import LoopState, Prepared
from lt2theory.models.looped_blocks import LoopedBlocks
from lt2theory.ops.factors import AttentionInputs, Factors

Place = tuple[int, int]
"""Loop and layer."""

MOST_KEYS = 64
"""Tokens of a row whose keys are kept until the last loop, to be compared."""


@dataclass
class Numbers:
    """What a watch has read, as plain numbers.

    Attributes:
        blocks: `rms`, `first_rms`, `update_rms` and `massive` of every (loop, layer).
        entry_rms: Of the stream that enters each loop.
        gradient_norms: Of the contribution of every depth to the gradient of the block weights.
        attention: `first_token_mass` and `first_token_mass_head` of places with attention.
        recurrences: `beta` and `alpha` of places with a recurrence that has them.
        coherence: `key_coherence` and `mean_key_coherence` of layers with a recurrence.
        histograms: For `beta` and `alpha`, the shares in their bins by loop.
    """

    blocks: dict[Place, dict[str, float]]
    entry_rms: list[float]
    gradient_norms: list[float]
    attention: dict[Place, dict[str, float]] = field(default_factory=dict)
    recurrences: dict[Place, dict[str, float]] = field(default_factory=dict)
    coherence: dict[int, dict[str, float]] = field(default_factory=dict)
    histograms: dict[str, dict[int, list[float]]] = field(default_factory=dict)


class StabilityWatch:
    """Runs every block with weights of its loop's own, and reads what passes.

    Those weights share the memory of the model's. Their gradients are the loops' contributions
    to that of the shared weights; each becomes a number as soon as it is complete.

    Args:
        model: The model.
    """

    def __init__(self, model: LoopedModel) -> None:
        config = model.config
        self._config = config
        self._leaves: list[list[dict[str, Tensor]]] = []
        device = model.embedding.weight.device
        wide = torch.promote_types(model.dtype, torch.float32)
        self._squares = torch.zeros(config.num_loops * config.num_layers, dtype=wide, device=device)
        self._read: dict[str, dict[Place, dict[str, Tensor]]] = {
            name: {} for name in ("blocks", "attention", "recurrences")
        }
        self._entry: dict[int, Tensor] = {}
        self._keys: dict[int, list[Tensor]] = {}
        self._counts: dict[str, dict[int, Tensor]] = {}
        for loop in range(config.num_loops):
            self._leaves.append([])
            for layer, block in enumerate(model.blocks):
                own = {name: p.detach().requires_grad_() for name, p in block.named_parameters()}
                take = partial(self._take_gradient, loop * config.num_layers + layer)
                for leaf in own.values():
                    leaf.register_post_accumulate_grad_hook(take)
                self._leaves[loop].append(own)

    def leaves(self) -> list[Tensor]:
        """All weights by loop.

        Returns:
            Them, of which only the gradients' sizes are kept.
        """
        return [leaf for loop in self._leaves for own in loop for leaf in own.values()]

    def __call__(
        self, blocks: LoopedBlocks, layer: int, loop: int, h: Tensor, state: LoopState
    ) -> Tensor:
        """As `lt2theory.models.looped_blocks.Watch`: run a block and read its numbers once."""
        state.on_prepared = partial(self._see_prepared, state.stream)
        number = self._config.mixer_number(layer, loop)
        after: Tensor = functional_call(
            blocks.blocks[layer],
            self._leaves[loop][layer],
            (h, state.mix_at(layer, loop)),
            {"mixer": number},
        )
        with torch.no_grad():
            self._see_block(state.stream, layer, loop, h.detach(), after.detach())
        return after

    def numbers(self) -> Numbers:
        """What was read, after the backward pass.

        Returns:
            The numbers.
        """
        found = Numbers(
            _told(self._read["blocks"]),
            torch.stack([self._entry[loop] for loop in sorted(self._entry)]).tolist(),
            self._squares.sqrt().tolist(),
            _told(self._read["attention"]),
            _told(self._read["recurrences"]),
        )
        for layer, keys in self._keys.items():
            largest, mean = key_coherence(torch.cat(keys, -2))
            read = {"key_coherence": largest.mean(), "mean_key_coherence": mean.mean()}
            found.coherence[layer] = {name: float(x) for name, x in read.items()}
        for name, by_loop in self._counts.items():
            shares = {loop: counts / counts.sum() for loop, counts in by_loop.items()}
            found.histograms[name] = {loop: x.tolist() for loop, x in sorted(shares.items())}
        return found

    def _take_gradient(self, depth: int, leaf: Tensor) -> None:
        assert leaf.grad is not None, "the hook is called when there is one"
        self._squares[depth] += leaf.grad.to(self._squares.dtype).square().sum()
        leaf.grad = None

    def _see_block(self, stream: Stream, layer: int, loop: int, h: Tensor, after: Tensor) -> None:
        read = self._read["blocks"]
        if (loop, layer) in read:
            return  # computed again for backward
        first = stream.positions == 0
        if layer == 0:
            self._entry[loop] = _median(token_rms(h)[~first])
        rms = token_rms(after)
        read[loop, layer] = {
            "rms": _median(rms[~first]),
            "first_rms": _median(rms[first]),
            "update_rms": _median(token_rms(after - h)[~first]),
            "massive": massive(after),
        }

    @torch.no_grad()
    def _see_prepared(self, stream: Stream, layer: int, loop: int, prepared: Prepared) -> None:
        kind = "attention" if isinstance(prepared, AttentionInputs) else "recurrences"
        if (loop, layer) in self._read[kind]:
            return
        with torch.autocast(stream.positions.device.type, enabled=False):
            if isinstance(prepared, AttentionInputs):
                read = self._attention(stream, prepared)
            else:
                read = self._recurrence(layer, loop, prepared)
        self._read[kind][loop, layer] = read

    def _attention(self, stream: Stream, inputs: AttentionInputs) -> dict[str, Tensor]:
        shares = first_token_share(
            inputs,
            stream.positions == 0,
            segments=stream.segments,
            backend=self._config.backend,
        )
        # A first token can look at nothing but itself.
        by_head = at_least_float32(shares)[stream.positions > 0].mean(0)
        return {"first_token_mass": by_head.mean(), "first_token_mass_head": by_head.amax()}

    def _recurrence(self, layer: int, loop: int, factors: Factors) -> dict[str, Tensor]:
        every = -(-factors.k.shape[1] // MOST_KEYS)
        self._keys.setdefault(layer, []).append(factors.k[:, ::every].transpose(2, 3).clone())
        read = {}
        for name, x, edges in (
            ("beta", factors.beta, BETA_EDGES),
            ("alpha", _exponential(factors.log_decay), ALPHA_EDGES),
        ):
            if x is not None:
                counts = self._counts.setdefault(name, {})
                counts[loop] = counts.get(loop, 0) + counts_in_bins(x, edges)
                read[name] = x.mean()
        return read


def _exponential(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.exp()


def _median(x: Float[Tensor, " n"]) -> Float[Tensor, ""]:
    """The mean of both middle numbers where their count is even; NaN of none."""
    if x.numel() == 0:
        return x.new_full((), torch.nan)
    ordered = x.sort().values
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def _told(read: Mapping[Place, Mapping[str, Tensor]]) -> dict[Place, dict[str, float]]:
    """Plain numbers, fetched from the device in one transfer."""
    flat = [x for place in read.values() for x in place.values()]
    values = iter(torch.stack(flat).tolist() if flat else ())
    return {place: {name: next(values) for name in own} for place, own in read.items()}
