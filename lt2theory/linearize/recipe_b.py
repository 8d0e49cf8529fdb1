"""Recipe B: a looped teacher into a hybrid, as LT2 did with Ouro (arXiv 2605.20670, section 4).

LT2 publishes budgets and lengths (100M tokens at 512, 600M at 4096, 600M at 32768) but no learning
rates. Its budgets are those of hybrid distillation (arXiv 2512.20569), so the rates are taken from
that code (fla-org/hybrid-distillation at d7467e3): 1e-3 with half a cosine, then 1e-4 for mixers
and 7e-6 for the rest, constant. The last stage's 1e-5 is that of most published continuations.
"""

from collections.abc import Mapping, Sequence

from lt2theory.linearize.alignment import Alignment
from lt2theory.linearize.hybrid_distillation import HybridDistillation
from lt2theory.linearize.language import LanguageModelling
from lt2theory.linearize.recipe import Recipe
from lt2theory.linearize.stages import Stage
from lt2theory.training.lm import LmOptimiserConfig

SHARES = (1 / 13, 6 / 13, 6 / 13)
"""Of all tokens, by stage: 100M, 600M and 600M."""
OTHER_RATE = 0.07
"""Of what is no mixer, as a share of the rate of mixers: 7e-6 of 1e-4."""


def pre_alignment_stage(tokens: int, *, batch_size: int = 96, sequence_length: int = 512) -> Stage:
    """Linear mixers learn the teacher's residual stream at every layer and loop.

    Args:
        tokens: To read.
        batch_size: Windows of a step.
        sequence_length: Tokens of a window.

    Returns:
        The stage; mixers alone are trained, each fed the teacher's stream.
    """
    return Stage(
        name="pre-alignment",
        objective=Alignment(target="stream", distance="norm"),
        trained="linear_mixers",
        tokens=tokens,
        batch_size=batch_size,
        sequence_length=sequence_length,
        optimiser=LmOptimiserConfig(
            learning_rate=1e-3, schedule="cosine", warmup_steps=0, weight_decay=0.0
        ),
    )


def hybrid_stage(
    tokens: int,
    keep: Sequence[int],
    *,
    objective: HybridDistillation | None = None,
    batch_size: int = 32,
    sequence_length: int = 4096,
) -> Stage:
    """Some layers get their softmax back, and everything learns the teacher's likeliest tokens.

    Args:
        tokens: To read.
        keep: Layers that keep softmax, ascending; none for an all-linear student.
        objective: What is minimised; None for `HybridDistillation()`.
        batch_size: Windows of a step.
        sequence_length: Tokens of a window.

    Returns:
        The stage.
    """
    return Stage(
        name="hybrid",
        objective=objective or HybridDistillation(),
        restore=tuple(keep),
        other_rate=OTHER_RATE,
        tokens=tokens,
        batch_size=batch_size,
        sequence_length=sequence_length,
        optimiser=LmOptimiserConfig(
            learning_rate=1e-4, schedule="constant", warmup_steps=0, weight_decay=0.0
        ),
    )


def continuation_stages(
    tokens: int, lengths: Sequence[int], *, tokens_per_step: int = 131072
) -> tuple[Stage, ...]:
    """Cross-entropy on windows that grow from stage to stage.

    Each length gets an equal share of the tokens and as many tokens a step, so that the batch
    shrinks as windows grow.

    Args:
        tokens: To read, over all lengths.
        lengths: Tokens of a window, rising.
        tokens_per_step: Tokens of a step; at least one window.

    Returns:
        A stage a length.

    Raises:
        ValueError: There is no length, they do not rise, or a length's share is below a step.
    """
    if not lengths or list(lengths) != sorted(set(lengths)):
        raise ValueError(f"lengths: {list(lengths)} is not allowed (must rise, at least one)")
    share = tokens // len(lengths)
    stages = []
    for length in lengths:
        batch = max(1, tokens_per_step // length)
        if share < batch * length:
            raise ValueError(
                f"tokens: {tokens} are not enough (must be >= {len(lengths) * batch * length} for "
                f"a step of {batch} windows of {length})"
            )
        stages.append(
            Stage(
                name=f"continuation-{length}",
                objective=LanguageModelling(),
                tokens=share,
                batch_size=batch,
                sequence_length=length,
                optimiser=LmOptimiserConfig(
                    learning_rate=1e-5, schedule="constant", warmup_steps=0, weight_decay=0.0
                ),
            )
        )
    return tuple(stages)


def aligned_recipe(
    mixer: str = "gdn", *, tokens: int = 2_000_000, tokens_per_step: int = 32768, length: int = 512
) -> Recipe:
    """The pre-alignment alone: an all-linear student, from which layers to keep are selected.

    Args:
        mixer: Mixers of the student.
        tokens: To read.
        tokens_per_step: Tokens of a step.
        length: Tokens of a window.

    Returns:
        The recipe.
    """
    batch = max(1, tokens_per_step // length)
    stage = pre_alignment_stage(tokens, batch_size=batch, sequence_length=length)
    return Recipe(
        name=f"align-{mixer}",
        pattern=mixer,
        changes={"linear_rotation": "off"},
        stages=(stage,),
        dtype="bfloat16",
    )


def recipe_b(
    mixer: str = "gdn",
    keep: Sequence[int] = (),
    *,
    tokens: int = 20_000_000,
    length: int = 512,
    lengths: Sequence[int] = (1024, 2048, 4096),
    tokens_per_step: int = 32768,
    changes: Mapping[str, object] | None = None,
    **fields: object,
) -> Recipe:
    """Pre-alignment, hybrid distillation, continuation on longer and longer windows.

    Args:
        mixer: Mixers of the student's linear layers.
        keep: Layers that keep softmax in all loops, as `select_layers` finds them.
        tokens: Of all stages together, in LT2's shares.
        length: Tokens of a window in the first two stages (LT2: 512 and 4096).
        lengths: Those of the last ones (LT2: 32768).
        tokens_per_step: Tokens of a step.
        changes: As in `Recipe`; None switches rotary positions of linear layers off.
        **fields: Further fields of `Recipe`, such as `seed`; `dtype` is bfloat16 otherwise.

    Returns:
        The recipe.

    Raises:
        ValueError: There are not enough tokens, or as `Recipe`.
    """
    one, two, three = (round(share * tokens) for share in SHARES)
    batch = max(1, tokens_per_step // length)
    stages = (
        pre_alignment_stage(one, batch_size=batch, sequence_length=length),
        hybrid_stage(two, sorted(keep), batch_size=batch, sequence_length=length),
        *continuation_stages(three, lengths, tokens_per_step=tokens_per_step),
    )
    return Recipe.model_validate(
        {
            "name": f"B-{mixer}-{len(set(keep))}",
            "pattern": mixer,
            "changes": {"linear_rotation": "off"} if changes is None else dict(changes),
            "stages": stages,
            "dtype": "bfloat16",
            **fields,
        }
    )
