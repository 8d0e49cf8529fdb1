"""The loop state: it keeps what earlier loops prepared, decides the semantics, and calls the op.

This is where `rescan` and `accumulate` differ, in one line; nothing else in the model knows.
"""

from collections.abc import Callable
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from lt2theory.mixers import Slot, Stream
from lt2theory.models.block import AnyMixer, Mix
from lt2theory.models.config import LoopedConfig
from lt2theory.models.segments import respect_segments
from lt2theory.ops import indexer_loss, run_attention, run_factors, stabilise
from lt2theory.ops.factors import AttentionInputs, Factors, IndexedInputs, join_factors

Prepared = Factors | AttentionInputs

Earlier = dict[int, tuple[Factors, ...]]
"""By layer, the factors of its loops so far."""

Told = Callable[[int, int, Prepared], None]
"""Is told layer, loop and what was prepared there, before the op runs."""

TWICE = ("chunked", "reference")
"""Backends that are differentiable twice. Asked for by name, they keep mixers from their kernels of
first derivatives too, which are those for calls without a slot."""


class LoopState:
    """What one forward pass carries from loop to loop.

    Args:
        config: Config of the model.
        stream: Where the tokens stand.
        slots: What every (layer, loop) remembers, updated in place; None remembers nothing.
        record: Whether to keep what the mixers prepare.
        losses: Whether to compute the losses of the indexers.

    Attributes:
        stream: Where the tokens stand.
        prepared: What each (layer, loop) prepared; filled only when recording.
        indexer_losses: The loss of each (layer, loop) that has an indexer; filled only when asked.
        earlier: Under `accumulate`, what each layer prepared in the loops so far.
        on_prepared: Told what the mixers prepare; for a watch (`LoopedBlocks.watch`).
    """

    def __init__(
        self,
        config: LoopedConfig,
        stream: Stream,
        slots: dict[tuple[int, int], Slot] | None = None,
        *,
        record: bool = False,
        losses: bool = False,
    ) -> None:
        self.prepared: dict[tuple[int, int], Prepared] = {}
        self.earlier: Earlier = {}
        self.indexer_losses: dict[tuple[int, int], Tensor] = {}
        self.on_prepared: Told | None = None
        self._config = config
        self.stream = stream
        self._slots = slots
        self._record = record
        self._losses = losses

    @property
    def is_repeatable(self) -> bool:
        """Whether a part of the loop may run again: nothing is remembered or recorded."""
        return self._slots is None and not self._record

    def branch(self, earlier: Earlier) -> "LoopState":
        """A loop state for the same tokens that goes its own way, for a part that may run again.

        Args:
            earlier: What the layers of the part prepared before.

        Returns:
            The branch.
        """
        assert self.is_repeatable, "a part that writes to a cache or a record runs once"
        branch = LoopState(self._config, self.stream, losses=self._losses)
        branch.earlier = dict(earlier)
        return branch

    def take_over(self, branch: "LoopState") -> None:
        """Go on from where a branch ended.

        Args:
            branch: What `branch` gave, after its part has run.
        """
        self.earlier.update(branch.earlier)
        self.indexer_losses.update(branch.indexer_losses)

    def mix_at(self, layer: int, loop: int) -> Mix:
        """Join a mixer with its op, at one place of the loop.

        Args:
            layer: Layer, counted from 0.
            loop: Loop, counted from 0.

        Returns:
            The function that a block calls with its mixer and normalised input.
        """

        def mix(mixer: AnyMixer, x: Float[Tensor, "b t d"]) -> Float[Tensor, "b t d"]:
            slot = Slot() if self._slots is None else self._slots[layer, loop]
            plain = self._slots is not None or self._config.backend in TWICE
            prepared = mixer.prepare(x, self.stream, slot if plain else None)
            return mixer.output(self.run_op(layer, loop, prepared, slot), x)

        return mix

    def run_op(
        self, layer: int, loop: int, prepared: Prepared, slot: Slot
    ) -> Float[Tensor, "b t h v"]:
        """Call the op of one place of the loop.

        Args:
            layer: Layer, counted from 0.
            loop: Loop, counted from 0.
            prepared: What the mixer prepared there.
            slot: What the place remembers, updated; an empty one where nothing is remembered.

        Returns:
            What the op read out.
        """
        if type(prepared) is AttentionInputs and self._config.loops[loop] != self._config.layers:
            # The loops share the weights, of which a window has none.
            spec = self._config.loops[loop][layer]
            prepared = replace(prepared, window=self._config.mixer_options(spec).window)
        if self._record:
            self.prepared[layer, loop] = prepared
        if self.on_prepared is not None:
            self.on_prepared(layer, loop, prepared)
        if isinstance(prepared, Factors):
            return self._recur(layer, prepared, slot)
        return self._attend(layer, loop, prepared, slot)

    def _recur(self, layer: int, factors: Factors, slot: Slot) -> Float[Tensor, "b t h v"]:
        if self._config.loop_state == "accumulate":
            parts = self.earlier.get(layer, ())
            # Nobody reads an earlier query again; a view of the key keeps it from being held.
            self.earlier[layer] = (*parts, replace(factors, q=factors.k[:, :, -1]))
            factors = join_factors((*parts, factors))
        if factors.log_write is not None:
            return self._recur_normalised(factors, slot)
        o, slot.state = run_factors(
            respect_segments(factors, self.stream),
            initial_state=slot.state,
            backend=self._config.backend,
        )
        return o

    def _recur_normalised(self, factors: Factors, slot: Slot) -> Float[Tensor, "b t h v"]:
        """The stabiliser depends on all factors of a token, so it comes after they are joined."""
        segments = self.stream.segments
        plain = stabilise(
            factors,
            slot.log_max,
            starts=self.stream.starts(),
            real=None if segments is None else segments >= 0,
        )
        read, slot.state = run_factors(
            respect_segments(plain.factors, self.stream),
            initial_state=slot.state,
            backend=self._config.backend,
        )
        slot.log_max = plain.last_log_max(slot.log_max)
        return plain.normalise(read)

    def _attend(
        self, layer: int, loop: int, inputs: AttentionInputs, slot: Slot
    ) -> Float[Tensor, "b t h v"]:
        new = inputs.k.shape[1]
        inputs = _with_past(inputs, slot)
        asking = self.stream.segments
        asked = self.stream.segments_with_past(inputs.k.shape[1] - new)
        backend = self._config.backend
        o = run_attention(inputs, query_segments=asking, key_segments=asked, backend=backend)
        if self._losses and isinstance(inputs, IndexedInputs):
            self.indexer_losses[layer, loop] = indexer_loss(
                inputs,
                kind=self._config.indexer_loss,
                query_segments=asking,
                key_segments=asked,
                backend=backend,
            )
        if self._slots is not None:
            _remember(inputs, slot)
        return o


