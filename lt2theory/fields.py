"""Models of pydantic that say which field was probably meant, and their refusals in one line."""

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails
from typing_extensions import override

from lt2theory.cards import config_card

Model = TypeVar("Model", bound="KnownFields")


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
            _refuse_others(given, cls.model_fields)
        return given

    @override
    def model_copy(
        self: Model, *, update: Mapping[str, Any] | None = None, deep: bool = False
    ) -> Model:
        """Copy, with other values of some fields, which are not checked.

        Args:
            update: The values by name.
            deep: Whether parts are copied too.

        Returns:
            The copy.

        Raises:
            ValueError: There is no such field; pydantic would keep the value where nothing reads
                it.
        """
        _refuse_others(update or {}, type(self).model_fields)
        return super().model_copy(update=update, deep=deep)


class Frozen(KnownFields):
    """A configuration that refuses unknown fields, infinities and changes."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return config_card(self)


def _refuse_others(given: Mapping[Any, Any], fields: Mapping[str, Any]) -> None:
    unknown = next((name for name in given if name not in fields), None)
    if unknown is not None:
        from tasks.names import unknown_field  # numpy, which no command line waits for

        raise ValueError(unknown_field(str(unknown), fields))


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


def check_one_line(field: str, text: str) -> None:
    """Refuse a name that tables and screens cannot show as it is.

    Args:
        field: Where it stands, for the message.
        text: The name.

    Raises:
        ValueError: It has a line break or another sign that is not printed.
    """
    if not text.isprintable():
        raise ValueError(f"{field}: got {text!r}, allowed is one line of printable text")


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
