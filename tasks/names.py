"""Names that nobody has registered: what may stand there, and what was probably meant."""

import difflib
from collections.abc import Iterable

FEW = 8
"""So many names are read at a glance; among more the nearest is proposed."""
MOST = 24
"""So many names are listed; of more only a few examples."""
LIKELY, ALIKE = 0.6, 0.4
"""Similarities (`difflib`) from which a name is proposed, and from which it is an example."""


def nearest(value: str, names: Iterable[str], *, most: int = 1, alike: float = LIKELY) -> list[str]:
    """The names that are most like a value; case and `_` or `-` make no difference.

    Args:
        value: What was given.
        names: The names.
        most: How many at most.
        alike: Least similarity, in 0 .. 1.

    Returns:
        The names, the nearest first; empty if none is alike.

    Example:
        >>> nearest("GRUOP_word", ["parity", "group_word"])
        ['group_word']
    """
    plain = {_plain(name): name for name in names}
    return [plain[one] for one in difflib.get_close_matches(_plain(value), plain, most, alike)]


def unknown_name(field: str, value: str, names: Iterable[str], *, more: str = "") -> str:
    """The message of a ValueError about a name that is none of the registered ones.

    Args:
        field: What was named, such as `task`.
        value: What was given.
        names: The registered names.
        more: What else may be said about what is allowed.

    Returns:
        One line: all names, or of more than `MOST` their number and the nearest; of more than
        `FEW` also the one that was probably meant.

    Example:
        >>> print(unknown_name("dtype", "float", ["float32", "bfloat16"]))
        dtype: 'float' is not allowed (choose from float32, bfloat16)
        >>> print(unknown_name("key", "C", "abcdefghi"))
        key: 'C' is not allowed, perhaps you meant c (choose from a, b, c, d, e, f, g, h, i)
    """
    every = list(dict.fromkeys(names))
    meant = nearest(value, every) if len(every) > FEW else []
    listed = f"choose from {', '.join(every)}"
    if len(every) > MOST:
        examples = nearest(value, every, most=3, alike=ALIKE) or every[:: len(every) // 2]
        listed = f"one of {len(every)} names, such as {', '.join(examples)}"
    hint = f", perhaps you meant {meant[0]}" if meant else ""
    return f"{field}: {value!r} is not allowed{hint} ({listed}{more and f', {more}'})"


def _plain(name: str) -> str:
    return name.casefold().replace("_", "-")