def _with_past(inputs: AttentionInputs, slot: Slot) -> AttentionInputs:
    """Put the cached keys and values in front; they may come from a call under another autocast."""
    if slot.keys is None or slot.values is None:
        return inputs
    keys = torch.cat([slot.keys.to(inputs.k.dtype), inputs.k], 1)
    values = torch.cat([slot.values.to(inputs.v.dtype), inputs.v], 1)
    if not isinstance(inputs, IndexedInputs):
        return replace(inputs, k=keys, v=values)
    assert slot.index_keys is not None
    cached = slot.index_keys.to(inputs.index_k.dtype)
    return replace(inputs, k=keys, v=values, index_k=torch.cat([cached, inputs.index_k], 1))


def _remember(inputs: AttentionInputs, slot: Slot) -> None:
    """Keep the keys that later queries may see: all, or what a plain window leaves."""
    keys, values = inputs.k, inputs.v
    plain = type(inputs) is AttentionInputs
    kept = inputs.window - 1 if plain and inputs.window is not None else keys.shape[1]
    drop = max(0, keys.shape[1] - kept)
    if drop:  # a view would keep what it drops alive
        keys, values = keys[:, drop:].clone(), values[:, drop:].clone()
    slot.keys, slot.values = keys, values
    if isinstance(inputs, IndexedInputs):
        slot.index_keys = inputs.index_k
