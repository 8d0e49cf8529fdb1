"""Models of pydantic that say which field was probably meant, and their refusals in one line."""

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails

from lt2theory.cards import config_card


class KnownFields(BaseModel):
    """A model that refuses a field that it does not have, naming those that it has.

    Example:
        >>> class Width(KnownFields):
        ...     width: int = 1
        >>> try:
        ...     Width.model_validate({"widht": 2})
        ... except ValueError as error:
        ...     print(first_refusal(error, "Width"))
        widht: no such field, perhaps you meant width (choose from width)
    """

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _no_other_fields(cls, given: Any) -> Any:
        if isinstance(given, Mapping):
            unknown = next((name for name in given if name not in cls.model_fields), None)
            if unknown is not None:
                from tasks.names import unknown_field  # numpy, which no command line waits for

                raise ValueError(unknown_field(str(unknown), cls.model_fields))
        return given


class Frozen(KnownFields):
    """A configuration that refuses unknown fields, infinities and changes."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return config_card(self)


def refused(item: ErrorDetails) -> tuple[list[str], str]:
    """Where and why pydantic refused one value.

    Args:
        item: One of `ValidationError.errors()`.

    Returns:
        The names that lead to the field, and the reason; a validator of a whole model names the
        field itself, at the start of what it says.
    """
    # A union's members stand in `loc` too, as type names.
    names = [str(part) for part in item["loc"]]
    reason = item["msg"].removeprefix("Value error, ")
    if item["type"] == "value_error" and (named := re.match(r"([a-zA-Z_]\w*): ", reason)):
        return [*names, named[1]], reason[named.end() :]
    return names, reason


def first_refusal(error: ValidationError, name: str) -> str:
    """The first field that pydantic refused, and why, in one line.

    Args:
        error: What it raised.
        name: What the whole is called, where no single field is wrong.

    Returns:
        The line.
    """
    first = error.errors(include_url=False)[0]
    names, reason = refused(first)
    if first["type"] == "value_error" and not names:
        return reason
    return f"{'.'.join(names) or name}: {reason}"
