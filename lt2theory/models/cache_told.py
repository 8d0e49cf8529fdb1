"""What a cache will cost, told from the configuration."""

import torch

from lt2theory.mixers import MIXERS, MLSTM, DeepSeekSparseAttention, LinearMixer, WindowAttention
from lt2theory.mixers.short_conv import ShortConvolution
from lt2theory.models.config import LoopedConfig
from lt2theory.models.parameters import meta_model, mixer_of


def told_bytes(
    config: LoopedConfig, batch: int, length: int, dtype: torch.dtype = torch.bfloat16
) -> dict[str, int]:
    """What a cache will hold, from the configuration alone (claim C2).

    Args:
        config: Config of the model.
        batch: Rows.
        length: Tokens of a row, at least as many as a convolution has taps.
        dtype: Dtype of the model; matrix states and convolution histories are float32 at least.

    Returns:
        Bytes of the kinds `keys`, `index_keys`, `state` and `convolution`, over all layers and
        loops.
    """
    wide = torch.promote_types(dtype, torch.float32).itemsize
    told = dict.fromkeys(("keys", "index_keys", "state", "convolution"), 0)
    model = meta_model(config)
    for layer in range(config.num_layers):
        for loop, spec in enumerate(config.specs_at(layer)):
            options, kind = config.mixer_options(spec), MIXERS[spec.mixer]
            if issubclass(kind, LinearMixer):
                parts = mixer_of(model, layer, loop).modules()
                convolutions = [part for part in parts if isinstance(part, ShortConvolution)]
                channels = sum(part.weight.shape[0] for part in convolutions)
                told["convolution"] += wide * (config.conv_width - 1) * channels
                normaliser = options.head_dim + 1 if issubclass(kind, MLSTM) else 0
                a_head = options.head_dim * options.value_dim + normaliser
                told["state"] += wide * options.num_heads * a_head
                continue
            window = options.window if issubclass(kind, WindowAttention) else None
            kept = length if window is None else min(length, window - 1)
            pair = options.num_kv_heads * (options.head_dim + options.value_dim)
            told["keys"] += dtype.itemsize * kept * pair
            if issubclass(kind, DeepSeekSparseAttention):
                told["index_keys"] += dtype.itemsize * length * options.index_dim
    return {kind: batch * count for kind, count in told.items()}
