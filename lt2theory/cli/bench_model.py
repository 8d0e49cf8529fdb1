"""`lt2 bench model PRESET`: a preset on paper."""

import json
import math
from typing import Annotated, Any

import tyro
from pydantic import Field

from lt2theory.cli.bench_output import check_lists
from lt2theory.cli.errors import DONE
from lt2theory.cli.output import JsonCopy, check_file
from lt2theory.cli.parsing import parse
from lt2theory.fields import Frozen


class ModelOptions(Frozen):
    """Which preset, for how many tokens, on what machine."""

    preset: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="PRESET")] = Field(
        description="Name of the preset, such as lt2-1.3b-full-gdn; an unknown one is answered "
        "with near ones, and 'all' lists them."
    )
    batch: int = Field(1, ge=1, le=2**20, description="Rows.")
    contexts: tuple[int, ...] = Field(
        (1024, 4096, 16384, 32768, 131072), description="Tokens of a row."
    )
    copies: float = Field(
        4.28e12, gt=0, allow_inf_nan=False, description="Bytes a second that memory moves."
    )
    products: float = Field(
        784e12, gt=0, allow_inf_nan=False, description="Operations a second of matrix products."
    )


def model(argv: list[str]) -> int:
    """Print what a preset's configuration decides.

    Args:
        argv: The arguments after the verb.

    Returns:
        The exit code.

    Raises:
        ValueError: There is no such preset, or a context is below 1.
    """
    description = (
        "Print a preset's parameters, products a token, cache bytes, and the least time of a "
        "decode step, a prefill and a training step at stated rates; no GPU is needed. 'all' lists "
        "the presets."
    )
    options, copy = parse("lt2 bench model", argv, description, options=ModelOptions, copy=JsonCopy)
    check_file(copy.json, "--json")
    check_lists(options)
    from lt2theory.bench.model import Rates, describe_model, list_models
    from lt2theory.runs import write_json

    if options.preset == "all":
        table = list_models()
        print(table.to_string(index=False, float_format=lambda value: f"{value:,.1f}"))
        content = {"presets": json.loads(table.to_json(orient="records"))}
    else:
        rates = Rates(options.copies, options.products)
        content = describe_model(
            options.preset, batch=options.batch, contexts=options.contexts, rates=rates
        )
        print(_text(content, rates.copies, rates.products))
    if copy.json is not None:
        write_json(copy.json, content)
    return DONE


def _text(content: dict[str, Any], copies: float, products: float) -> str:
    """The tables of one preset."""
    import pandas as pd

    parts: dict[str, int] = content["parameters"]
    width = max(map(len, parts))
    lines = [f"{content['preset']}: {content['text']}", ""]
    lines += [f"{name:<{width}}  {count:>15,}" for name, count in parts.items() if count]
    table = pd.DataFrame(content["rows"])
    lines += ["", table.to_string(index=False, float_format=_number), ""]
    lines.append(f"floors at {copies / 1e12:g} TB/s and {products / 1e12:g} TFLOP/s")
    return "\n".join(lines)


def _number(value: float) -> str:
    """Three digits, without an exponent."""
    digits = max(0, 2 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{value:,.{digits}f}"
