"""Exploratory runs of the study: one seed each, so that they may suggest something, not show it."""

from lt2theory.experiments.recipes import distance_probe
from lt2theory.experiments.study_recipes import PATTERNS, Setting, recall
from lt2theory.experiments.study_words import words
from lt2theory.models import LoopedConfig
from lt2theory.training import CurriculumConfig, OptimiserConfig, TaskConfig

MIXERS = ("nsa", "dsa", "retnet", "mamba2", "gla", "hgrn2", "deltanet", "kda", "mlstm")
MORE_HYBRIDS = ("gdn-dsa", "full-window")
SETTINGS = (Setting("dense", "plain"), Setting("final", "indexed"))
"""State-based recall as other code lays it out, and as the papers may supervise it."""

Configs = tuple[CurriculumConfig, ...]


def more_mixers() -> Configs:
    """State-based recall by the mixers and hybrids that block (1) leaves out, with four loops.

    Returns:
        Eleven runs.
    """
    return tuple(recall(family) for family in (*MIXERS, *MORE_HYBRIDS))


def other_settings() -> Configs:
    """State-based recall in other layouts and supervision.

    Returns:
        Two settings, three families each, with four loops.
    """
    families = ("softmax", "gdn-window", "full-gdn")
    return tuple(recall(family, setting=setting) for setting in SETTINGS for family in families)


def state_sizes() -> Configs:
    """Associative recall (MQAR) by the size of the state, with one loop and with four.

    Returns:
        Runs of two layers of width 128 with heads of 8, 16 and 32 channels; softmax beside them.
    """
    linear = [
        _mqar(family, num_loops, head_dim)
        for head_dim in (8, 16, 32)
        for num_loops in (1, 4)
        for family in ("gdn", "deltanet", "gla", "mamba2")
    ]
    return (*linear, *(_mqar("softmax", num_loops, 32) for num_loops in (1, 4)))


def hops() -> Configs:
    """Following a pointer 1, 2, 4, ... times, by loops.

    Returns:
        Runs of softmax, GDN and Full+GDN on two layers with one, two and four loops.
    """
    return tuple(
        _two_layers("p_hop", family, num_loops, (1, 2, 4, 8, 16))
        for family in ("softmax", "gdn", "full-gdn")
        for num_loops in (1, 2, 4)
    )


def needles() -> Configs:
    """A value in filler, by the length of the filler, with one loop and with four.

    Returns:
        Runs of softmax, GDN, GDN+Window and GLA on two layers, up to 1,024 tokens.
    """
    return tuple(
        _two_layers("needle", family, num_loops, (64, 128, 256, 512, 1024))
        for family in ("softmax", "gdn", "gdn-window", "gla")
        for num_loops in (1, 4)
    )


def reaches() -> Configs:
    """Windows of eight tokens by distance, up to their reach and one token beyond (theory W1).

    Returns:
        Runs with one, two and four loops.
    """
    changes = {"threads": None, "checkpoint_every": 500}
    return tuple(
        CurriculumConfig.model_validate(
            config.model_dump() | changes | {"label": f"distance-t{config.model.num_loops}"}
        )
        for config in (distance_probe(num_loops=loops, beyond=True) for loops in (1, 2, 4))
    )


def all_letters() -> Configs:
    """Word problems with every element as a letter, with as many loops as suffice (theory E8).

    Returns:
        Runs of S4, A5 and S5 under `accumulate`.
    """
    enough = {"S4": 2, "A5": 2, "S5": 4}
    return tuple(words(group, num_loops=loops, letters="all") for group, loops in enough.items())


def _mqar(family: str, num_loops: int, head_dim: int) -> CurriculumConfig:
    config = _two_layers("mqar", family, num_loops, (4, 8, 16, 32, 64))
    task = TaskConfig(name="mqar", knobs={"vocab": 512})
    model = config.model.model_dump() | {"head_dim": head_dim}
    label = f"mqar-{family}-k{head_dim}-t{num_loops}"
    return CurriculumConfig.model_validate(
        config.model_dump() | {"task": task, "model": model, "label": label}
    )


def _two_layers(
    task: str,
    family: str,
    num_loops: int,
    stages: tuple[int, ...],
) -> CurriculumConfig:
    return CurriculumConfig(
        task=TaskConfig(name=task),
        model=LoopedConfig(
            width=128,
            num_layers=2,
            num_loops=num_loops,
            pattern=PATTERNS[family],
            negative_eigenvalues=True,
            positions="learned",
            max_length=1,
        ),
        optimiser=OptimiserConfig(learning_rate=1e-3, weight_decay=0.01, warmup_steps=100),
        stages=stages,
        batch_size=128,
        evaluate_every=50,
        step_budget=2000,
        checkpoint_every=500,
        dtype="bfloat16",
        label=f"{task.replace('_', '-')}-{family}-t{num_loops}",
    )
