"""Leaving the loop early, a token at a time, with caches that the later loops can use.

A token's logits are read after the first loop by which the exit gate's probabilities add up to a
threshold (Ouro, arXiv 2510.25741). Ouro's public code runs all loops for every token all the same.
Here a generated token runs no further loop, and what later loops remember of it is defined so: in
each of them every mixer is given the input that it had of the token in its last loop. An attention
layer then shares the keys and values of that loop, which the paper finds to cost next to nothing
in decoding (Table 14), and a recurrence takes the factors from there into the state of every loop.
The tokens of a prompt run all loops: there sharing is found to cost much.

Called on the whole text with `first` at the end of the prompt, `read_leaving` gives the numbers of
generation through a cache.
"""

from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from typing_extensions import override

from lt2theory.mixers import Slot, Stream
from lt2theory.models.block import AnyMixer, Block, Mix
from lt2theory.models.cache import LoopCache
from lt2theory.models.config import LoopedConfig
from lt2theory.models.exits import check_threshold
from lt2theory.models.loop_state import LoopState
from lt2theory.models.looped import LoopedModel
from lt2theory.models.reading import Reader
from lt2theory.models.streaming import close_stream, document_ids, open_stream, pieces_of_call
from lt2theory.models.validation import check_positions, check_tokens


class LeavingState(LoopState):
    """A loop state in which tokens that have left are met as they were in their last loop.

    Args:
        config: As for `LoopState`.
        stream: As for `LoopState`.
        slots: As for `LoopState`.

    Attributes:
        left: Which tokens run no further loop `[b t]`.
    """

    def __init__(
        self, config: LoopedConfig, stream: Stream, slots: dict[tuple[int, int], Slot] | None
    ) -> None:
        super().__init__(config, stream, slots)
        self.left: Bool[Tensor, "b t"] = torch.zeros_like(stream.positions, dtype=torch.bool)
        self._inputs: dict[int, Tensor] = {}

    @override
    def mix_at(self, layer: int, loop: int) -> Mix:
        whole = super().mix_at(layer, loop)

        def mix(mixer: AnyMixer, x: Float[Tensor, "b t d"]) -> Float[Tensor, "b t d"]:
            before = self._inputs.get(layer, x)
            self._inputs[layer] = torch.where(self.left.unsqueeze(-1), before, x)
            return whole(mixer, self._inputs[layer])

        return mix

    def only_remember(self, model: LoopedModel, loop: int) -> None:
        """Bring a loop's slots up to date where every token has left before it.

        Args:
            model: The model.
            loop: Loop, counted from 0.
        """
        if self._slots is None:
            return
        for layer, block in enumerate(model.blocks):
            assert isinstance(block, Block)
            mixer = block.mixers[self._config.mixer_number(layer, loop)]
            slot = self._slots[layer, loop]
            prepared = mixer.prepare(self._inputs[layer], self.stream, slot)
            self.run_op(layer, loop, prepared, slot)


@dataclass(frozen=True)
class LeavingStates:
    """What was read, loop by loop; `LoopedModel.read_out` makes logits of any of the states.

    Attributes:
        states: h^(1) .. h^(T), each `[b t d]`; that of a token that has left stays what it was.
        exits: Loop after which each token's logits are read `[b t]`, from 0.
    """

    states: tuple[Float[Tensor, "b t d"], ...]
    exits: Int[Tensor, "b t"]

    @property
    def last(self) -> Float[Tensor, "b t d"]:
        """The state of every token at its exit."""
        index = self.exits[None, :, :, None].expand(1, *self.states[0].shape)
        return torch.stack(self.states).gather(0, index)[0]


