"""A block of an attention mixer as six to nine kernels a decode step."""

from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F
from typing_extensions import override

from lt2theory.mixers import DeepSeekSparseAttention, NativeSparseAttention, SoftmaxAttention
from lt2theory.mixers.base import at_least_float32
from lt2theory.models.block import Block
from lt2theory.models.config import LoopedConfig
from lt2theory.models.fused_block import PackedBlock, weight_of
from lt2theory.models.static_cache import StaticSlot

if TYPE_CHECKING:
    from lt2theory.ops.fused.triton_place import IndexLayout

_ALIGNED = 16
"""Every row of projections begins at a multiple of so many numbers, as wide loads want it."""


def parts_of(mixer: SoftmaxAttention) -> dict[str, int]:
    """Where every projection of a mixer begins in a row of the packed ones.

    Args:
        mixer: The mixer.

    Returns:
        The beginnings by name; queries, keys and values come first, as the kernels want it.
    """
    names = ["q_proj", "k_proj", "v_proj"]
    if isinstance(mixer, NativeSparseAttention):
        names.append("g_proj")
    if isinstance(mixer, DeepSeekSparseAttention):
        names += ["index_q_proj", "index_k_proj", "index_weight_proj"]
    if mixer.options.output_gate:
        names.append("output_gate_proj" if "g_proj" in names else "g_proj")
    begin, row = {}, 0
    for name in names:
        begin[name] = row
        row += len(weight_of(mixer.get_submodule(name)))
    return begin


class FusedAttention(PackedBlock):
    """A block whose mixer is full or window attention, NSA or DSA.

    Args:
        block: The block.
        config: Config of its model.
    """

    def __init__(self, block: Block, config: LoopedConfig) -> None:
        mixer = block.mixer
        assert isinstance(mixer, SoftmaxAttention)
        self.parts = parts_of(mixer)
        super().__init__(block, list(self.parts), config)
        # What stands behind the last projection is not looked at.
        rows = -len(self.projections) % _ALIGNED
        self.projections = F.pad(self.projections, (0, 0, 0, rows))
        options = mixer.options
        self.options = options
        self.turns = None
        if options.rope_base is not None:
            device = self.projections.device
            self.turns = (
                _frequencies(options.head_dim, options.rope_base, device),
                _frequencies(options.index_dim, options.rope_base, device),
            )
        self.index = self._index(mixer) if isinstance(mixer, DeepSeekSparseAttention) else None

    @override
    def mix(
        self, projected: Float[Tensor, "b n"], buffer: StaticSlot, length: Tensor, first: Tensor
    ) -> Float[Tensor, "b m"]:
        from lt2theory.ops.fused.triton_place import place_token

        options, held = self.options, buffer.slot.tensors() | buffer.pooled
        # A block that is longer than the buffer is never complete, whatever its size.
        size = min(options.block_size, held["keys"].shape[1] + 1) if buffer.pooled else 0
        place_token(
            projected,
            held,
            heads=options.num_heads,
            length=length,
            first=first,
            turns=self.turns,
            index=self.index,
            block_size=size,
        )
        if size or self.index or buffer.ring:
            return self._attend_to_chosen(projected, held, length, first, size=size)
        return self._attend_to_all(projected, held, length, first)

    def _attend_to_chosen(
        self,
        projected: Tensor,
        held: dict[str, Tensor],
        length: Tensor,
        first: Tensor,
        *,
        size: int,
    ) -> Tensor:
        """NSA, DSA or a window."""
        from lt2theory.ops.fused.triton_block_step import choose_blocks
        from lt2theory.ops.fused.triton_choice import highest_places
        from lt2theory.ops.fused.triton_chosen_attention import Gates, chosen_attention
        from lt2theory.ops.fused.triton_index_step import index_order

        options, batch = self.options, len(projected)
        arrived = self.arrived(batch, options.num_kv_heads)
        compressed = chosen = None
        if self.index is not None:
            order = index_order(projected, held["index_keys"], self.index, length=length)
            count = min(options.top_k, order.shape[1])
            chosen = highest_places(order, count, arrived, length=length, first=first)
        elif size:
            compressed, chosen = choose_blocks(
                projected,
                held["pooled_keys"],
                held["pooled_values"],
                arrived,
                heads=options.num_heads,
                length=length,
                first=first,
                block_size=size,
                num_blocks=options.num_blocks,
            )
        return chosen_attention(
            projected,
            held["keys"],
            held["values"],
            arrived,
            projected.new_empty(batch, self.out.shape[1]),
            length=length,
            first=first,
            chosen=chosen,
            size=max(size, 1),
            window=None if self.index is not None else options.window,
            ring=chosen is None,
            compressed=compressed,
            gates=Gates(self.parts["g_proj"] if size else None, self.gate),
        )

    def _attend_to_all(
        self, projected: Tensor, held: dict[str, Tensor], length: Tensor, first: Tensor
    ) -> Tensor:
        from lt2theory.ops.fused.triton_decode_attention import decode_attention

        options = self.options
        queries = projected[:, : options.num_heads * options.head_dim]
        o = decode_attention(
            queries.unflatten(1, (options.num_heads, -1)),
            held["keys"],
            held["values"],
            length,
            first,
            arrived=self.arrived(len(projected), options.num_kv_heads),
        ).flatten(1)
        if self.gate is None:
            return o
        gate = projected[:, self.gate : self.gate + o.shape[1]]
        return (o * torch.sigmoid(at_least_float32(gate))).to(o.dtype)

    @property
    def gate(self) -> int | None:
        """Where the output gate begins in a row of projections, if there is one."""
        if not self.options.output_gate:
            return None
        return self.parts.get("output_gate_proj", self.parts.get("g_proj"))

    def _index(self, mixer: DeepSeekSparseAttention) -> "IndexLayout":
        from lt2theory.ops.fused.triton_place import IndexLayout

        norm = mixer.index_k_norm
        return IndexLayout(
            heads=self.options.index_heads,
            width=self.options.index_dim,
            queries=self.parts["index_q_proj"],
            keys=self.parts["index_k_proj"],
            weights=self.parts["index_weight_proj"],
            gain=norm.weight.detach(),
            bias=norm.bias.detach(),
            eps=norm.eps,
        )


def _frequencies(width: int, base: float, device: torch.device) -> Tensor:
    """As in `rotate`."""
    half = width // 2
    return base ** -(torch.arange(half, device=device, dtype=torch.float32) / half)
