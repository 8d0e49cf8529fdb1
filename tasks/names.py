"""Names that nobody has registered: what may stand there, and what was probably meant."""

import difflib
from collections.abc import Iterable, Mapping
from typing import TypeVar

Value = TypeVar("Value")

FEW = 8
"""So many names are read at a glance, and a guess at them (`cpu` for `gpu`) would only mislead."""
MOST = 24
"""So many names are listed; of more only a few examples."""
CLOSE, LIKELY, ALIKE = 0.7, 0.6, 0.4
"""Similarities (`difflib`) from which a name is proposed among few and among more, and is an
example."""


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


def unknown_name(field: str, value: object, names: Iterable[str], *, more: str = "") -> str:
    """The message of a ValueError about a name that is none of the registered ones.

    Args:
        field: What was named, such as `task`.
        value: What was given.
        names: The registered names.
        more: What else may be said about what is allowed.

    Returns:
        One line: the name that was probably meant, if one is like the value, and all names, or of
        more than `MOST` their number and the nearest.

    Example:
        >>> print(unknown_name("dtype", "float", ["float32", "bfloat16"]))
        dtype: 'float' is not allowed, perhaps you meant float32 (choose from float32, bfloat16)
        >>> print(unknown_name("key", "x", ["a", "b"]))
        key: 'x' is not allowed (choose from a, b)
    """
    given = value if isinstance(value, str) else ""
    return f"{field}: {value!r} is not allowed{_choices(given, names, more)}"


def unknown_field(name: str, names: Iterable[str]) -> str:
    """The message of a ValueError about a field that a configuration does not have.

    Args:
        name: What was given.
        names: The fields that there are.

    Returns:
        One line, as of `unknown_name`.

    Example:
        >>> print(unknown_field("num_lops", ["width", "num_loops"]))
        num_lops: no such field, perhaps you meant num_loops (choose from width, num_loops)
    """
    shown = name if name.isprintable() and name.strip() == name and name else repr(name)
    return f"{shown}: no such field{_choices(name, names)}"


class Named(dict[str, Value]):
    """A dictionary whose KeyError says which names there are, and which was probably meant.

    Args:
        field: What a key names, such as `preset`.
        entries: The values by name.

    Example:
        >>> Named("preset", {"toy": 1, "large": 2})["toys"]
        Traceback (most recent call last):
        KeyError: "preset: 'toys' is not allowed, perhaps you meant toy (choose from toy, large)"
    """

    def __init__(self, field: str, entries: Mapping[str, Value]) -> None:
        super().__init__(entries)
        self.field = field

    def __missing__(self, name: object) -> Value:
        raise KeyError(unknown_name(self.field, name, self))


def _choices(given: str, names: Iterable[str], more: str = "") -> str:
    """Return what was probably meant, and what may stand there."""
    every = list(dict.fromkeys(names))
    meant = nearest(given, every, alike=CLOSE if len(every) <= FEW else LIKELY)
    listed = f"choose from {', '.join(every)}"
    if len(every) > MOST:
        examples = nearest(given, every, most=3, alike=ALIKE) or every[:: len(every) // 2]
        listed = f"one of {len(every)} names, such as {', '.join(examples)}"
    hint = f", perhaps you meant {meant[0]}" if meant else ""
    return f"{hint} ({listed}{more and f', {more}'})"


def _plain(name: str) -> str:
    return name.casefold().replace("_", "-")
