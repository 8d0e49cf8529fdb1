"""The baseline of the study's bench: FLA's Gated DeltaNet layers in a plain loop."""

import importlib
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from lt2theory.models import LoopedConfig


class FlaLoop(nn.Module):
    """Blocks of FLA's layer and a SwiGLU, looped, as somebody would write them with FLA at hand.

    All layers are Gated DeltaNet, whatever the pattern says. FLA refuses its backward on some
    versions of Triton because of a fault that this bench's speeds do not depend on; the refusal is
    lifted here, where nothing is learnt from the numbers.

    Args:
        config: Sizes of the model.

    Attributes:
        config: The same.
        layer: Name of the layer.
    """

    layer = "GatedDeltaNet"

    def __init__(self, config: LoopedConfig) -> None:
        super().__init__()
        layers = importlib.import_module("fla.layers")
        kernels: Any = importlib.import_module("fla.ops.common.chunk_o")
        kernels.TRITON_ABOVE_3_7_1 = True
        self.config = config
        sizes: dict[str, Any] = {
            "hidden_size": config.width,
            "num_heads": config.num_heads,
            "head_dim": config.key_dim,
            "expand_v": 1,
            "allow_neg_eigval": config.negative_eigenvalues,
        }
        self.embedding = nn.Embedding(config.vocab_size, config.width)
        self.mixers = nn.ModuleList(layers.GatedDeltaNet(**sizes) for _ in config.layers)
        self.up = _linears(config, config.width, 2 * config.hidden_width)
        self.down = _linears(config, config.hidden_width, config.width)
        self.norms = nn.ModuleList(nn.RMSNorm(config.width) for _ in range(2 * len(config.layers)))
        self.norm = nn.RMSNorm(config.width)
        self.head = nn.Linear(config.width, config.vocab_size, bias=False)

    def forward(self, tokens: Tensor, losses: dict[str, Tensor] | None = None) -> Tensor:
        """Logits of every position.

        Args:
            tokens: Token ids `[b t]`.
            losses: Takes none; the layers have no losses of their own.

        Returns:
            Logits `[b t vocab]`.
        """
        x = self.embedding(tokens)
        for _ in range(self.config.num_loops):
            for place, mixer in enumerate(self.mixers):
                x = x + mixer(self.norms[2 * place](x))[0]
                gate, value = self.up[place](self.norms[2 * place + 1](x)).chunk(2, -1)
                x = x + self.down[place](F.silu(gate) * value)
        logits: Tensor = self.head(self.norm(x))
        return logits


def _linears(config: LoopedConfig, width: int, out: int) -> nn.ModuleList:
    return nn.ModuleList(nn.Linear(width, out, bias=False) for _ in config.layers)
