"""Recipes of the study: one configuration an arm and seed, each named after what it varies.

What a search may still change (`experiments.searches`) stands in `experiments.study_chosen`;
everything else belongs to the question and is the same for all arms that are compared.
"""

from typing import Literal, NamedTuple

from lt2theory.experiments.recipes import LoopState, Supervision
from lt2theory.experiments.study_chosen import RECALL, RECALL_BY_FAMILY, WORDS, WORDS_BY_LOOPS
from lt2theory.models import LoopedConfig
from lt2theory.training import CurriculumConfig, OptimiserConfig, TaskConfig
from tasks.groups import group_order


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
LENGTHS = (4, 8, 16, 32)
"""Training lengths of the word problems; the test goes to four times the last."""
_LEAST_WORDS = 50_000
"""Fewer different words leave too few in the evaluation split to confirm a pass mark of 0.99."""

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
        label=_label("recall", family, num_loops, changes),
    )


def words(
    group: str,
    *,
    num_loops: int = 2,
    loop_state: LoopState = "accumulate",
    negative_eigenvalues: bool = True,
    pattern: str = "deltanet",
    seed: int = 0,
) -> CurriculumConfig:
    """A group's word problem on one looped block, trained up to 32 tokens and tested at 64 and 128.

    Without a convolution the transitions of the first loop are functions of the token alone, as in
    theory E8. All arms have one size, but for the loop residual's vector a loop.

    Args:
        group: The group, as the task `group_word` names it.
        num_loops: Loops T.
        loop_state: `rescan` or `accumulate`; the same for T = 1.
        negative_eigenvalues: Beta in (0, 2) rather than (0, 1).
        pattern: The mixer.
        seed: Seed of weights and data.

    Returns:
        The configuration.
    """
    arm = loop_state if num_loops > 1 else "one loop"
    optimiser, fields = WORDS_BY_LOOPS.get(arm, (WORDS, {}))
    changes = {
        loop_state: num_loops > 1,
        "beta1": not negative_eigenvalues,
        pattern: pattern != "deltanet",
    }
    return CurriculumConfig(
        task=TaskConfig(name="group_word", knobs={"group": group}),
        model=LoopedConfig.model_validate(
            {
                "width": 128,
                "num_layers": 1,
                "num_loops": num_loops,
                "pattern": pattern,
                "loop_state": loop_state if num_loops > 1 else "rescan",
                "num_heads": 8,
                "conv_width": 0,
                "negative_eigenvalues": negative_eigenvalues,
                "init_std": 0.04,
            }
            | fields
        ),
        optimiser=optimiser,
        stages=tuple(n for n in LENGTHS if group_order(group) ** n >= _LEAST_WORDS),
        test_stages=(2 * LENGTHS[-1], 4 * LENGTHS[-1]),
        batch_size=256,
        pass_mark=0.99,
        evaluate_every=50,
        step_budget=2500,
        min_steps=500,
        checkpoint_every=500,
        seed=seed,
        label=_label(group.lower(), "", num_loops, changes),
    )


def exact_start(seed: int = 0, *, slowed: int = 1) -> CurriculumConfig:
    """S3 under `rescan` from an exact solution (theory L6): does training keep what it can express?

    The normalisations' epsilon is 1e-3, not 1e-5 as elsewhere: see `training.exact_start`.

    Args:
        seed: Seed of the data, and of the weights that the solution leaves free.
        slowed: Divides the recipe's learning rate.

    Returns:
        The configuration: as many steps as a stage that fails, however well it does.
    """
    config = words("S3", loop_state="rescan", seed=seed)
    rate = config.optimiser.learning_rate / slowed
    changes = {
        "label": f"{config.label}-exact" + (f"-slowed{slowed}" if slowed > 1 else ""),
        "start": "s3_rescan",
        "model": config.model.model_dump() | {"norm_eps": 1e-3},
        "optimiser": config.optimiser.model_dump() | {"learning_rate": rate},
        "stages": LENGTHS[-1:],
        "min_steps": config.step_budget,
    }
    return CurriculumConfig.model_validate(config.model_dump() | changes)


def long_parity(
    *,
    num_loops: int = 1,
    loop_state: LoopState = "rescan",
    negative_eigenvalues: bool = True,
    seed: int = 0,
) -> CurriculumConfig:
    """Parity on one delta-rule block, trained up to 256 tokens and tested at 1,024.

    Args:
        num_loops: Loops T.
        loop_state: `rescan` or `accumulate`.
        negative_eigenvalues: Beta in (0, 2) rather than (0, 1).
        seed: Seed of weights and data.

    Returns:
        The configuration.
    """
    changes = {loop_state: num_loops > 1, "beta1": not negative_eigenvalues}
    return CurriculumConfig(
        task=TaskConfig(name="parity"),
        model=LoopedConfig(
            num_layers=1,
            num_loops=num_loops,
            pattern="deltanet",
            loop_state=loop_state,
            conv_width=0,
            negative_eigenvalues=negative_eigenvalues,
        ),
        optimiser=OptimiserConfig(learning_rate=3e-3, warmup_steps=100, schedule="constant"),
        stages=(16, 64, 256),
        test_stages=(1024,),
        pass_mark=0.99,
        evaluate_every=50,
        step_budget=1500,
        min_steps=200,
        checkpoint_every=500,
        seed=seed,
        label=_label("parity", "", num_loops, changes),
    )


def _label(task: str, family: str, num_loops: int, changes: dict[str, bool]) -> str:
    """Name of an arm: what it is about, and what of it is not the headline setting."""
    varied = [name for name, is_varied in changes.items() if is_varied]
    return "-".join(part for part in (task, family, f"t{num_loops}", *varied) if part)
