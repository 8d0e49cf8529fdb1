"""What the delta-rule mixers share: projections, short convolutions and the erase strength."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from lt2theory.mixers.base import LinearMixer, at_least_float32
from lt2theory.mixers.norm import unit
from lt2theory.mixers.options import MixerOptions
from lt2theory.mixers.short_conv import ShortConvolution, short_convolution
from lt2theory.mixers.stream import Slot, Stream
from lt2theory.ops.factors import Factors
from lt2theory.ops.fused.rows import can_fuse
from lt2theory.ops.fused.short_conv import delta_inputs, padding


class DeltaMixer(LinearMixer):
    """Base of DeltaNet, GDN, KDA and DeltaProduct: unit keys and queries, `beta = sigmoid(x W_b)`.

    Parameter names are FLA's: `q_proj`, `k_proj`, `v_proj`, `b_proj`, `{q,k,v}_conv1d.weight`.
    With several factors a token, the outputs of k, v and b are those of the factors in turn.
    """

    def __init__(self, options: MixerOptions, num_factors: int = 1) -> None:
        super().__init__(options)
        self.num_factors = num_factors
        keys = options.num_heads * options.head_dim
        values = options.num_heads * options.value_dim
        self.q_proj = nn.Linear(options.width, keys, bias=False)
        self.k_proj = nn.Linear(options.width, num_factors * keys, bias=False)
        self.v_proj = nn.Linear(options.width, num_factors * values, bias=False)
        self.b_proj = nn.Linear(options.width, num_factors * options.num_heads, bias=False)
        if options.conv_width:
            self.q_conv1d = ShortConvolution(keys, options.conv_width)
            self.k_conv1d = ShortConvolution(num_factors * keys, options.conv_width)
            self.v_conv1d = ShortConvolution(num_factors * values, options.conv_width)
        self.o_proj = nn.Linear(values, options.width, bias=False)

    def project(
        self, x: Float[Tensor, "b t d"], stream: Stream, slot: Slot | None
    ) -> tuple[Float[Tensor, "b t h k"], Float[Tensor, "b t f h k"], Float[Tensor, "b t f h v"]]:
        """Queries, keys and values after convolution, silu and normalisation.

        Args:
            x: Input `[b t d]`.
            stream: Segments of these tokens.
            slot: Convolution history, updated.

        Returns:
            q `[b t h k]`, k `[b t f h k]`, v `[b t f h v]`; q and k have length one.
        """
        z = at_least_float32(torch.cat([self.q_proj(x), self.k_proj(x), self.v_proj(x)], -1))
        if self.options.conv_width:
            convs = (self.q_conv1d, self.k_conv1d, self.v_conv1d)
            z = short_convolution(z, torch.cat([c.weight for c in convs]), stream, slot)
        widths = [layer.out_features for layer in (self.q_proj, self.k_proj, self.v_proj)]
        q, k, v = F.silu(z).split(widths, -1)
        factors = (self.num_factors, self.options.num_heads, -1)
        q = unit(q.unflatten(-1, (self.options.num_heads, -1)))
        return q, unit(k.unflatten(-1, factors)), v.unflatten(-1, factors)

    def fuses(self, x: Float[Tensor, "b t d"], slot: Slot | None) -> bool:
        """Whether kernels of ours make the factors: where there is no history to keep.

        Args:
            x: Input `[b t d]`.
            slot: Convolution history, or None.

        Returns:
            Whether `fused_factors` serves.
        """
        return bool(self.options.conv_width and slot is None and can_fuse(x))

    def fused_factors(
        self,
        x: Float[Tensor, "b t d"],
        stream: Stream,
        decay: tuple[Float[Tensor, "h d"], Float[Tensor, " h"], Float[Tensor, " h"]] | None = None,
    ) -> Factors:
        """Queries, keys, values, beta and the decay by one product and our kernels.

        Args:
            x: Input `[b t d]`.
            stream: Segments of these tokens.
            decay: Projection, `A_log` and `dt_bias` of one decay a head, or None without one here.

        Returns:
            The factors; the first one of a token decays.
        """
        options = self.options
        layers = (self.q_proj, self.k_proj, self.v_proj, self.b_proj)
        projection, log_rate, bias = decay or (None, None, None)
        matrices = [layer.weight for layer in layers]
        matrices += [] if projection is None else [projection]
        spare = padding(sum(len(matrix) for matrix in matrices))
        matrices += [x.new_zeros(spare, options.width, dtype=matrices[0].dtype)] if spare else []
        convs = (self.q_conv1d, self.k_conv1d, self.v_conv1d)
        taps = torch.cat([conv.weight[:, 0] for conv in convs])
        z = F.linear(x, torch.cat(matrices))
        widths = [options.head_dim, options.value_dim]
        sizes = [options.num_heads, self.num_factors, *widths, self.beta_range]
        q, k, v, beta, log_decay = delta_inputs(z, taps, log_rate, bias, sizes, stream.segments)
        return Factors(q, k, v, log_decay=None if decay is None else log_decay, beta=beta)

    @property
    def beta_range(self) -> int:
        """Upper end of beta: 1, or 2 with negative eigenvalues."""
        return 2 if self.options.negative_eigenvalues else 1

    def erase_strength(self, x: Float[Tensor, "b t d"]) -> Float[Tensor, "b t f h"]:
        """Beta, in (0, 1), or in (0, 2) with negative eigenvalues.

        Args:
            x: Input `[b t d]`.

        Returns:
            `[b t f h]`.
        """
        raw: Tensor = at_least_float32(self.b_proj(x)).unflatten(-1, (self.num_factors, -1))
        beta = torch.sigmoid(raw)
        return beta if self.beta_range == 1 else self.beta_range * beta

    @override
    def initialise(self, generator: torch.Generator, std: float) -> None:
        super().initialise(generator, std)
        for module in self.children():
            if isinstance(module, ShortConvolution):
                module.initialise(generator)
