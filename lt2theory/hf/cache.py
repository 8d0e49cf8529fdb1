"""A `LoopCache` under the interface that generation of `transformers` expects of a cache."""

import copy
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import Cache
from typing_extensions import override

from lt2theory.models import Decoder, LoopCache, LoopedModel
from lt2theory.models.snapshots import is_cuttable


class LoopedLTCache(Cache):
    """What a model has read so far, for all its layers and loops.

    With a capacity, single tokens go through a `Decoder` from the second call on: buffers of fixed
    size and, on a GPU, one CUDA graph a step. Rows and lengths are fixed then.

    Args:
        model: The model; `LoopedLTForCausalLM.model`.
        batch_size: Rows.
        capacity: Tokens that a row may come to have, for steps of fixed buffers; None grows.
        snapshot_every: As for `LoopedModel.new_cache`: lets `crop` go back over layers that keep
            no entry a token.

    Raises:
        ValueError: As `LoopedModel.new_cache`.
    """

    def __init__(
        self,
        model: LoopedModel,
        batch_size: int,
        *,
        capacity: int | None = None,
        snapshot_every: int | None = None,
    ) -> None:
        # No layers of transformers' own: everything that would ask them is overridden below.
        super().__init__(layers=[])
        self.model = model
        self.capacity = capacity
        self.looped: LoopCache = model.new_cache(batch_size, snapshot_every=snapshot_every)
        self.ends_in_padding = False
        """Whether the last token of some row was padding: on the right, or a row not yet begun."""
        self._decoder: Decoder | None = None

    def read(
        self, tokens: Tensor, *, documents: Tensor | None, last_logits: int | None
    ) -> Float[Tensor, "b n vocab"]:
        """Read the next tokens.

        Args:
            tokens: Token ids `[b t]`.
            documents: As for `LoopedModel.forward`.
            last_logits: As for `LoopedModel.forward`.

        Returns:
            The logits.

        Raises:
            ValueError: As for `LoopedModel.forward`, or there are more tokens than the capacity.
        """
        single = tokens.shape[1] == 1 and last_logits != 0
        if self.capacity is not None and self.looped.length and single:
            if self._decoder is None:
                self._decoder = Decoder(self.model, self.looped, capacity=self.capacity)
            return self._decoder.step(tokens[:, 0].to(torch.int64))[:, None]
        self._refuse_fixed("more than a token a row")
        self.note(documents)
        logits: Tensor = self.model(
            tokens, self.looped, documents=documents, last_logits=last_logits
        )
        return logits

    def note(self, documents: Tensor | None) -> None:
        """Note whether the tokens of a call end in padding.

        Args:
            documents: As for `read`.
        """
        if documents is not None and documents.shape[1]:
            self.ends_in_padding = bool((documents[:, -1] < 0).any())

    @property
    def has_documents(self) -> bool:
        """Whether the stream began with padding or documents, so that they go on being told."""
        return self.looped.documents is not None

    @override
    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.looped.length if self._decoder is None else self._decoder.length

    @override
    def get_max_length(self, layer_idx: int | None = None) -> int:
        return -1 if self.capacity is None else self.capacity

    @override
    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        return self.get_seq_length() + query_length, 0

    @property
    @override
    def batch_size(self) -> int:
        return self.looped.batch_size

    @property
    @override
    def is_compileable(self) -> bool:
        return False  # a Decoder makes its own graph

    @property
    @override
    def is_initialized(self) -> bool:
        return self.get_seq_length() > 0

    @property
    @override
    def is_croppable(self) -> bool:
        specs = (spec for loop in self.looped.config.loops for spec in loop)
        kept = self.looped.snapshot_every is not None or all(map(is_cuttable, specs))
        return kept and self._decoder is None

    @property
    @override
    def is_sliding(self) -> list[bool]:
        return [False]

    @property
    @override
    def is_linear(self) -> list[bool]:
        # Generation asks whether the cache knows its length, which ours does for every mixer.
        return [False]

    @override
    def reorder_cache(self, beam_idx: Tensor) -> None:
        self._refuse_fixed("other rows, as beam search takes them,")
        self.looped.reorder(beam_idx)

    @override
    def batch_repeat_interleave(self, repeats: int) -> None:
        self._refuse_fixed("other rows")
        self.looped.repeat(repeats)

    @override
    def batch_select_indices(self, indices: Tensor) -> None:
        self._refuse_fixed("other rows")
        self.looped.reorder(indices)

    @override
    def crop(self, tokens_to_remove: int) -> None:
        """Forget the last tokens.

        Args:
            tokens_to_remove: How many, as a negative number; 0 does nothing.

        Raises:
            ValueError: It is positive, there are fewer tokens, or a layer keeps no entry a token
                and there are no snapshots.
        """
        if tokens_to_remove > 0:
            raise ValueError(f"tokens_to_remove: {tokens_to_remove} must be <= 0")
        if tokens_to_remove < 0:
            self._refuse_fixed("fewer tokens")
            self.looped.roll_back(-tokens_to_remove, model=self.model)

    @override
    def reset(self) -> None:
        self._decoder, self.ends_in_padding = None, False
        self.looped.crop(0)

    def __deepcopy__(self, memo: dict[int, Any]) -> "LoopedLTCache":
        """A cache that goes its own way from here, of the same model; such is prompt reuse."""
        self._refuse_fixed("a copy")
        twin = copy.copy(self)
        twin.looped = self.looped.copy()
        return twin

    def __repr__(self) -> str:
        return f"LoopedLTCache(batch_size={self.batch_size}, length={self.get_seq_length()})"

    def _refuse_fixed(self, what: str) -> None:
        """Refuse what buffers of fixed size cannot take.

        Raises:
            ValueError: The cache is one of fixed size and has begun to step.
        """
        if self._decoder is not None:
            raise ValueError(
                f"cache: {what} is not possible once a cache of fixed capacity steps token by "
                'token; use cache_implementation="dynamic"'
            )
