"""The section with all options of a run."""

from collections.abc import Mapping, Sequence

import pandas as pd

from lt2theory.report.content import ReportTable, Section
from lt2theory.runs import RunFolder, config_table

NOT_SET = "not set"


def setting_section(run: RunFolder, facts: Mapping[str, object] | None = None) -> Section:
    """What exactly was run.

    Args:
        run: The run.
        facts: What a reader wants to know besides, such as parameters; None is left out.

    Returns:
        The section: a row a fact and option, a row each for lists of settings such as stages.
    """
    options = config_table([run]).drop(columns="run").iloc[0]
    rows = [(name, in_words(value)) for name, value in (facts or {}).items() if value is not None]
    for name, value in options.items():
        if isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
            rows += [(f"{name} {number}", in_words(one)) for number, one in enumerate(value, 1)]
        else:
            rows.append((str(name), in_words(value)))
    return Section(
        title="Setting",
        question="What exactly was run?",
        tables=[ReportTable(pd.DataFrame(rows, columns=["option", "setting"]), "All options.")],
    )


def in_words(value: object) -> str:
    """A setting in words.

    Args:
        value: Of JSON's kinds, nested or not.

    Returns:
        For instance `0.9, 0.95` of a list, `kind alignment, target mixer` of a mapping, and
        `not set` of None.
    """
    if value is None or (isinstance(value, float) and pd.isna(value)):
        return NOT_SET
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_inside(one)}" for name, one in value.items()) or "none"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(_inside(one) for one in value) or "none"
    return str(value)


def _inside(value: object) -> str:
    """A setting within another: in brackets where it has parts itself."""
    parts = isinstance(value, Mapping | list | tuple) and len(value) > 0
    return f"({in_words(value)})" if parts else in_words(value)
