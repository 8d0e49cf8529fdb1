"""One-layer models whose FLOPs C1 counts, and what their definitions say the counts are."""

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from lt2theory.mixers import LinearMixer
from lt2theory.mixers.linear_attention import HadamardFeatureMap
from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.models.block import Block

ERASING = ("deltanet", "gdn", "kda", "gated_deltaproduct")
BLOCK = 16


def one_layer(
    name: str,
    num_loops: int,
    loop_state: str,
    backend: str,
    window: int,
    *,
    num_blocks: int = 4,
    top_k: int = 4,
) -> LoopedModel:
    """One layer without FFN."""
    sizes = {"width": 16, "num_heads": 2, "num_layers": 1, "ffn_width": 0, "num_loops": num_loops}
    chosen = {"pattern": name, "loop_state": loop_state, "backend": backend, "window": window}
    blocks = {"block_size": BLOCK, "num_blocks": num_blocks}
    indexer = {"top_k": top_k, "index_heads": 3, "index_dim": 5}
    return LoopedModel(LoopedConfig.model_validate({**sizes, **chosen, **blocks, **indexer}))


def counted_flops(model: LoopedModel, length: int, *, causal: bool, whole: bool) -> int:
    """What torch counts; of its attention kernels it does not know the one for a CPU."""
    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    of_kernel = _causal_attention_flops if causal else _attention_flops
    counter = FlopCounterMode(display=False, custom_mapping={kernel: of_kernel})
    with counter, torch.no_grad():
        if whole:
            model(torch.zeros(1, length, dtype=torch.int64))
        else:
            model.run_embedded(torch.zeros(1, length, model.config.width))
    return int(counter.get_total_flops())


def _attention_flops(q: torch.Size, k: torch.Size, v: torch.Size, *_: object, **__: object) -> int:
    """Scores and mixtures of shapes `[b h t k]`, `[b h m k]`, `[b h m v]`, without the mask."""
    return 2 * q[0] * q[1] * q[2] * k[2] * (k[3] + v[3])


def _causal_attention_flops(
    q: torch.Size, k: torch.Size, v: torch.Size, *_: object, **__: object
) -> int:
    """The same with the mask: a query t has t pairs."""
    return q[0] * q[1] * q[2] * (q[2] + 1) * (k[3] + v[3])


def predicted_flops(model: LoopedModel, length: int, steps: str) -> int:
    """Projections, then pairs (dense) or factor steps, from the definition of the mixer alone."""
    config, mixer = model.config, next(b.mixer for b in model.blocks if isinstance(b, Block))
    T, heads, width = config.num_loops, config.num_heads, config.key_dim
    total = 2 * T * length * _weights(mixer, heads)
    if not isinstance(mixer, LinearMixer):
        # NSA's reference has L x L pairs in each branch, and in the product that takes the means.
        dense = 4 if config.pattern == "nsa" else 1
        if config.pattern == "dsa":
            total += T * config.index_heads * 2 * (config.index_dim + 1) * length**2
        return total + dense * T * heads * 2 * (width + width) * length**2
    # Reading a state of k x v costs 2 k v: once a query, and once a factor that erases.
    reads = T
    if config.pattern in ERASING:
        cumulated = config.loop_state == "accumulate" and steps != "T"
        factors = config.num_factors if config.pattern == "gated_deltaproduct" else 1
        reads += factors * (T * (T + 1) // 2 if cumulated else T)
    normaliser = 1 if config.pattern == "mlstm" else 0
    return total + 2 * heads * width * (width + normaliser) * length * reads


def _weights(mixer: nn.Module, heads: int) -> int:
    """Entries of the matrices that a token meets; those of a feature map it meets in every head."""
    each = [m.weight.numel() for m in mixer.modules() if isinstance(m, nn.Linear)]
    maps = [m for m in mixer.modules() if isinstance(m, HadamardFeatureMap)]
    shared = sum(m.weight.numel() for f in maps for m in f.children() if isinstance(m, nn.Linear))
    return sum(each) + (heads - 1) * shared
