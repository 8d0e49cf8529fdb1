"""The loop state of a decoder: keys and values go into buffers that never move."""

from jaxtyping import Float
from torch import Tensor

from lt2theory.mixers import Slot, Stream
from lt2theory.models.config import LoopedConfig
from lt2theory.models.loop_state import LoopState
from lt2theory.models.static_cache import StaticSlot
from lt2theory.ops.factors import AttentionInputs, BlockSparseInputs, IndexedInputs
from lt2theory.ops.fused.decode_attention import attend_to_buffer
from lt2theory.ops.fused.sparse_step import block_step, indexed_step


class BufferedState(LoopState):
    """A loop state whose keys and values are written into buffers, at a place the device knows.

    Args:
        config: Config of the model.
        stream: Where the one token of every row stands.
        slots: Working slots; those of attention layers hold the buffers themselves.
        buffers: The buffers.
        length: Tokens so far, without this one: int64 `[1]`.
        first: First real position of every row `[b]`.
    """

    def __init__(
        self,
        config: LoopedConfig,
        stream: Stream,
        slots: dict[tuple[int, int], Slot],
        buffers: dict[tuple[int, int], StaticSlot],
        length: Tensor,
        first: Tensor,
    ) -> None:
        super().__init__(config, stream, slots)
        self._buffers = buffers
        self._length = length
        self._first = first

    def _attend(
        self, layer: int, loop: int, inputs: AttentionInputs, slot: Slot
    ) -> Float[Tensor, "b t h v"]:
        held = slot.tensors()
        new = {"keys": inputs.k, "values": inputs.v}
        if isinstance(inputs, IndexedInputs):
            new["index_keys"] = inputs.index_k
        for name, token in new.items():
            buffer = held[name]
            buffer.index_copy_(1, self._length % buffer.shape[1], token.to(buffer.dtype))
        buffered = self._buffers[layer, loop]
        length, first = self._length + 1, self._first
        if isinstance(inputs, IndexedInputs):
            o = indexed_step(inputs, held, length=length, first=first)
        elif isinstance(inputs, BlockSparseInputs):
            o = block_step(inputs, held | buffered.pooled, length=length, first=first)
        else:
            o = attend_to_buffer(
                inputs.q[:, 0],
                held["keys"],
                held["values"],
                length=length,
                first=first,
                ring=buffered.ring,
                scale=inputs.scale,
            )
        return o[:, None]
