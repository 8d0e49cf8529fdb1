"""Exit codes, and every refusal in one line: field, value, allowed range."""

import re
import sys
from collections.abc import Sequence
from typing import NoReturn

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from tyro import _errors as events
from tyro._arguments import ArgumentDefinition

from lt2theory.fields import refused

DONE = 0
CHECK_FAILED = 1
BAD_USAGE = 2
INTERRUPTED = 130


class UsageError(ValueError):
    """A command line that cannot be carried out; its text is one line."""


def one_line(error: BaseException) -> str:
    """Say in one line what was wrong.

    Args:
        error: Any error that a user can cause: of the library, of pydantic or of the system.

    Returns:
        The message without line breaks; pydantic's errors as `field: value is not allowed (why)`.
    """
    if isinstance(error, ValidationError):
        return fields(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror.lower()}" if error.filename else error.strerror
    if out_of_memory(error):
        detail = " ".join(str(error).split()[:40])
        return f"memory: not enough for sizes as large as these; choose smaller ones ({detail})"
    return " ".join(str(error).split()) or type(error).__name__


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out, which is what absurdly large sizes end in.

    Args:
        error: Any error.

    Returns:
        True for Python's and numpy's `MemoryError`, and for the `RuntimeError` of torch's
        allocators, which have no type of their own on a CPU.
    """
    if isinstance(error, MemoryError):
        return True
    said = str(error).lower()
    return isinstance(error, RuntimeError) and any(
        words in said for words in ("can't allocate memory", "out of memory")
    )


def fields(error: ValidationError, prefix: Sequence[str] = (), *, flags: bool = False) -> str:
    """Write a pydantic error as one line.

    Args:
        error: What pydantic raised.
        prefix: Names of the fields around the model that refused.
        flags: Whether the fields were command-line flags, and are to be named as such.

    Returns:
        One clause for each refused field, joined by semicolons.
    """
    return "; ".join(_clause(item, prefix, flags) for item in error.errors(include_url=False))


def as_typed(message: str, argv: Sequence[str]) -> str:
    """Let a message name the flag that was typed, where it begins with the field of that flag.

    What was not typed keeps its name: a field of a file or of a default is no flag. Only what a
    message proposes, to overwrite or to start afresh, becomes the flag that does it.

    Args:
        message: One line that may begin `field: `.
        argv: The command line.

    Returns:
        The line, with the flag in the place of the field if exactly one flag there is the field's.
    """
    message = message.replace("overwrite=True", "--overwrite").replace("fresh=True", "--fresh")
    found = re.match(r"[a-z]\w*(\.\w+)*(?=: )", message)
    if found is None:
        return message
    typed = [word.partition("=")[0] for word in argv if re.match(r"--[a-z]", word)]
    fields_of = {flag: re.sub(r"(^|\.)no_", r"\1", _field(flag)) for flag in typed}
    exact = [flag for flag, field in fields_of.items() if found[0] in (field, _field(flag))]
    inner = [flag for flag, field in fields_of.items() if field.endswith(f".{found[0]}")]
    fits = exact or inner
    return fits[0] + message[found.end() :] if len(fits) == 1 else message


def refuse(event: events.ParseErrorEvent) -> NoReturn:
    """Turn a parse error of tyro into a `UsageError`.

    Args:
        event: What tyro is about to report.

    Raises:
        UsageError: Always, with the line to print.
    """
    cause = sys.exception()
    raise UsageError(f"{_parse_error(event, cause)} (see {event.prog} --help)") from None


def _field(flag: str) -> str:
    """The field of a flag that has the flag's own name."""
    return flag.removeprefix("--").replace("-", "_")


def _clause(item: ErrorDetails, prefix: Sequence[str], flags: bool) -> str:
    """Return one refused field: its name, the value and pydantic's reason."""
    names, reason = refused(item)
    name = ".".join([*prefix, *names])
    if flags and name:
        name = "--" + name.replace("_", "-")
    if item["type"] == "value_error":
        return f"{name}: {reason}" if name else reason
    if item["type"] == "missing":
        return f"{name}: no value given (required)"
    return f"{name}: {item['input']!r} is not allowed ({reason.removeprefix('Input ')})"


def _parse_error(event: events.ParseErrorEvent, cause: BaseException | None) -> str:
    """Return what tyro refused, as field, value and allowed range."""
    match event:
        case events.InvalidChoice():
            from tasks.names import unknown_name

            return unknown_name(_flag(event.argument), event.value, event.choices)
        case events.BadValue():
            # tyro raises this where a flag has fewer values than it takes.
            expected = _metavar(event.argument)
            said = "no value given" if len(expected.split()) == 1 else "too few values given"
            return f"{_flag(event.argument)}: {said} (expected {expected})"
        case events.MissingArgs():
            missing = [found.arg for found in event.missing_arguments]
            return "; ".join(f"{_flag(arg)}: no value given (required)" for arg in missing)
        case events.UnrecognizedArgs():
            word = event.tokens[0]
            wrong = "no such option" if word.startswith("-") else "only options stand here"
            return f"{word}: {wrong}"
        case events.InstantiationFailure(argument=ArgumentDefinition() as argument):
            return f"{_flag(argument)}: {_unread(event.message)} (expected {_metavar(argument)})"
        case events.InstantiationFailure():
            return _construction(event, cause)
    return " ".join(f"{type(event).__name__} in the arguments of {event.prog}".split())


def _construction(event: events.InstantiationFailure, cause: BaseException | None) -> str:
    """Return why a configuration refused its values; pydantic's own error says which of them."""
    original = cause.__context__ if cause is not None else None
    if isinstance(original, ValidationError):
        # tyro names the model by the path of attributes, whose first is our own (see `parse`).
        path = str(getattr(cause, "arg", "")).split(".")[1:]
        return fields(original, path, flags=True)
    return " ".join(event.message.split())


def _unread(message: str) -> str:
    """Return the value at the end of a conversion error as one that is not allowed."""
    value = re.fullmatch(r"[\w() ]+: ('.*'|\[.*\])", message)
    # A union, such as None or a number, lists what each of its members said.
    of_union = re.match(r"no type matching .* could be instantiated from \[('.*?')\]", message)
    found = value or of_union
    return f"{found[1]} is not allowed" if found else " ".join(message.split())


def _flag(argument: ArgumentDefinition) -> str:
    """Return the flag as it is typed, or the name of a positional argument."""
    if argument.is_positional():
        return str(argument.lowered.metavar)
    return argument.lowered.name_or_flags[-1]


def _metavar(argument: ArgumentDefinition) -> str:
    """Return what an argument takes, in tyro's words."""
    return str(argument.lowered.metavar or "no value")