@torch.no_grad()
def read_leaving(
    model: LoopedModel,
    tokens: Tensor,
    threshold: float,
    *,
    first: int = 0,
    cache: LoopCache | None = None,
    lengths: Tensor | None = None,
    documents: Tensor | None = None,
) -> LeavingStates:
    """Read tokens, of which some run fewer loops.

    Args:
        model: A model with an exit gate.
        tokens: Token ids `[b t]`.
        threshold: Share q in [0, 1] that must have left: 1 runs all loops, 0 one.
        first: Position in this call from which tokens leave; those before run all loops, and only
            their exits follow the threshold.
        cache: As for `LoopedModel.forward`.
        lengths: As for `LoopedModel.forward`.
        documents: As for `LoopedModel.forward`.

    Returns:
        The states and exits; `model.read_out(found.last)` are the logits.

    Raises:
        ValueError: The model has no exit gate, the threshold is out of range, or as
            `LoopedModel.forward`.
    """
    check_threshold("threshold", threshold)
    if not model.config.exit_gate:
        raise ValueError("threshold: the model has no exit gate (exit_gate: False)")
    check_tokens(model.config, tokens)
    if cache is not None:
        cache.check(tokens, model.config, model.new_cache(1).model_id, model.dtype)
    ids = document_ids(tokens, cache, lengths, documents)
    draft = None if cache is None else cache.draft()
    pieces = []
    for start, stop in pieces_of_call(tokens.shape[1], draft):
        own = None if ids is None else ids[:, start:stop]
        piece = tokens[:, start:stop]
        stream = open_stream(piece, own, draft)
        check_positions(model.config, stream, draft)
        pieces.append(_read(model, piece, stream, threshold, first=first - start, cache=draft))
        if draft is not None:
            close_stream(stream, own, draft)
            draft.read(piece)
    if cache is not None and draft is not None:
        cache.keep(draft)
    states = [torch.cat(parts, 1) for parts in zip(*(p.states for p in pieces), strict=True)]
    return LeavingStates(tuple(states), torch.cat([p.exits for p in pieces], 1))


def _read(
    model: LoopedModel,
    tokens: Tensor,
    stream: Stream,
    threshold: float,
    *,
    first: int,
    cache: LoopCache | None,
) -> LeavingStates:
    """One piece of a call, loop by loop."""
    config = model.config
    state = LeavingState(config, stream, None if cache is None else cache.slots)
    index = torch.arange(tokens.shape[1], device=tokens.device)
    may_leave = (index >= first).expand(tokens.shape)
    exits = torch.full_like(tokens, config.num_loops - 1, dtype=torch.int64)
    reached = torch.zeros_like(may_leave)
    h = model.embed(tokens, stream)
    states: list[Tensor] = []
    for loop in range(config.num_loops):
        start = h
        if bool(state.left.all()):
            state.only_remember(model, loop)
        else:
            h = torch.where(state.left.unsqueeze(-1), start, model.run_loop(loop, h, state))
        states.append(h)
        if loop < config.num_loops - 1 and threshold < 1:
            # The state beside itself stands for loops to come, whose share is not counted.
            shares = model.exit_log_probabilities([*states, h])[:-1].exp()
            now = shares.sum(0) >= threshold
            exits = torch.where(now & ~reached, loop, exits)
            reached = reached | now
            state.left = reached & may_leave
    return LeavingStates(tuple(states), exits)


class LeavingReader(Reader):
    """Reads a prompt with all loops, and new tokens with as many as the exit gate asks for.

    Args:
        model: A model with an exit gate.
        cache: Updated in place.
        threshold: As for `read_leaving`.
        chunk: As for `prefill`.
    """

    def __init__(
        self, model: LoopedModel, cache: LoopCache, threshold: float, chunk: int | None
    ) -> None:
        self.model = model
        self._cache = cache
        self._chunk = chunk
        self._read = partial(read_leaving, model, threshold=threshold, cache=cache)

    @override
    def begin(self, prompt: Tensor, lengths: Tensor | None) -> Float[Tensor, "b vocab"]:
        length = prompt.shape[1]
        size = length if self._chunk is None else self._chunk
        padding = None
        if size < length and lengths is not None:
            padding = document_ids(prompt, self._cache, lengths, None)
        for start in range(0, length, size):
            piece = slice(start, start + size)
            if size >= length:
                found = self._read(prompt, first=length, lengths=lengths)
            else:
                own = None if padding is None else padding[:, piece]
                found = self._read(prompt[:, piece], first=length, documents=own)
        return self._logits(found)

    @override
    def step(self, tokens: Tensor) -> Float[Tensor, "b vocab"]:
        return self._logits(self._read(tokens.unsqueeze(1)))

    def _logits(self, found: LeavingStates) -> Float[Tensor, "b vocab"]:
        self.exits = found.exits[:, -1]
        return self.model.read_out(found.last[:, -1:])[:, 0]
