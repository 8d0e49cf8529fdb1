"""`lt2 linearize evaluate STUDENT`: how much of its teacher a student has kept."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

from lt2theory.cli.errors import DONE
from lt2theory.cli.output import JsonCopy, check_file, check_folder
from lt2theory.cli.parsing import parse

if TYPE_CHECKING:
    import pandas as pd

    from lt2theory.linearize.evaluation import Pair


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions:
    """What is compared, on which text, and where the table goes."""

    student: tyro.conf.Positional[Path]
    """A linearization, one of its stages, or any model that may be a teacher."""
    teacher: Path
    """What the student was made of: a Hugging Face checkpoint, a .gguf file, or a run of ours."""
    text: Path
    """A corpus in the teacher's tokens, or a file or folder of text."""
    out: Path
    """Folder of the evaluation; an interrupted one goes on."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where the models run."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """bfloat16 multiplies under autocast."""


def run(argv: list[str]) -> int:
    """Evaluate a student, and print the path of the table last.

    Args:
        argv: The arguments after the verb.

    Returns:
        The exit code.
    """
    from lt2theory.linearize.evaluation import EvaluationConfig, evaluate_pair
    from lt2theory.linearize.teachers import made_by
    from lt2theory.runs import write_json

    description = (
        "Compare a student with its teacher: recovery, needles, associative recall, generated "
        "text, states, speed; one tidy table with floors and intervals. The parts that are done "
        "are kept, so that the same command goes on."
    )
    config, options, copy = parse(
        "lt2 linearize evaluate",
        argv,
        description,
        config=EvaluationConfig(),
        options=EvaluateOptions,
        copy=JsonCopy,
    )
    check_file(copy.json, "--json")
    check_folder(options.out, "--out")
    pair, about = _opened(options, config.split)
    made = {"student": made_by(options.student), "teacher": made_by(options.teacher)}
    table = evaluate_pair(pair, config, options.out, about=about, made=made, tell=print)
    if copy.json is not None:
        write_json(copy.json, {"about": about, "rows": _rows(table)})
    _print(table)
    print(options.out / "evaluation.parquet")
    return DONE


def _opened(options: EvaluateOptions, split: str) -> tuple["Pair", dict[str, Any]]:
    """The models and the text, and what identifies them."""
    from lt2theory.linearize.evaluation import Pair
    from lt2theory.linearize.sources import weights_fingerprint
    from lt2theory.linearize.teachers import load_teacher
    from lt2theory.linearize.texts import open_text
    from lt2theory.training.lm.config import corpus_hash
    from lt2theory.training.runtime import Runtime

    runtime = Runtime.of(options.device, options.dtype)
    teacher = load_teacher(options.teacher, device=runtime.device)
    student = load_teacher(options.student, device=runtime.device, field="student")
    corpus = open_text(options.text, options.teacher, options.out.absolute().parent)
    about = {
        "student": {"name": student.name, "weights": weights_fingerprint(student.model)},
        "teacher": {"name": teacher.name, "weights": weights_fingerprint(teacher.model)},
        "pattern": student.model.config.pattern,
        "corpus": corpus_hash(corpus),
        "device": runtime.device_name,
        "dtype": options.dtype,
    }
    stream = corpus.stream(split)
    return Pair(teacher.model, student.model, stream, corpus.tokenizer(), runtime), about


def _rows(table: "pd.DataFrame") -> list[dict[str, Any]]:
    """Rows as JSON has them."""
    return [
        {str(key): value for key, value in row.items() if value is not None}
        for row in table.astype(object).where(table.notna(), None).to_dict("records")
    ]


def _print(table: "pd.DataFrame") -> None:
    """Print the numbers of whole models, with intervals and floors."""
    whole = table[table["layer"].isna() & table["loop"].isna()]
    for row in _rows(whole):
        where = " ".join(str(row[key]) for key in ("kind", "length") if key in row)
        ends = f" [{row['low']:.4g}, {row['high']:.4g}]" if "low" in row and "high" in row else ""
        floor = f" (floor {row['floor']:.3g})" if "floor" in row else ""
        name = " ".join(part for part in (row["part"], where, row["metric"]) if part)
        print(f"  {row['model']:<8} {name:<40} {row['value']:.4g}{ends}{floor}")
