"""Frozen factors that are not what the claims about loops ask for, for the variants of those."""

from collections.abc import Sequence
from dataclasses import replace

from flint import fmpq_mat

from proofs_checks.exact import column, factor
from proofs_checks.loop_states import Frozen, Step


def reading_values(frozen: Frozen, values: Sequence[fmpq_mat]) -> list[list[Step]]:
    """Factors that are not frozen: every key written grows with the value of its token.

    Args:
        frozen: Steps of every place at every token.
        values: One row a token.

    Returns:
        The steps.
    """
    return [
        [
            replace(step, write=step.write * (1 + v[0, 0]))
            for step, v in zip(own, values, strict=True)
        ]
        for own in frozen
    ]


def on_one_line(frozen: Frozen) -> list[list[Step]]:
    """Factors that are not in general position: every key lies along the first axis.

    Args:
        frozen: Steps of every place at every token.

    Returns:
        The steps, ungated; of every state they fill one row.
    """
    width = frozen[0][0].write.nrows()
    line = column([int(i == 0) for i in range(width)])
    erase = factor(line, (1, 3), None, order="decay_first")
    return [[Step(erase, line * step.write[0, 0], step.query) for step in own] for own in frozen]
