"""Recipes of state-based recall in the study: one configuration an arm and seed.

Each is named after what it varies. What a search may still change (`experiments.searches`) stands
in `experiments.study_chosen`; everything else belongs to the question and is the same for all arms
that are compared. The word problems are in `experiments.study_words`.
"""

from typing import Literal, NamedTuple

from lt2theory.experiments.recipes import LoopState, Supervision
from lt2theory.experiments.study_chosen import RECALL, RECALL_BY_FAMILY, RECALL_NEXT
from lt2theory.models import LoopedConfig
from lt2theory.training import CurriculumConfig, TaskConfig


class Setting(NamedTuple):
    """What of state-based recall is presentation: two settings are two problems.

    Attributes:
        supervision: Positions with a loss.
        layout: How the memory is written.
    """

    supervision: Supervision
    layout: Literal["plain", "indexed"]


HEADLINE = Setting("dense", "indexed")
"""A bit is asked at every swap, and each follows its address: what a prototype learnt soonest."""

RUNGS = (1, 2, 4, 8, 16, 32, 64, 128)
"""Swaps of state-based recall: three warm-up rungs, then LT2's stages 1 to 5."""
PATTERNS = {
    "softmax": "full",
    "gdn": "gdn",
    "gdn-window": "gdn,window(64)",
    "gdn-nsa": "gdn,nsa",
    "full-gdn": "full,gdn",
    "full-window": "full,window(64)",
    "gdn-dsa": "gdn,dsa",
    "nsa": "nsa",
    "dsa": "dsa",
    "retnet": "retnet",
    "mamba2": "mamba2",
    "gla": "gla",
    "hgrn2": "hgrn2",
    "deltanet": "deltanet",
    "kda": "kda",
    "mlstm": "mlstm",
}
"""Layer patterns by the family's name; hybrids alternate, as far as the depth goes."""

FAMILIES = ("softmax", "gdn", "gdn-window", "gdn-nsa", "full-gdn")
"""Those that are compared over seeds (block 1)."""

SETTLED = 500
"""Least steps of a rung in arms that go on after they have passed it."""


def recall(
    family: str,
    *,
    num_loops: int = 4,
    loop_state: LoopState = "rescan",
    negative_eigenvalues: bool = True,
    setting: Setting = HEADLINE,
    num_layers: int = 4,
    width: int = 256,
    seed: int = 0,
) -> CurriculumConfig:
    """State-based recall up to 128 swaps over as many bits: LT2's curriculum, stages 1 to 5.

    Whatever differs from the headline is in the label, so that settings cannot be mixed up. The
    score is that of the last query alone, whatever is supervised.

    Args:
        family: A key of `PATTERNS`.
        num_loops: Loops T.
        loop_state: `rescan` or `accumulate`.
        negative_eigenvalues: Beta in (0, 2) rather than (0, 1).
        setting: Which positions carry a loss, and how the memory is written.
        num_layers: Blocks N.
        width: Width d; heads are 64 wide.
        seed: Seed of weights and data.

    Returns:
        The configuration.
    """
    optimiser, fields = RECALL_BY_FAMILY.get(family, (RECALL, {}))
    changes = {
        loop_state: loop_state != "rescan",
        "beta1": not negative_eigenvalues,
        setting.supervision: setting.supervision != HEADLINE.supervision,
        setting.layout: setting.layout != HEADLINE.layout,
        f"n{num_layers}": num_layers != 4,
        f"d{width}": width != 256,
    }
    model = {
        "width": width,
        "num_layers": num_layers,
        "num_loops": num_loops,
        "pattern": PATTERNS[family],
        "loop_state": loop_state,
        "num_heads": width // 64,
        "negative_eigenvalues": negative_eigenvalues,
        "positions": "learned",
        "max_length": 1,
    }
    return CurriculumConfig(
        task=TaskConfig(name="state_based_recall", knobs=setting._asdict()),
        model=LoopedConfig.model_validate(model | fields),
        optimiser=optimiser,
        stages=RUNGS,
        batch_size=128,
        evaluate_every=50,
        step_budget=4000,
        checkpoint_every=500,
        dtype="bfloat16",
        seed=seed,
        label=arm_name("recall", family, num_loops, changes),
    )


def settled_recall(seed: int = 0) -> CurriculumConfig:
    """GDN+Window with four loops, which does not leave a rung as soon as it has passed it.

    Args:
        seed: Seed of weights and data.

    Returns:
        The headline setting, with at least `SETTLED` steps of every rung.
    """
    config = recall("gdn-window", seed=seed)
    changes = {"label": f"{config.label}-settled", "min_steps": SETTLED}
    return config.model_copy(update=changes)


def recall_by_rank(family: str, rank: int, seed: int = 0) -> CurriculumConfig:
    """A family with four loops under another recipe of its search.

    Args:
        family: A key of `RECALL_NEXT`.
        rank: The recipe's rank, 2 or 3.
        seed: Seed of weights and data.

    Returns:
        The headline setting otherwise.
    """
    config = recall(family, seed=seed)
    optimiser, fields = RECALL_NEXT[family][rank - 2]
    changes = {
        "label": f"{config.label}-rank{rank}",
        "optimiser": optimiser,
        "model": config.model.model_copy(update=fields),
    }
    return config.model_copy(update=changes)


def arm_name(task: str, family: str, num_loops: int, changes: dict[str, bool]) -> str:
    """Name of an arm: what it is about, and what of it is not the headline setting.

    Args:
        task: The problem.
        family: The mixers, or "" where they are always the same.
        num_loops: Loops T.
        changes: By name, whether that is varied.

    Returns:
        Parts joined by hyphens.
    """
    varied = [name for name, is_varied in changes.items() if is_varied]
    return "-".join(part for part in (task, family, f"t{num_loops}", *varied) if part)
