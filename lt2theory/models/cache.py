"""The cache of a looped model: one slot a (layer, loop), and what a caller may do with it.

Weight sharing does not share state: under `rescan` and `accumulate` streaming equals the parallel
form exactly when every loop of every layer keeps its own convolution history and matrix state, or
its own keys and values (claim L5; LT2's public code keeps one
cache a layer).
"""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from lt2theory.mixers import Slot
from lt2theory.models.arguments import check_tensor, check_whole
from lt2theory.models.cache_contents import BOOKKEEPING, CacheContents
from lt2theory.models.snapshots import Slots, Snapshot, layers_in_the_way, restore, segments_begun


class LoopCache(CacheContents):
    """Made by `LoopedModel.new_cache`; every forward call that is given it continues the sequence.

    Copies, rows and going back are exact: afterwards the model continues as after a fresh run on
    the tokens and rows that are left.
    """

    def copy(self) -> "LoopCache":
        """Make a cache that goes its own way from here.

        Returns:
            A cache of the same model with tensors of its own.
        """
        return self._mapped(Tensor.clone)

    def reorder(self, rows: Tensor) -> None:
        """Take rows by their number, in place: the survivors of a beam search, a smaller batch.

        Args:
            rows: Row that each new row continues `[n]`, integers in `0..batch_size-1`; any
                n >= 1, in any order, with repetitions.

        Raises:
            ValueError: `rows` has another shape, dtype or range. The cache is untouched then.
        """
        check_tensor("rows", rows)
        whole = not (rows.is_floating_point() or rows.is_complex() or rows.dtype == torch.bool)
        if rows.dim() != 1 or not rows.numel() or not whole:
            raise ValueError(
                f"rows: got {rows.dtype} of shape {tuple(rows.shape)}; "
                "must be integers of shape [n], n >= 1"
            )
        if bool((rows < 0).any()) or bool((rows >= self.batch_size).any()):
            raise ValueError(f"rows: {rows.tolist()} must lie in 0..{self.batch_size - 1}")
        index = rows.to(self.device, torch.int64)
        taken = self._mapped(lambda x: x.index_select(0, index))
        self.keep(replace(taken, batch_size=rows.numel()))

    def repeat(self, times: int) -> None:
        """Put copies of each row behind it, in place: several continuations of one prompt.

        Args:
            times: Rows for each row now, at least 1; row i becomes rows `i * times` onwards.

        Raises:
            ValueError: `times` is below 1 or no whole number.
        """
        check_whole("times", times)
        if times < 1:
            raise ValueError(f"times: {times} must be >= 1")
        self.reorder(torch.arange(self.batch_size).repeat_interleave(times))

    def crop(self, length: int, *, model: nn.Module | None = None) -> None:
        """Forget every token after the first `length`, in place, as if they had not been seen.

        Attention over the whole past is cut. Where a layer cannot be (a matrix state, a
        convolution history, a window that has forgotten), the cache goes back to the last snapshot
        at or before `length` and the model reads the tokens since then again: at most
        `snapshot_every - 1` of them, none where `length` is a multiple of it. They are computed
        under the gradient mode and autocast of this call.

        Args:
            length: Tokens to keep in every row, padding included, in `0..self.length`.
            model: The model that the cache belongs to; needed only to read tokens again.

        Raises:
            ValueError: `length` is out of range; a layer stands in the way and there are no
                snapshots; tokens must be read again and there is no model, or it is another one.
                The cache is untouched then.
        """
        check_whole("length", length)
        if not 0 <= length <= self.length:
            raise ValueError(f"length: {length} must lie in 0..{self.length}, the tokens cached")
        if length == self.length:
            return
        start, snapshot = self._start_of_crop(length)
        if start < length and model is None:
            points = ", ".join(str(s.length) for s in self.snapshots) or "none"
            raise ValueError(
                f"model: tokens {start}..{length - 1} must be read again; pass model=, or crop to "
                f"a snapshot (there are: 0, {points})"
            )
        draft = self._back_at(start, snapshot)
        if start < length:
            assert model is not None
            assert self.tokens is not None
            documents = None if self.documents is None else self.documents[:, start:length]
            model(self.tokens[:, start:length], draft, documents=documents, last_logits=0)
        self.keep(draft)

    def roll_back(self, tokens: int, *, model: nn.Module | None = None) -> None:
        """Forget the last tokens, in place: `crop` counted from the end.

        Args:
            tokens: How many, in `0..self.length`.
            model: As for `crop`.

        Raises:
            ValueError: As for `crop`.
        """
        check_whole("tokens", tokens)
        if not 0 <= tokens <= self.length:
            raise ValueError(f"tokens: {tokens} must lie in 0..{self.length}, the tokens cached")
        self.crop(self.length - tokens, model=model)

    def draft(self) -> "LoopCache":
        """Make what one call updates; the call may still fail, and then this cache is as before.

        Returns:
            A cache with the same tensors, to be updated by the call and then handed to `keep`.
        """
        return replace(self, slots=self.working_slots(), snapshots=list(self.snapshots))

    def _mapped(self, change: Callable[[Tensor], Tensor]) -> "LoopCache":
        """A cache with every tensor changed; a tensor or slot in two places stays one."""
        changed: dict[int, Tensor] = {}
        moved: dict[int, Slot] = {}

        def once(x: Tensor) -> Tensor:
            if id(x) not in changed:
                changed[id(x)] = change(x)
            return changed[id(x)]

        def all_of(slots: Slots) -> Slots:
            for slot in slots.values():
                if id(slot) not in moved:
                    tensors = {name: once(x) for name, x in slot.tensors().items()}
                    moved[id(slot)] = replace(slot, **tensors)
            return {place: moved[id(slot)] for place, slot in slots.items()}

        mapped = replace(
            self,
            slots=all_of(self.slots),
            snapshots=[replace(each, slots=all_of(each.slots)) for each in self.snapshots],
        )
        for name in BOOKKEEPING:
            x = getattr(self, name)
            setattr(mapped, name, None if x is None else once(x))
        return mapped

    def _start_of_crop(self, length: int) -> tuple[int, Snapshot | None]:
        """Where the tokens to be read again begin, and the snapshot from there, if one is used."""
        blocked = layers_in_the_way(self.slots, self.length)
        if length == 0 or not blocked:
            return length, None
        if self.snapshot_every is None:
            names = ", ".join(f"{layer} ({self._mixers_of(layer)})" for layer in blocked)
            raise ValueError(
                f"length: {length} cannot be cropped to, since layers {names} do not keep the "
                f"past token by token; allowed: 0 and {self.length}, or any with "
                "new_cache(batch_size, snapshot_every=n)"
            )
        before = [each for each in self.snapshots if each.length <= length]
        return (before[-1].length, before[-1]) if before else (0, None)

    def _mixers_of(self, layer: int) -> str:
        """Names of what a layer is in the loops."""
        return ", ".join(dict.fromkeys(spec.mixer for spec in self.config.specs_at(layer)))

    def _back_at(self, length: int, snapshot: Snapshot | None) -> "LoopCache":
        """A draft of this cache as it was after `length` tokens."""
        draft = replace(
            self,
            length=length,
            slots=restore(self.slots, length, snapshot),
            snapshots=[each for each in self.snapshots if each.length <= length],
        )
        for name in BOOKKEEPING:
            setattr(draft, name, None)
        if length and self.tokens is not None:
            draft.tokens = self.tokens[:, :length].clone()
        if length and self.segments is not None and self.documents is not None:
            # Wherever one can go back to, the segments of all tokens are kept.
            draft.segments = self.segments[:, :length].clone()
            draft.documents = self.documents[:, :length].clone()
            draft.num_segments, draft.next_position = segments_begun(draft.segments)
        return draft
