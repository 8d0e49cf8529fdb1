"""One token a row at a time, from buffers that never move: what a CUDA graph can replay.

`LoopedModel.forward` with a cache allocates at every call and waits for the host at every kernel.
Here a cache is copied once into buffers of fixed size, a step updates them in place, and on a GPU
the whole step (all loops, layers and the head) is one graph.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from lt2theory.mixers import Slot, Stream
from lt2theory.models.arguments import check_tensor, check_whole
from lt2theory.models.block import Block
from lt2theory.models.buffered_state import BufferedState
from lt2theory.models.cache import LoopCache
from lt2theory.models.config import LoopedConfig
from lt2theory.models.fused_block import PackedBlock
from lt2theory.models.fused_layers import KERNEL_DTYPES, fuse, why_not_fused
from lt2theory.models.looped import LoopedModel
from lt2theory.models.static_cache import BY_POSITION, new_buffers
from lt2theory.ops.autocast import weights_rounded_anew
from lt2theory.ops.workload import is_interpreting


class Decoder:
    """Continues a cached stream token by token.

    Args:
        model: The model.
        cache: A cache of it that has read at least one token, with no row ending in padding. It is
            copied and stays as it is.
        capacity: Tokens that the stream may have in all.
        graph: Whether to replay a CUDA graph; None does on a GPU.
        fused: Whether layers that have them run through the kernels of a `PackedBlock`; their
            weights are copied then, and later changes are not seen. None does on a GPU.

    Raises:
        ValueError: The cache is empty or of another model, the capacity does not exceed its length,
            a layer has no cache of fixed capacity, or a graph is wanted without a GPU.
    """

    def __init__(
        self,
        model: LoopedModel,
        cache: LoopCache,
        *,
        capacity: int,
        graph: bool | None = None,
        fused: bool | None = None,
    ) -> None:
        cache.check(
            torch.empty(cache.batch_size, 0, device=cache.device),
            model.config,
            model.new_cache(1).model_id,
            model.dtype,
        )
        _check(model.config, cache, capacity)
        on_gpu = cache.device.type == "cuda"
        if graph and not on_gpu:
            raise ValueError(f"graph: True needs a CUDA device, the model is on {cache.device}")
        fused = on_gpu if fused is None else fused
        if fused and not (on_gpu or is_interpreting()):
            raise ValueError(f"fused: True needs a CUDA device, the model is on {cache.device}")
        self.model = model
        self.capacity = capacity
        self.length = cache.length
        batch, device = cache.batch_size, cache.device
        self._count = torch.tensor([cache.length], device=device)
        reached = self._count.expand(batch) if cache.next_position is None else cache.next_position
        self._first = (self._count - reached).clone()
        self._buffers = new_buffers(model.config, cache, capacity, self._first)
        self._fused = self._fuse() if fused else {}
        self._tokens = torch.zeros(batch, dtype=torch.int64, device=device)
        self._logits: Tensor | None = None
        self._graph: torch.cuda.CUDAGraph | None = None
        self._wants_graph = on_gpu if graph is None else graph

    @torch.no_grad()
    def step(self, tokens: Tensor) -> Float[Tensor, "b vocab"]:
        """Read one token a row.

        Args:
            tokens: Token ids `[b]`, int64.

        Returns:
            The logits after it; the next step overwrites them.

        Raises:
            ValueError: The tokens have another shape or dtype, or the buffers are full.
        """
        check_tensor("tokens", tokens)
        if tokens.shape != self._tokens.shape or tokens.dtype != torch.int64:
            raise ValueError(
                f"tokens: got {tokens.dtype} of shape {tuple(tokens.shape)}; must be int64 of "
                f"shape {tuple(self._tokens.shape)}"
            )
        if self.length >= self.capacity:
            raise ValueError(f"tokens: the decoder is full (capacity {self.capacity})")
        self._tokens.copy_(tokens)
        if not self._wants_graph:
            self._logits = self._run()
        elif self._graph is None:
            self._capture()
        else:
            self._graph.replay()
        self.length += 1
        assert self._logits is not None
        return self._logits

    def pretend(self, length: int, *, generator: torch.Generator | None = None) -> None:
        """Take the buffers for full up to a length, whatever they hold: for timing a long context.

        Args:
            length: Tokens, below the capacity.
            generator: Fills keys and values with random numbers, so that what is selected is
                spread over the text; None leaves them as they are.

        Raises:
            ValueError: The length is not inside the buffers.
        """
        check_whole("length", length)
        if not self.length <= length < self.capacity:
            allowed = f"{self.length}..{self.capacity - 1}"
            raise ValueError(f"length: got {length}, allowed {allowed}")
        self.length = length
        self._count.fill_(length)
        if generator is None:
            return
        for buffer in self._buffers.values():
            held = buffer.slot.tensors()
            kept = [x for name, x in held.items() if name in BY_POSITION]
            for x in (*kept, *buffer.pooled.values()):
                x.normal_(generator=generator)

    def _fuse(self) -> dict[int, PackedBlock]:
        """Pack the layers that have kernels."""
        model, config = self.model, self.model.config
        fused: dict[int, PackedBlock] = {}
        if model.dtype not in KERNEL_DTYPES:
            return fused
        for number, layer in enumerate(config.layers):
            block = model.blocks[number]
            assert isinstance(block, Block)
            if len(set(config.specs_at(number))) > 1:
                continue  # a packed block is the same in all loops
            if why_not_fused(config, layer.mixer, self.capacity) is None:
                fused[number] = fuse(block, config)
        return fused

    def _capture(self) -> None:
        """Take the first step, and record it on the way."""
        kept = [buffer.clone() for buffer in self._changed()]
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            self._run()  # compiles kernels, which a graph cannot
        torch.cuda.current_stream().wait_stream(aside)
        for buffer, before in zip(self._changed(), kept, strict=True):
            buffer.copy_(before)
        self._graph = torch.cuda.CUDAGraph()
        with weights_rounded_anew(), torch.cuda.graph(self._graph):
            self._logits = self._run()
        self._graph.replay()

    def _changed(self) -> list[Tensor]:
        """What a step does not just write again: all but what has a place in the text."""
        held = [buffer.slot.tensors() for buffer in self._buffers.values()]
        kept = [x for some in held for name, x in some.items() if name not in BY_POSITION]
        return [self._count, *kept]

    def _run(self) -> Tensor:
        model, config = self.model, self.model.config
        stream = Stream((self._count - self._first)[:, None])
        slots = {place: Slot(**buffer.slot.tensors()) for place, buffer in self._buffers.items()}
        state = BufferedState(config, stream, slots, self._buffers, self._count, self._first)
        length = self._count + 1
        h = model.embed(self._tokens[:, None], stream)
        for loop in range(config.num_loops):
            start = h
            for layer, block in enumerate(model.blocks):
                if layer in self._fused:
                    buffer = self._buffers[layer, loop]
                    h = self._fused[layer].step(h[:, 0], buffer, length, self._first)[:, None]
                    continue
                assert isinstance(block, Block)
                number = config.mixer_number(layer, loop)
                h = block(h, state.mix_at(layer, loop), mixer=number)
            if config.loop_gate:
                h = h + model.loop_gate[loop] * start
            if config.norm_between_loops:
                h = model.norm(h)
        for place, slot in slots.items():
            if place[0] not in self._fused:
                self._buffers[place].keep(slot)
        self._count += 1
        return model.read_out(h)[:, 0]


def _check(config: LoopedConfig, cache: LoopCache, capacity: int) -> None:
    """Refuse what cannot be continued.

    Raises:
        ValueError: See `Decoder`.
    """
    if cache.length == 0:
        raise ValueError("cache: it is empty; feed the prompt with LoopedModel.forward first")
    check_whole("capacity", capacity)
    if capacity <= cache.length:
        raise ValueError(f"capacity: got {capacity}, allowed are more than {cache.length} (cached)")
    if config.max_length is not None and capacity > config.max_length:
        raise ValueError(
            f"capacity: got {capacity}, allowed are at most {config.max_length} (max_length)"
        )
