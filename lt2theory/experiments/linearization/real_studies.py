"""Studies on the real teacher: seven mixers, the starting point, and instruction."""

from collections.abc import Mapping

from lt2theory.experiments.linearization.cells import LinearCell, LinearCells, StudentWork
from lt2theory.experiments.linearization.teachers import TOKENS
from lt2theory.linearize.recipe import Recipe
from lt2theory.linearize.recipe_a import instruction_stage, recipe_a
from lt2theory.linearize.starts import STUDENT_MIXERS, Start
from lt2theory.linearize.untrained import axis_cases

SEEDS = (0, 1)
TILED = ("mlstm", "gdn")
"""Mixers that start from a wrong expansion of key-value heads too."""
MIXERS_TOKENS = 20_000_000
STARTS_TOKENS = 2_000_000
INSTRUCTION_TOKENS = 5_000_000
INSTRUCTION_STEPS = 150
"""Of 16 windows of 1024 tokens."""
CLAIMED = ("default", "nothing-copied", "only-copied")
"""Starts with two seeds; the others have one, and no claim."""


def mixers(tokens: int = MIXERS_TOKENS) -> LinearCells:
    """Recipe A into the seven mixers at one budget, and into two of them from a wrong expansion.

    Args:
        tokens: Of each cell, over all stages.

    Returns:
        18 cells: the first seed of all, then the second.
    """
    cells = []
    for seed in SEEDS:
        for mixer in STUDENT_MIXERS:
            cells.append(_mixer_cell(mixer, tokens, seed, "heads"))
        cells += [_mixer_cell(mixer, tokens, seed, "tiled") for mixer in TILED]
    return tuple(cells)


def _mixer_cell(mixer: str, tokens: int, seed: int, expansion: str) -> LinearCell:
    recipe = recipe_a(mixer, tokens=tokens, seed=seed)
    if expansion != "heads":
        recipe = changed(recipe, start=Start.model_validate({"expansion": expansion}))
    arm = mixer if expansion == "heads" else f"{mixer}-{expansion}"
    return real_cell("mixers", 2, arm, recipe, mixer=mixer, budget=tokens)


def starts(tokens: int = STARTS_TOKENS) -> LinearCells:
    """GDN from each starting point, one choice changed at a time, by distillation alone.

    Args:
        tokens: Of each cell.

    Returns:
        The cells: two seeds of the default and of its extremes, one of every other change.
    """
    base = recipe_a("gdn", tokens=tokens)
    last = base.stages[-1]
    cells = []
    for name, start, changes in start_arms():
        for seed in SEEDS if name in CLAIMED else SEEDS[:1]:
            recipe = changed(
                base,
                name=f"start-{name}",
                start=start,
                changes={**base.changes, **changes},
                stages=(last,),
                seed=seed,
            )
            cell = real_cell("starts", 4, name, recipe, mixer="gdn", budget=tokens)
            cells.append(cell if name in CLAIMED else exploratory(cell))
    order = {name: number for number, name in enumerate(CLAIMED)}
    return tuple(sorted(cells, key=lambda cell: order.get(cell.arm, len(order))))


def start_arms() -> list[tuple[str, Start, dict[str, object]]]:
    """Every start that is tried, by a name.

    Returns:
        Name, start, and changes of the student's config.
    """
    base = Start().model_dump()
    found: list[tuple[str, Start, dict[str, object]]] = []
    # Off is the recipe's own choice.
    cases = [c for c in axis_cases(("gdn",)) if c.changes != {"linear_rotation": "off"}]
    for case in cases:
        told = case.start.model_dump()
        differing = [key for key in told if told[key] != base[key]]
        if len(differing) > 1:
            name = "only-copied" if told["copied"] else "nothing-copied"
        else:
            parts = [f"{key}-{told[key]}" for key in differing]
            parts += [f"{key}-{value}" for key, value in case.changes.items()]
            name = "-".join(parts).replace("_", "-") or "default"
        found.append((name, case.start, dict(case.changes)))
    found.append(("expansion-tiled", Start(expansion="tiled"), {}))
    return found


def instruction(tokens: int = INSTRUCTION_TOKENS) -> LinearCells:
    """A GDN student as it is, tuned on conversations, and distilled on them.

    Args:
        tokens: Of recipe A before the conversations.

    Returns:
        Six cells.
    """
    cells = []
    for seed in SEEDS:
        base = recipe_a("gdn", tokens=tokens, seed=seed)
        arms = {"none": (), "tuning": (False,), "distillation": (True,)}
        for arm, more in arms.items():
            added = tuple(
                instruction_stage(INSTRUCTION_STEPS, aware=aware, batch_size=16) for aware in more
            )
            recipe = changed(base, name=f"instruction-{arm}", stages=base.stages + added)
            cells.append(real_cell("instruction", 7, arm, recipe, mixer="gdn", budget=tokens))
    return tuple(cells)


def real_cell(
    study: str, block: int, arm: str, recipe: Recipe, **facts: str | int | float
) -> LinearCell:
    """A student of the real teacher.

    Args:
        study: Its study.
        block: Place of the study.
        arm: Its arm.
        recipe: Its recipe.
        **facts: As in `LinearCell`.

    Returns:
        The cell.
    """
    return LinearCell(
        name=f"{study}-{arm.replace('_', '-')}-s{recipe.seed}",
        study=study,
        block=block,
        arm=arm,
        work=StudentWork(recipe=recipe),
        evaluation=TOKENS,
        facts=facts,
    )


def changed(recipe: Recipe, **fields: object) -> Recipe:
    """A recipe with other fields.

    Args:
        recipe: The recipe.
        **fields: Fields of `Recipe`.

    Returns:
        The recipe, checked anew.
    """
    told: Mapping[str, object] = {name: getattr(recipe, name) for name in Recipe.model_fields}
    return Recipe.model_validate({**told, **fields})


def exploratory(cell: LinearCell) -> LinearCell:
    """A cell without a claim.

    Args:
        cell: The cell.

    Returns:
        The same, marked.
    """
    fields = {name: getattr(cell, name) for name in LinearCell.__dataclass_fields__}
    return LinearCell(**{**fields, "exploratory": True})
