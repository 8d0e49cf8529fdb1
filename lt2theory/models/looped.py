"""The looped model: N blocks shared over T loops."""

import uuid
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from lt2theory.mixers import Stream
from lt2theory.models.arguments import check_whole
from lt2theory.models.cache import LoopCache
from lt2theory.models.config import LoopedConfig
from lt2theory.models.loop_state import LoopState
from lt2theory.models.looped_parts import LoopedParts
from lt2theory.models.snapshots import is_cuttable
from lt2theory.models.streaming import close_stream, document_ids, open_stream, pieces_of_call
from lt2theory.models.trace import LoopTrace
from lt2theory.models.validation import check_positions, check_tokens


class LoopedModel(LoopedParts):
    """`h^(tau) = F_N..F_1(h^(tau-1)) + rho_tau * h^(tau-1)`, then a norm and the head (LT2).

    Args:
        config: Everything that defines it.
        generator: Source of the starting weights; None is a generator seeded with 0, so that a
            model is a function of its config. The global generator is never touched.
    """

    def __init__(self, config: LoopedConfig, *, generator: torch.Generator | None = None) -> None:
        super().__init__(config, generator=generator)
        self._id = uuid.uuid4().hex  # caches belong to one model

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Copies and unpickled models are models of their own, whose caches are not shared."""
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._id = uuid.uuid4().hex

    def new_cache(self, batch_size: int, *, snapshot_every: int | None = None) -> LoopCache:
        """Make an empty cache on the model's device, in its dtype.

        Args:
            batch_size: Rows that the cache will serve.
            snapshot_every: Keep a snapshot after every so many tokens, so that `LoopCache.crop`
                can go back to any length: it costs the size of the states and windows each time,
                and all the tokens. Calls run in pieces that end there. Without effect where every
                layer is attention over the whole past, which can always be cut.

        Returns:
            The cache; every forward call that is given it continues the sequence.

        Raises:
            ValueError: `batch_size` or `snapshot_every` is below 1.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size: {batch_size} must be >= 1")
        if snapshot_every is not None:
            check_whole("snapshot_every", snapshot_every)
        if snapshot_every is not None and snapshot_every < 1:
            raise ValueError(f"snapshot_every: {snapshot_every} must be >= 1 or None")
        if all(is_cuttable(spec) for loop in self.config.loops for spec in loop):
            snapshot_every = None
        device = self.embedding.weight.device
        return LoopCache(self.config, self._id, batch_size, device, self.dtype, snapshot_every)

    def forward(
        self,
        tokens: Tensor,
        cache: LoopCache | None = None,
        *,
        lengths: Tensor | None = None,
        documents: Tensor | None = None,
        last_logits: int | None = None,
        losses: dict[str, Tensor] | None = None,
    ) -> Float[Tensor, "b n vocab"]:
        """Next-token (or per-token) logits.

        Args:
            tokens: Token ids `[b t]`, integers in `0..vocab_size-1`.
            cache: Continue the sequence that this cache has seen; updated in place.
            lengths: Real tokens a row `[b]`; each row is padded on the left, and pads change
                nothing. Only without a cache or on its first call.
            documents: Document of each token `[b t]`; nothing crosses from one run of equal ids
                into the next, and a negative id is padding.
            last_logits: Compute the logits of the last so many positions only.
            losses: Filled with the losses that parts of the model have of their own, each a
                scalar to be added to the language-model loss: `indexer`, the mean over (layer,
                loop) of `lt2theory.ops.indexer_loss`, where a layer has an indexer. Nothing of
                them is computed without it. For training, so not together with a cache.

        Returns:
            Logits `[b t vocab]`, or `[b last_logits vocab]`; those at padding mean nothing.

        Raises:
            ValueError: Bad tokens, lengths, documents or `last_logits`, a cache of another
                batch size, dtype, device or model, or one beside `losses`. The cache is untouched
                then.
        """
        if cache is not None and losses is not None:
            raise ValueError("losses: computed over whole sequences only; give no cache with them")
        check_tokens(self.config, tokens, last_logits)
        if cache is not None:
            cache.check(tokens, self.config, self._id, self.dtype)
        ids = document_ids(tokens, cache, lengths, documents)
        length = tokens.shape[1]
        first = 0 if last_logits is None else length - last_logits
        # On a draft, so that a call that fails or is interrupted leaves the cache as it was.
        draft = None if cache is None else cache.draft()
        logits = []
        for start, stop in pieces_of_call(length, draft):
            own = None if ids is None else ids[:, start:stop]
            h = self._read(tokens[:, start:stop], own, draft, losses)[-1]
            logits.append(self.read_out(h[:, max(0, first - start) :]))
        if cache is not None and draft is not None:
            cache.keep(draft)
        return torch.cat(logits, 1) if len(logits) > 1 else logits[0]

    def _read(
        self,
        tokens: Tensor,
        ids: Tensor | None,
        cache: LoopCache | None,
        losses: dict[str, Tensor] | None,
    ) -> tuple[Float[Tensor, "b t d"], ...]:
        """h^(0) .. h^(T) of tokens that were checked; cache and losses are brought up to date."""
        stream = open_stream(tokens, ids, cache)
        check_positions(self.config, stream, cache)
        slots = None if cache is None else cache.slots
        state = LoopState(self.config, stream, slots, losses=losses is not None)
        states = self._loop(self.embed(tokens, stream), state)
        if losses is not None and state.indexer_losses:
            losses["indexer"] = torch.stack(list(state.indexer_losses.values())).mean()
        if cache is not None:
            close_stream(stream, ids, cache)
            cache.read(tokens)
        return states

    def read_loops(
        self,
        tokens: Tensor,
        *,
        lengths: Tensor | None = None,
        documents: Tensor | None = None,
        losses: dict[str, Tensor] | None = None,
    ) -> tuple[Float[Tensor, "b t d"], ...]:
        """The residual stream after every loop, for losses and scores that read out several.

        Args:
            tokens: Token ids `[b t]`.
            lengths: As in `forward`.
            documents: As in `forward`.
            losses: As in `forward`.

        Returns:
            h^(1) .. h^(T), each `[b t d]`; `read_out` makes logits of them, and that of the last
            gives `forward`'s.

        Raises:
            ValueError: As in `forward`.
        """
        check_tokens(self.config, tokens)
        ids = document_ids(tokens, None, lengths, documents)
        return self._read(tokens, ids, None, losses)[1:]

    def trace(
        self,
        tokens: Tensor,
        *,
        lengths: Tensor | None = None,
        documents: Tensor | None = None,
    ) -> LoopTrace:
        """Run once and keep what happened in every loop.

        Args:
            tokens: Token ids `[b t]`.
            lengths: As in `forward`.
            documents: As in `forward`.

        Returns:
            The trace; its logits equal `forward`'s.

        Raises:
            ValueError: As in `forward`.
        """
        check_tokens(self.config, tokens)
        ids = document_ids(tokens, None, lengths, documents)
        stream = open_stream(tokens, ids, None)
        check_positions(self.config, stream)
        state = LoopState(self.config, stream, record=True)
        residuals: dict[tuple[int, int], Tensor] = {}
        states = self._loop(self.embed(tokens, stream), state, residuals)
        logits = self.read_out(states[-1])
        return LoopTrace(self.config, tokens, logits, states, state.prepared, residuals)

    def run_embedded(self, h: Float[Tensor, "b t d"]) -> Float[Tensor, "b t d"]:
        """From h^(0) to h^(T), for one unbroken stream; analysers differentiate through it.

        Args:
            h: Embedded tokens, as `embed` gives them.

        Returns:
            The residual stream after the last loop, before the final norm and head.
        """
        return self.loop_states(h)[-1]

    def loop_states(self, h: Float[Tensor, "b t d"]) -> tuple[Float[Tensor, "b t d"], ...]:
        """From h^(0) to all of h^(0) .. h^(T), as `run_embedded` to the last.

        Args:
            h: Embedded tokens, as `embed` gives them.

        Returns:
            The T + 1 residual streams.
        """
        positions = torch.arange(h.shape[1], device=h.device).expand(h.shape[:2])
        return self._loop(h, LoopState(self.config, Stream(positions)))
