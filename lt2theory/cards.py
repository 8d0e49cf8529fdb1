"""Small HTML tables by which objects show themselves in a notebook (`_repr_html_`).

Imports nothing of ours, so that every part can use it. The look is the notebook's own: no colours
and no scripts.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from html import escape

from pydantic import BaseModel

MOST_ROWS = 40
"""Rows of a list that are shown; the rest is counted."""
MOST_TEXT = 300
"""Characters of one value that are shown."""


def card(title: str, facts: Mapping[str, object], *, more: Mapping[str, object] = {}) -> str:
    """An object as a table of names and values.

    Args:
        title: What the object is, in one line.
        facts: What is always shown, in this order.
        more: What is folded away below.

    Returns:
        HTML, all text escaped.
    """
    folded = f"<details><summary>{len(more)} more</summary>{_pairs(more)}</details>" if more else ""
    return f"<div><strong>{escape(title)}</strong>{_pairs(facts)}{folded}</div>"


def listing(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Several things of one kind as a table.

    Args:
        title: What they are.
        columns: Names of the columns.
        rows: One sequence of values a thing, as long as `columns`.

    Returns:
        HTML, all text escaped; of long lists the first `MOST_ROWS` and the number of the others.
    """
    every = list(rows)
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    shown = [
        "<tr>" + "".join(f"<td>{_text(value)}</td>" for value in row) + "</tr>"
        for row in every[:MOST_ROWS]
    ]
    left = len(every) - len(shown)
    tail = f"<p>and {left} more</p>" if left else ""
    body = f"<table><tr>{head}</tr>{''.join(shown)}</table>{tail}"
    return f"<div><strong>{escape(title)}</strong>{body}</div>"


def config_card(config: BaseModel, *always: str, without: Collection[str] = ()) -> str:
    """A configuration: what differs from the defaults, the rest folded away.

    Args:
        config: The configuration.
        always: Fields that are shown even at their defaults.
        without: Fields that are not shown.

    Returns:
        HTML, all text escaped.
    """
    fields = type(config).model_fields
    values = {name: getattr(config, name) for name in fields if name not in without}
    shown = {
        name: value
        for name, value in values.items()
        if name in always or value != fields[name].get_default(call_default_factory=True)
    }
    rest = {name: value for name, value in values.items() if name not in shown}
    return card(type(config).__name__, shown, more=rest)


def _pairs(facts: Mapping[str, object]) -> str:
    rows = (
        f'<tr><th style="text-align: left">{escape(name)}</th>'
        f'<td style="text-align: left">{_text(value)}</td></tr>'
        for name, value in facts.items()
    )
    return f"<table>{''.join(rows)}</table>"


def _text(value: object) -> str:
    """One value, in few characters."""
    if isinstance(value, BaseModel):
        changed = value.model_dump(exclude_defaults=True)
        text = ", ".join(f"{name}={one!r}" for name, one in changed.items()) or "defaults"
    else:
        text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return escape(text if len(text) <= MOST_TEXT else text[: MOST_TEXT - 1] + "…")
