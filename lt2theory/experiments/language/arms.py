"""The arms of the study, question by question, in the order in which they are carried out.

All arms have the depth of 15 blocks and the width of 192 that one ratio of 1:4 divides evenly, and
read the same windows in the same order. What an arm has fewer parameters in its mixers it has more
in its FFNs, to within 0.7 %, but where the number of blocks is what changes.
"""

from typing import Any

from lt2theory.experiments.cells import in_order
from lt2theory.experiments.language.cells import LENGTH, LanguageCell, LanguageCells
from lt2theory.models import LoopedConfig
from lt2theory.models.parameters import parameter_count
from lt2theory.models.preset import changed
from lt2theory.training.lm import LmConfig, LmOptimiserConfig, StabilityConfig

STUDY = "language"
SEEDS = (0, 1, 2)
STEPS = 800
BATCH = 32
LAYERS, WIDTH, FFN = 15, 192, 960
BASE = "ratio-1to4"
"""The arm that most questions compare with: four loops, every fifth layer softmax."""
FULL, GDN = "ratio-1to0", "ratio-0to1"
RATE = 1.5e-3
FAST = 4
"""How many times that rate the question about stability takes as well."""
_FFN_STEP = 8

RATIOS = {
    FULL: "full",
    "ratio-1to1": "gdn,full",
    BASE: "gdn*4,full",
    "ratio-1to12": "gdn*12,full",
    GDN: "gdn",
}
"""Full to GDN: 15, 7, 3, 1 and 0 softmax layers of 15."""
PLACES = {
    "placement-bookend": "full*2,gdn*12,full",
    "placement-loop-windows": "full->window(256)->window(128)->window(64)",
    "placement-loop-gdn": "gdn->gdn->gdn->full",
}
"""As many softmax layers as 1:4 at the ends; attention that narrows from loop to loop; GDN in three
loops and softmax in the last, whose blocks have weights for both."""
Arms = dict[str, tuple[LoopedConfig, float]]
"""By name the model and the learning rate."""


def questions() -> dict[str, Arms]:
    """The questions with the arms that are made for each; later ones compare with earlier arms.

    Returns:
        By name, in order.
    """
    return {
        "ratio": {arm: (_model(pattern), RATE) for arm, pattern in RATIOS.items()},
        "placement": {arm: (_model(pattern), RATE) for arm, pattern in PLACES.items()},
        "gate": {
            "gate-1to0": (_model("full", output_gate=True), RATE),
            "gate-1to4": (_model("gdn*4,full", output_gate=True), RATE),
        },
        "state": {"state-accumulate": (_model("gdn", loop_state="accumulate"), RATE)},
        "stability": {
            "stability-retnet": (_retnet(), RATE),
            "stability-retnet-fast": (_retnet(), FAST * RATE),
            "stability-gdn-fast": (_model("gdn"), FAST * RATE),
        },
        "loops": {
            "loops-1": (_deep(1, LAYERS), RATE),
            "loops-2": (_deep(2, LAYERS), RATE),
            "loops-1-deep": (_deep(1, 4 * LAYERS), RATE),
            "loops-2-deep": (_deep(2, 2 * LAYERS), RATE),
        },
        "loop-gate": {"loop-gate-none": (_model("gdn*4,full", loop_gate=False), RATE)},
    }


def language_cells() -> LanguageCells:
    """All cells: question after question, of each all arms of a seed before the next seed.

    Returns:
        The study.
    """
    cells = [
        LanguageCell(
            arm=arm,
            study=study,
            block=block,
            config=_run(arm, model, rate, seed),
            priority=seed,
        )
        for block, (study, arms) in enumerate(questions().items(), 1)
        for arm, (model, rate) in arms.items()
        for seed in SEEDS
    ]
    return in_order(tuple(cells))


def _run(arm: str, model: LoopedConfig, rate: float, seed: int) -> LmConfig:
    """800 steps of 32,768 bytes. WSD, so that what is averaged out comes at the end."""
    return LmConfig(
        model=model,
        optimiser=LmOptimiserConfig(
            learning_rate=rate,
            weight_decay=0.1,
            decay_embeddings=False,
            schedule="wsd",
            warmup_steps=80,
            decay_share=0.3,
            final_fraction=0.0,
        ),
        stability=StabilityConfig(measure_every=100, measure_windows=4),
        steps=STEPS,
        batch_size=BATCH,
        sequence_length=LENGTH,
        dtype="bfloat16",
        log_every=5,
        evaluate_every=0,
        seed=seed,
        label=arm,
    )


def _drawn(pattern: str, **changes: Any) -> LoopedConfig:
    """LT2's proportions as in the small presets, at this depth and width."""
    linear = {"linear_head_dim": 48, "linear_value_dim": 96} if "gdn" in pattern else {}
    fields: dict[str, Any] = {
        "vocab_size": 258,
        "width": WIDTH,
        "num_layers": LAYERS,
        "num_loops": 4,
        "pattern": pattern,
        "num_heads": WIDTH // 64,
        "ffn_width": FFN,
        "positions": "rope",
        "tie_embeddings": True,
        "norm_eps": 1e-6,
        "embedding_std": 0.02,
    }
    return LoopedConfig.model_validate(fields | linear | changes)


def _model(pattern: str, **changes: Any) -> LoopedConfig:
    """A model with as many parameters as that of pure GDN, by the width of its FFNs."""
    drawn = _drawn(pattern, **changes)
    unit = 3 * WIDTH * LAYERS * _FFN_STEP
    more = round((parameter_count(_drawn("gdn")) - parameter_count(drawn)) / unit)
    return changed(drawn, ffn_width=FFN + _FFN_STEP * more)


def _retnet() -> LoopedConfig:
    """RetNet as FLA draws it: values twice as wide as keys, no convolution."""
    return _model("retnet", linear_head_dim=64, linear_value_dim=128, conv_width=0)


def _deep(loops: int, layers: int) -> LoopedConfig:
    """The base with other loops: as many blocks, or as many passes through one."""
    return changed(_model("gdn*4,full"), num_loops=loops, num_layers=layers)
