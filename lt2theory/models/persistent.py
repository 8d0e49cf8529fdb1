"""All blocks and loops of a delta-rule model as one kernel a decode step."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from lt2theory.models.block import Block
from lt2theory.models.config import LoopedConfig
from lt2theory.models.fused_block import FusedDelta
from lt2theory.models.fused_layers import why_not_fused
from lt2theory.models.static_cache import StaticSlot
from lt2theory.ops.workload import is_interpreting

MOST_ROWS = 16


@dataclass(frozen=True)
class Tiles:
    """How the weights are cut, and how they are read.

    Attributes:
        inputs: Inputs of a slice.
        slices: Slices of a tile that are taken at once.
        warps: Warps of a program, at most one a slice.
        stages: Tiles in flight, and one.
        ahead: Tiles by which requests to the L2 cache run ahead of the loads' use; 0 makes none.
    """

    inputs: int = 128
    slices: int = 8
    warps: int = 8
    stages: int = 6
    ahead: int = 0

    outputs = 16

    @property
    def chunk(self) -> int:
        """Inputs that are taken at once."""
        return self.inputs * self.slices


def why_not_persistent(
    config: LoopedConfig, batch: int, dtype: torch.dtype, device: torch.device, capacity: int
) -> str | None:
    """Why a model's steps cannot be one kernel.

    Args:
        config: The model's config.
        batch: Rows.
        dtype: Its weights' dtype.
        device: Where it is.
        capacity: Tokens that the buffers hold.

    Returns:
        The reason, or None where they can.
    """
    mixers = {layer.mixer for layer in config.layers}
    if len(mixers) > 1 or not mixers <= {"gdn", "deltanet"}:
        return f"needs layers of one delta rule, got {', '.join(sorted(mixers))}"
    if batch > MOST_ROWS:
        return f"at most {MOST_ROWS} rows, got {batch}"
    if config.norm_between_loops:
        return "a norm between loops needs whole rows"
    options = config.mixer_options(config.layers[0])
    if options.head_dim > 128 or options.value_dim > 256:
        return f"a state of {options.head_dim} x {options.value_dim} does not fit into registers"
    if not is_interpreting():
        if dtype not in {torch.bfloat16, torch.float16}:
            return f"no fast products of a few rows in {dtype}"
        if device.type != "cuda" or torch.cuda.get_device_capability(device)[0] != 9:
            return "measured on Hopper only"
    return why_not_fused(config, config.layers[0].mixer, capacity)


class PersistentBlocks:
    """Blocks whose weights lie in the order in which one kernel takes them (a copy of them).

    Args:
        blocks: The blocks of the model.
        config: Its config; `why_not_persistent` has no reason.
        buffers: The buffers of every (layer, loop). Their states and histories are moved into
            tensors of all of them, in place of which the buffers then hold views.
        loop_gate: rho_tau `[T d]`, or None without gates.
        tiles: How the weights are cut.
        programs: Programs of the kernel; None takes as many as the GPU has multiprocessors.
    """

    def __init__(
        self,
        blocks: Sequence[Block],
        config: LoopedConfig,
        buffers: dict[tuple[int, int], StaticSlot],
        loop_gate: Tensor | None,
        *,
        tiles: Tiles | None = None,
        programs: int | None = None,
    ) -> None:
        self.tiles = tiles or Tiles()
        packed, small = [], []
        for block in blocks:
            one = FusedDelta(block, config)
            packed.append(self._pack(one))
            small.append((one.taps.T.contiguous() if one.taps.dim() == 2 else one.taps, one))
        first = small[0][1]
        self.first, self.config = first, config
        self.weights = torch.stack(packed)
        self.taps = torch.stack([taps for taps, _ in small])
        self.norm = torch.stack([one.norm for _, one in small])
        decays = [one.decay or (one.norm, one.norm) for _, one in small]
        self.rate, self.bias = (torch.stack([pair[n] for pair in decays]) for n in (0, 1))
        self.projections = first.projections.shape[0]
        places = [(n, loop) for loop in range(config.num_loops) for n in range(len(blocks))]
        self.state = self._gather(buffers, places, "state")
        self.history = self._gather(buffers, places, "conv") if config.conv_width else self.taps
        self.gates = self.weights if loop_gate is None else loop_gate.detach().contiguous()
        self.gated_loops = loop_gate is not None
        self.rows = self.state.shape[1]
        self.programs = programs or _multiprocessors(self.weights.device)
        self._allocate()

    def _pack(self, one: FusedDelta) -> Tensor:
        stages = [one.projections, one.out]
        if one.up is not None and one.down is not None:
            half = self.tiles.outputs // 2
            pair = one.up.unflatten(0, (2, -1))
            pair = F.pad(pair, (0, 0, 0, -pair.shape[1] % half)).unflatten(1, (-1, half))
            stages += [pair.transpose(0, 1).flatten(0, 2), one.down]
        return torch.cat([in_tiles(weight, self.tiles) for weight in stages])

    def _gather(
        self, buffers: dict[tuple[int, int], StaticSlot], places: list[tuple[int, int]], name: str
    ) -> Tensor:
        whole = torch.stack([buffers[place].slot.tensors()[name] for place in places])
        for view, place in zip(whole, places, strict=True):
            setattr(buffers[place].slot, name, view)
        return whole

    def _allocate(self) -> None:
        """Buffers between the stages; their padding stays zero."""
        rows = 8 if self.rows <= 8 else MOST_ROWS
        _, _, heads, _, values = self.state.shape
        like, chunk = self.weights, self.tiles.chunk
        self._block_rows = rows

        def padded(width: int) -> Tensor:
            return like.new_zeros(rows, -(-width // chunk) * chunk)

        self._h = padded(self.config.width)
        self._read = padded(heads * values)
        self._hidden = padded(max(self.config.hidden_width, 1))
        self._projected = like.new_empty(rows, self.projections)
        self._start = like.new_empty(rows, self.config.width)
        tiles = -(-self.config.width // self.tiles.outputs)
        self._squares = like.new_empty(tiles, rows, dtype=torch.float32)
        self._counter = torch.zeros(1, dtype=torch.int32, device=like.device)

    def step(self, h: Float[Tensor, "b d"]) -> Float[Tensor, "b d"]:
        """Take one token through all loops.

        Args:
            h: Token embeddings.

        Returns:
            The residual stream after the last loop; the next step overwrites it.
        """
        inside = self._h[: self.rows, : self.config.width]
        inside.copy_(h)
        self._launch()
        return inside

    def _launch(self) -> None:
        import triton

        from lt2theory.ops.fused.triton_persistent import persistent_kernel

        config, tiles, first = self.config, self.tiles, self.first
        places, rows, heads, keys, values = self.state.shape
        persistent_kernel[(self.programs,)](
            self._counter, self.weights, self._h, self._read, self._hidden, self._projected,
            self._squares, self._start, self.gates,
            self.history, self.taps, self.state, self.rate, self.bias, self.norm,
            rows, keys**-0.5, config.norm_eps, 2.0 if first.negative else 1.0,
            N=config.num_layers, BLOCKS=places, LOOP_GATE=self.gated_loops,
            D=config.width, PROJ=self.projections, HEADS=heads, DK=keys, DV=values,
            F=config.hidden_width, CONV=config.conv_width or 0,
            DECAY=first.decay is not None, GATE=first.gated,
            BK=triton.next_power_of_2(keys), BV=triton.next_power_of_2(values),
            TAP_ROWS=triton.next_power_of_2(max((config.conv_width or 0) - 1, 1)),
            ROUNDS=triton.cdiv(rows * heads, self.programs),
            NORM_PARTS=triton.next_power_of_2(len(self._squares)), BATCH=rows,
            G=self.programs, BM=self._block_rows, BN=tiles.outputs, BD=tiles.inputs,
            SLICES=tiles.slices, STAGES=tiles.stages, AHEAD=tiles.ahead,
            SYNC=not is_interpreting(),
            PREC="ieee" if self.weights.dtype == torch.float32 else "tf32",
            num_warps=tiles.warps, num_stages=tiles.stages, launch_cooperative_grid=True,
        )  # fmt: skip


def in_tiles(weight: Float[Tensor, "n d"], tiles: Tiles) -> Float[Tensor, " m"]:
    """A matrix as tiles of outputs, each as parts, each as slices `[outputs inputs]`.

    Args:
        weight: The matrix.
        tiles: How it is cut.

    Returns:
        The flat tiles, filled up with zeros.
    """
    outputs, inputs = weight.shape
    whole = F.pad(weight, (0, -inputs % tiles.chunk, 0, -outputs % tiles.outputs))
    cut = whole.unflatten(1, (-1, tiles.slices, tiles.inputs)).unflatten(0, (-1, tiles.outputs))
    flat: Tensor = cut.permute(0, 2, 3, 1, 4).flatten()
    return flat


def _multiprocessors(device: torch.device) -> int:
    if device.type != "cuda":
        return 1  # the interpreter runs programs one after another, so none may wait for another
    return torch.cuda.get_device_properties(device).multi_processor_count
