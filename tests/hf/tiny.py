"""Small models whose greedy texts vary, and tokens for them."""

from typing import Any

import torch
from torch import Tensor

from lt2theory.hf import LoopedLTConfig, LoopedLTForCausalLM
from lt2theory.models import LoopedConfig

VOCAB = 61
PATTERNS = {
    "gdn": {"pattern": "gdn"},
    "full": {"pattern": "full", "positions": "rope"},
    "window": {"pattern": "window(5)", "positions": "rope"},
    "nsa": {"pattern": "nsa", "block_size": 4, "num_blocks": 2, "window": 6},
    "dsa": {"pattern": "dsa", "top_k": 5},
    "mamba2": {"pattern": "mamba2"},
    "hybrid": {"pattern": "gdn,full", "positions": "rope", "output_gate": True},
    "accumulate": {"pattern": "gdn,full", "loop_state": "accumulate"},
    "ouro": {
        "pattern": "full",
        "positions": "rope",
        "sandwich_norm": True,
        "norm_between_loops": True,
        "exit_gate": True,
        "loop_loss": "expected",
        "loop_gate": False,
    },
}


def config(**fields: Any) -> LoopedConfig:
    """A model of a few thousand parameters, started so wide that its texts do not repeat."""
    values = {"width": 16, "num_heads": 2, "num_loops": 2, "ffn_width": 24, "init_std": 0.4}
    return LoopedConfig.model_validate({"vocab_size": VOCAB, **values, **fields})


def model(
    dtype: torch.dtype = torch.float64, *, exit_threshold: float | None = None, **fields: Any
) -> LoopedLTForCausalLM:
    """The model, in evaluation mode; token 0 is padding and 1 ends a text."""
    own = LoopedLTConfig(
        config(**fields), exit_threshold=exit_threshold, pad_token_id=0, eos_token_id=1
    )
    wrapped = LoopedLTForCausalLM(own)
    with torch.no_grad():
        for parameter in wrapped.parameters():
            generator = torch.Generator().manual_seed(parameter.numel())
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return wrapped.to(dtype).eval()


def tokens(*shape: int, seed: int = 0) -> Tensor:
    """Random ids, neither padding nor the end."""
    return torch.randint(2, VOCAB, shape, generator=torch.Generator().manual_seed(seed))


def left_padded(ids: Tensor, lengths: list[int]) -> tuple[Tensor, Tensor]:
    """The last `lengths` tokens of each row behind padding, and the mask."""
    mask = torch.arange(ids.shape[1]) >= ids.shape[1] - torch.tensor(lengths)[:, None]
    return torch.where(mask, ids, 0), mask.long()
