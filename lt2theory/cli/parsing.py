"""From an argument list to configurations: tyro, with every refusal in one line."""

import contextlib
import dataclasses
import io
import json
import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import tyro
from pydantic import ValidationError
from tyro import _errors as events
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from lt2theory.cli.errors import UsageError, fields, refuse

REGISTRY = ConstructorRegistry()
PYTHON_CONSTANTS = {"True": True, "False": False, "None": None}


def parse(prog: str, argv: Sequence[str], description: str, **parts: Any) -> tuple[Any, ...]:
    """Parse the flags of several configurations at once.

    Args:
        prog: The command as it is typed, for usage lines.
        argv: The arguments after it.
        description: What the command does, for its help.
        **parts: The configurations: a dataclass or pydantic type, or an instance of one, which
            is then the default. The keys are internal; their flags stand side by side.

    Returns:
        One instance for each part, in order.

    Raises:
        UsageError: If an argument is unknown, missing or not allowed; one line.
    """
    arguments = _side_by_side(parts)
    try:
        with events.on_parse_error(refuse):
            parsed: Any = tyro.cli(
                arguments, prog=prog, args=argv, description=description, registry=REGISTRY
            )
    except ValidationError as error:
        raise UsageError(f"{fields(error, flags=True)} (see {prog} --help)") from None
    except UsageError as error:
        raise UsageError(_with_suggestion(str(error), argv, arguments)) from None
    return tuple(getattr(parsed, name) for name in parts)


def check_seed(seed: int | None) -> None:
    """Refuse a seed that no generator takes.

    Args:
        seed: The option; None leaves it to others.

    Raises:
        ValueError: It is out of range.
    """
    if seed is not None and not 0 <= seed < 2**63:
        raise ValueError(f"seed: got {seed}, allowed are whole numbers >= 0 and < 2**63")


def refuse_empty(argv: Sequence[str], *flags: str) -> None:
    """Refuse a choice of nothing where leaving a flag out means everything.

    Args:
        argv: The arguments.
        flags: Flags that take any number of values.

    Raises:
        UsageError: One of them stands there without a value.
    """
    for word, following in zip(argv, [*argv, "--"][1:], strict=True):
        if word in flags and following.startswith("--"):
            raise UsageError(f"{word}: no value given (leave it out for all)")


def leading_name(
    argv: Sequence[str], names: Iterable[str], *, usage: str, what: str, default: str | None = None
) -> tuple[str, list[str]]:
    """Take the name off the front of an argument list.

    Args:
        argv: The arguments.
        names: The names that exist; `-` and `_` are taken for each other.
        usage: The command up to the name, for its help.
        what: What is named, such as `task`.
        default: The name where the list begins with a flag; None if a name is required.

    Returns:
        The name as it is spelt in `names`, and the arguments after it.

    Raises:
        UsageError: If there is no name or an unknown one; it lists those that exist.
        SystemExit: After printing the help, where that was asked for in place of a name.
    """
    known = {name.replace("-", "_"): name for name in names}
    first = argv[0] if argv else None
    if default is not None and (first is None or first.startswith("-")):
        return default, list(argv)
    if first in ("-h", "--help"):
        listed = "\n".join(f"  {name}" for name in known.values())
        what_for = f"{usage} {what.upper()} --help explains the options of one {what}."
        print(
            f"usage: {usage} {what.upper()} [OPTIONS]\n\n{_plural(what)}:\n{listed}\n\n{what_for}"
        )
        raise SystemExit(0)
    if first is None or first.startswith("-"):
        raise UsageError(f"{what}: no name given (choose from {', '.join(known.values())})")
    name = known.get(first.replace("-", "_"))
    if name is None:
        from tasks.names import unknown_name

        raise UsageError(unknown_name(what, first, known.values()))
    return name, list(argv[1:])


def _side_by_side(parts: dict[str, Any]) -> type:
    """Return a dataclass with the parts as fields, none of them adding a prefix to its flags."""
    specification: list[tuple[str, Any, Any]] = []
    for name, part in parts.items():
        kind = part if isinstance(part, type) else type(part)
        default = dataclasses.field() if part is kind else dataclasses.field(default=part)
        specification.append((name, Annotated[kind, tyro.conf.arg(name="")], default))
    return dataclasses.make_dataclass("Arguments", specification, kw_only=True)


def _with_suggestion(message: str, argv: Sequence[str], arguments: type) -> str:
    """Return the message with the flag that an unknown one was probably meant to be.

    tyro names what is missing before what is unknown; here a flag that is both is unknown.
    """
    found = re.match(r"--([\w.-]+): (no such option|no value given \(required\))", message)
    if found is None:
        return message
    from lt2theory.cli.suggestions import flags_of, meant, misspelt

    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        tyro.cli(arguments, args=["--help"], registry=REGISTRY)
    flags = flags_of(text.getvalue())
    if found[2] == "no such option":
        hint = meant(found[1], flags)
        return message.replace(
            found[2], f"{found[2]}, perhaps you meant {hint}" if hint else found[2]
        )
    typed = misspelt(found[1], argv, flags)
    said = f"{typed}: no such option, perhaps you meant --{found[1]}"
    return said + message[found.end() :] if typed else message


@REGISTRY.primitive_rule
def _mapping(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """Return the rule for mappings, which are written `KEY=VALUE KEY=VALUE`."""
    if info.type_origin is not dict:
        return None
    return PrimitiveConstructorSpec(
        nargs="*",
        metavar="[KEY=VALUE ...]",
        instance_from_str=_read_mapping,
        is_instance=lambda value: isinstance(value, dict),
        str_from_instance=lambda value: [f"{key}={_show(item)}" for key, item in value.items()],
    )


def _read_mapping(words: Sequence[str]) -> dict[str, Any]:
    """Return the mapping that `KEY=VALUE` words spell.

    Raises:
        ValueError: If a word has no equals sign.
    """
    mapping: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not (key and equals):
            raise ValueError(f"{word!r} is not allowed")
        mapping[key] = _scalar(text)
    return mapping


def _scalar(text: str) -> str | int | float | bool | None:
    """Return the number, boolean or None that a text spells, else the text itself."""
    if text in PYTHON_CONSTANTS:
        return PYTHON_CONSTANTS[text]
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return text
    return value if value is None or isinstance(value, int | float) else text


def _show(value: object) -> str:
    """Return a scalar spelt as `_scalar` reads it."""
    return value if isinstance(value, str) else json.dumps(value)


def _plural(word: str) -> str:
    return f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
