"""One-line errors: every refusal names the field, the value and the allowed range."""

import dataclasses
import functools
import types
import typing
from collections.abc import Mapping

from tasks.names import unknown_name


def refusal(field: str, value: object, allowed: str) -> str:
    """The message of a ValueError about a value outside its range.

    Args:
        field: Name of the knob or argument.
        value: What was given.
        allowed: The allowed range in words, continuing "must be".

    Returns:
        One line.

    Example:
        >>> print(refusal("stage", 3, "an even number >= 4"))
        stage: 3 is not allowed (must be an even number >= 4)
    """
    return f"{field}: {value!r} is not allowed (must be {allowed})"


def check_fields(config: object) -> None:
    """Check a dataclass's values against its annotations: plain types, Literals and unions.

    Args:
        config: A dataclass instance whose fields hold int, str, bool, float, None or Literals.

    """
    values = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}  # type: ignore[arg-type]
    check_values(type(config), values)


def check_values(kind: type, values: Mapping[str, object]) -> None:
    """Check values for some fields of a dataclass against its annotations.

    Args:
        kind: The dataclass.
        values: Values by field name.

    Raises:
        ValueError: A value has another type or is a Literal value that is not listed.
    """
    hints = _hints(kind)
    for name, value in values.items():
        if not _matches(value, hints[name]):
            raise ValueError(_refused(name, value, hints[name]))


def check_count(field: str, value: int, least: int) -> None:
    """Check an integer argument with a lower limit.

    Args:
        field: Name of the argument.
        value: What was given.
        least: The smallest allowed value.

    Raises:
        ValueError: The value is no integer or lies below the limit.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(refusal(field, value, f"an integer >= {least}"))


@functools.cache
def _hints(kind: type) -> dict[str, object]:
    """Annotations of a dataclass, evaluated once: that takes longer than all the checks."""
    return typing.get_type_hints(kind)


def _matches(value: object, hint: object) -> bool:
    if typing.get_origin(hint) is typing.Literal:
        return any(type(value) is type(option) and value == option for option in _options(hint))
    if typing.get_origin(hint) in {typing.Union, types.UnionType}:
        return any(_matches(value, option) for option in typing.get_args(hint))
    # bool is a subclass of int, but True is no number of tokens.
    return type(value) is hint


def _refused(field: str, value: object, hint: object) -> str:
    options = _options(hint) if typing.get_origin(hint) is typing.Literal else ()
    names = [option for option in options if isinstance(option, str)]
    if isinstance(value, str) and names:
        return unknown_name(field, value, names)
    return refusal(field, value, _words(hint))


def _words(hint: object) -> str:
    if typing.get_origin(hint) is typing.Literal:
        return "one of " + ", ".join(repr(option) for option in _options(hint))
    if typing.get_origin(hint) in {typing.Union, types.UnionType}:
        return " or ".join(_words(option) for option in typing.get_args(hint))
    return "None" if hint is type(None) else f"of type {getattr(hint, '__name__', hint)}"


def _options(hint: object) -> tuple[object, ...]:
    return typing.get_args(hint)
