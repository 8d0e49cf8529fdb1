"""Studies on our own looped teachers: hybrids, sizes and budgets, and the grain of gates."""

from collections.abc import Mapping, Sequence

from lt2theory.experiments.linearization.cells import (
    LinearCell,
    LinearCells,
    SelectionWork,
    StudentWork,
)
from lt2theory.experiments.linearization.teachers import BYTES, teacher, teacher_of
from lt2theory.linearize.choice import bookend_layers, uniform_layers
from lt2theory.linearize.hybrids import student_config
from lt2theory.linearize.recipe import Recipe
from lt2theory.linearize.recipe_b import aligned_recipe, recipe_b
from lt2theory.linearize.selection import SelectionConfig
from lt2theory.models import LoopedConfig
from lt2theory.models.parameters import parameter_count

SEEDS = (0, 1)
HYBRIDS_TOKENS = 40_000_000
SIZES_TOKENS = 5_000_000
GATES_TOKENS = 10_000_000
LENGTHS = (1024, 2048)
"""Windows of the continuation."""
BUDGETS = (1, 2, 4)
SIZED = ("gdn", "kda", "linear_attention")
GATED = {"additive": "gla", "delta": "gdn"}
GRAINS = {"none": 1, "head": 1, "grouped": 8, "channel": 1}
"""Decays a head, with the groups of those that are grouped."""


def hybrids(tokens: int = HYBRIDS_TOKENS) -> LinearCells:
    """The largest looped teacher all linear, and with a quarter of its layers kept in softmax.

    Args:
        tokens: Of each student.

    Returns:
        A selection, and four arms of two seeds: `linear`, `selected`, `uniform`, `bookend`.
    """
    source = teacher("7m")
    layers = teacher_of(source).num_layers
    count = layers // 4
    chooser = _selection(source, tokens)
    keep: dict[str, Sequence[int]] = {
        "linear": (),
        "selected": (),
        "uniform": uniform_layers(layers, count),
        "bookend": bookend_layers(layers, count),
    }
    cells = [chooser]
    for seed in SEEDS:
        for arm, kept in keep.items():
            recipe = _recipe_b("gdn", tokens, seed, keep=kept)
            one = chooser if arm == "selected" else None
            cells.append(_cell("hybrids", 3, arm, recipe, source, selection=one, budget=tokens))
    return tuple(cells)


def _selection(source: LinearCell, tokens: int) -> LinearCell:
    """Short distillations of every layer, three times over."""
    aligned = aligned_recipe("gdn", tokens=max(tokens // 13, 32768))
    work = SelectionWork(
        recipe=aligned,
        selection=SelectionConfig(steps=100, last=10, batch_size=32, dtype="bfloat16"),
    )
    return LinearCell(
        name="hybrids-selection",
        study="hybrids",
        block=3,
        arm="selection",
        work=work,
        evaluation=BYTES,
        teacher=source,
        facts={"mixer": "gdn", "size": source.arm},
    )


def sizes(tokens: int = SIZES_TOKENS) -> LinearCells:
    """Three mixers from teachers of three sizes, at once, twice and four times a budget.

    Args:
        tokens: Of the smallest budget.

    Returns:
        27 cells of one seed each: the fits are over sizes and budgets.
    """
    cells = []
    for size in ("1m", "3m", "7m"):
        for factor in BUDGETS:
            for mixer in SIZED:
                recipe = _recipe_b(mixer, factor * tokens, 0)
                arm, budget = f"{mixer}-{size}-x{factor}", factor * tokens
                cells.append(
                    _cell("sizes", 5, arm, recipe, teacher(size), mixer=mixer, budget=budget)
                )
    return tuple(cells)


def gates(tokens: int = GATES_TOKENS) -> LinearCells:
    """Decays of four grains behind an additive and a delta write, with equally many parameters.

    The state of GLA adds what it writes, that of GDN erases before. What an arm has fewer in its
    gates it has more in its FFNs, to within a hidden unit, which begins silent.

    Args:
        tokens: Of each cell.

    Returns:
        16 cells: eight arms, two seeds.
    """
    source = teacher("3m")
    arms = gate_changes(teacher_of(source))
    cells = []
    for seed in SEEDS:
        for arm, (pattern, changes) in arms.items():
            recipe = _recipe_b(pattern, tokens, seed, changes=changes)
            cells.append(_cell("gates", 6, arm, recipe, source, mixer=pattern, budget=tokens))
    return tuple(cells)


def gate_changes(source: LoopedConfig) -> dict[str, tuple[str, dict[str, str | int]]]:
    """The arms of `gates`.

    Args:
        source: The teacher.

    Returns:
        By name the mixer, and the fields of the student's config that differ from the teacher's.
    """
    arms: dict[str, tuple[str, dict[str, str | int]]] = {}
    for write, mixer in GATED.items():
        for grain, groups in GRAINS.items():
            changes: dict[str, str | int] = {
                "linear_rotation": "off",
                "decay_grain": grain,
                "decay_groups": groups,
            }
            arms[f"{write}-{grain}"] = mixer, changes
    counts = {arm: _parameters(source, *made) for arm, made in arms.items()}
    unit = 3 * source.width * source.num_layers
    for arm, (_, changes) in arms.items():
        more = round((max(counts.values()) - counts[arm]) / unit)
        changes["ffn_width"] = source.hidden_width + more
    return arms


def _parameters(source: LoopedConfig, pattern: str, changes: Mapping[str, object]) -> int:
    return parameter_count(student_config(source, pattern, **changes))


def _recipe_b(
    mixer: str,
    tokens: int,
    seed: int,
    *,
    keep: Sequence[int] = (),
    changes: Mapping[str, object] | None = None,
) -> Recipe:
    return recipe_b(mixer, keep, tokens=tokens, lengths=LENGTHS, changes=changes, seed=seed)


def _cell(
    study: str,
    block: int,
    arm: str,
    recipe: Recipe,
    source: LinearCell,
    *,
    selection: LinearCell | None = None,
    **facts: str | int | float,
) -> LinearCell:
    return LinearCell(
        name=f"{study}-{arm.replace('_', '-')}-s{recipe.seed}",
        study=study,
        block=block,
        arm=arm,
        work=StudentWork(recipe=recipe),
        evaluation=BYTES,
        teacher=source,
        selection=selection,
        facts={"mixer": "gdn", "size": source.arm, **facts},
    )
