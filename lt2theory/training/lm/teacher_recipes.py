"""Looped teachers of bytes, small enough to be kept and to be trained again in minutes.

What is linearized in the studies must loop, be trained on real text, and be ours: softmax attention
in blocks of Ouro's kind (arXiv 2510.25741), four loops, each of which is read out and learns.
"""

from lt2theory.models import LoopedConfig
from lt2theory.training.lm.config import LmConfig
from lt2theory.training.lm.options import LmOptimiserConfig

SIZES = {"1m": (128, 5), "3m": (192, 7), "7m": (256, 8)}
"""Width and blocks: 1.0M, 3.2M and 6.4M parameters, heads of 64 channels."""
STEPS = {"1m": 2500, "3m": 2200, "7m": 1750}
"""Of 65,536 bytes each."""


def teacher_model(size: str) -> LoopedConfig:
    """The model of a teacher.

    Args:
        size: One of `SIZES`.

    Returns:
        Its config: sandwich norms, the final norm at the end of every loop, four loops.
    """
    width, layers = SIZES[size]
    return LoopedConfig(
        vocab_size=258,
        width=width,
        num_layers=layers,
        num_loops=4,
        pattern="full",
        num_heads=width // 64,
        positions="rope",
        loop_gate=False,
        sandwich_norm=True,
        norm_between_loops=True,
        loop_loss="mean",
        tie_embeddings=True,
        norm_eps=1e-6,
        # Tied: the embedding is the head too, whose logits must start small.
        embedding_std=0.02,
    )


def teacher_config(size: str, *, label: str = "teacher", seed: int = 0) -> LmConfig:
    """The run that trains a teacher.

    Args:
        size: One of `SIZES`.
        label: Name of the arm.
        seed: Of weights and windows.

    Returns:
        The configuration, without its corpus.
    """
    return LmConfig(
        model=teacher_model(size),
        optimiser=LmOptimiserConfig(
            learning_rate=1e-3,
            weight_decay=0.1,
            decay_embeddings=False,
            schedule="wsd",
            warmup_steps=150,
            decay_share=0.3,
            final_fraction=0.0,
        ),
        steps=STEPS[size],
        batch_size=64,
        sequence_length=1024,
        dtype="bfloat16",
        evaluate_every=500,
        evaluation_documents=8,
        seed=seed,
        label=label,
    )
