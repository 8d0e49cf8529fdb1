"""`lt2 bench tasks|ops|analysis|decode|sparse|train-step`: speeds here, with their setting."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

from lt2theory.cli.errors import DONE
from lt2theory.cli.output import JsonCopy, check_file
from lt2theory.cli.parsing import parse

if TYPE_CHECKING:
    import pandas as pd


class TaskOptions(BaseModel):
    """How the generators are timed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seconds: float = Field(2.0, gt=0, allow_inf_nan=False, description="Seconds for each row.")
    workers: int = Field(2, ge=1, description="Processes that generate at once.")
    size: int = Field(2048, ge=1, description="Examples a batch.")


class OpsOptions(BaseModel):
    """How the recurrences are timed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    repeats: int = Field(7, ge=1, description="Turns of every method; the fastest counts.")
    threads: int = Field(2, ge=1, description="Threads of a tensor operation.")


class AnalysisOptions(BaseModel):
    """How the analysers are timed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sample: int = Field(256, ge=1, le=8192, description="Operators of the dense methods.")
    repeats: int = Field(5, ge=1, description="Turns of the methods; the fastest counts.")
    threads: int = Field(
        1, ge=1, description="Threads of a tensor operation in the spectra; the models have one."
    )


class DecodeOptions(BaseModel):
    """What is decoded."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    patterns: tuple[str, ...] = Field(
        ("gdn",), description="Layer patterns: gdn, full, full-gdn, gdn-dsa, nsa, window."
    )
    batches: tuple[int, ...] = Field((8,), description="Rows.")
    contexts: tuple[int, ...] = Field((1024,), description="Tokens already read.")
    steps: int = Field(30, ge=1, description="Steps that are timed.")
    eager: bool = Field(True, description="Also time the model's own forward with a cache.")


class TrainStepOptions(BaseModel):
    """Which training steps are taken."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    device: Literal["cuda", "cpu"] = Field(
        "cuda",
        description="'cuda' times the ways below on a GPU. 'cpu' compares eager and compiled steps "
        "of small models, and takes none of the options below but repeats and threads.",
    )
    patterns: tuple[str, ...] = Field(("gdn", "full"), description="Layer patterns.")
    loop_state: tuple[Literal["rescan", "accumulate"], ...] = Field(
        ("rescan", "accumulate"), description="Loop states; patterns of attention alone rescan."
    )
    ways: tuple[Literal["eager", "compiled", "graph", "compiled-graph"], ...] = Field(
        ("eager", "compiled", "graph", "compiled-graph"), description="Ways to take a step."
    )
    backend: str = Field("auto", description="Backend of the ops.")
    batch: int = Field(256, ge=1, description="Rows.")
    length: int = Field(256, ge=1, description="Tokens a row.")
    repeats: int = Field(30, ge=1, description="Steps that are timed.")
    threads: int = Field(1, ge=1, description="Threads of a tensor operation on a CPU.")


class SparseOptions(BaseModel):
    """Which sparse attentions are timed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ops: tuple[Literal["dsa", "nsa"], ...] = Field(("dsa", "nsa"), description="Attentions.")
    lengths: tuple[int, ...] = Field((4096, 16384, 65536), description="Tokens.")
    dtype: Literal["bfloat16", "float32"] = Field("bfloat16", description="Dtype of the inputs.")
    backends: tuple[Literal["triton", "chunked", "reference"], ...] = Field(
        ("triton", "reference"), description="Backends; reference has the dense masks."
    )
    repeats: int = Field(5, ge=1, description="Runs that are timed; the median counts.")


def tasks(argv: list[str]) -> int:
    """Time the task generators.

    Args:
        argv: The arguments after the verb.

    Returns:
        The exit code.
    """
    description = "Time the task generators, beside per-example generators of the same data."
    options, copy = parse("lt2 bench tasks", argv, description, options=TaskOptions, copy=JsonCopy)
    check_file(copy.json, "--json")
    from lt2theory.bench.tasks import bench_tasks

    table = bench_tasks(seconds=options.seconds, workers=options.workers, size=options.size)
    _publish(table, copy.json, threads=1)
    return DONE


def ops(argv: list[str]) -> int:
    """Time the recurrences, forward and backward.

    Args:
        argv: The arguments after the verb.

    Returns:
        The exit code.
    """
    description = "Time the recurrences, forward and backward, beside token loops."
    options, copy = parse("lt2 bench ops", argv, description, options=OpsOptions, copy=JsonCopy)
    check_file(copy.json, "--json")
    from lt2theory.bench.ops import bench_ops

    table = bench_ops(repeats=options.repeats, threads=options.threads)
    _publish(table, copy.json, threads=options.threads)
    return DONE


def analysis(argv: list[str]) -> int:
    """Time the analysers.

    Args:
        argv: The arguments after the verb.

    Returns:
        The exit code.
    """
    description = (
        "Time spectra of composed transitions beside dense product and SVD, and the analysis of "
        "4-layer models at length 512."
    )
    options, copy = parse(
        "lt2 bench analysis", argv, description, options=AnalysisOptions, copy=JsonCopy
    )
    check_file(copy.json, "--json")
    from lt2theory.bench.analysis import bench_analysis

    table = bench_analysis(sample=options.sample, repeats=options.repeats, threads=options.threads)
    _publish(table, copy.json, threads=options.threads)
    return DONE


def decode(argv: list[str]) -> int:
    """Time a token-step of full-scale models on a GPU.

    Args:
        argv: The arguments after the verb.

    Returns:
        The exit code.

    Raises:
        ValueError: A pattern, a batch or a context is not allowed, or there is no GPU.
    """
    description = (
        "Time one token-step of 1.3B looped models on a GPU: fused, as a graph, and eager, beside "
        "the bytes that it must move."
    )
    options, copy = parse(
        "lt2 bench decode", argv, description, options=DecodeOptions, copy=JsonCopy
    )
    check_file(copy.json, "--json")
    from lt2theory.bench.decode import PATTERNS, Setting, bench_decode

    for pattern in options.patterns:
        if pattern not in PATTERNS:
            allowed = ", ".join(PATTERNS)
            raise ValueError(f"--patterns: {pattern!r} is not allowed (choose from {allowed})")
    for name in ("batches", "contexts"):
        if min(getattr(options, name), default=0) < 1:
            raise ValueError(f"--{name}: {getattr(options, name)} is not allowed (numbers >= 1)")
    settings = [
        Setting(pattern, batch, context)
        for pattern in dict.fromkeys(options.patterns)
        for batch in dict.fromkeys(options.batches)
        for context in dict.fromkeys(options.contexts)
    ]
    _publish(bench_decode(settings, steps=options.steps, eager=options.eager), copy.json, threads=1)
    return DONE


def train_step(argv: list[str]) -> int:
    """Time a training step of a looped toy.

    Args:
        argv: The arguments after the verb.

    Returns:
        The exit code.

    Raises:
        ValueError: A pattern, backend or size is not allowed, or there is no GPU.
    """
    description = (
        "Time a training step of a looped toy (two layers, four loops, width 128, bfloat16) on a "
        "GPU: eager, compiled, as a CUDA graph, and both, from the start of a process on a bare "
        "machine; or on a CPU, eager and compiled."
    )
    options, copy = parse(
        "lt2 bench train-step", argv, description, options=TrainStepOptions, copy=JsonCopy
    )
    check_file(copy.json, "--json")
    if options.device == "cpu":
        from lt2theory.bench.train_step_cpu import bench_train_step_cpu

        table = bench_train_step_cpu(repeats=options.repeats, threads=options.threads)
        _publish(table, copy.json, threads=options.threads)
        return DONE
    from lt2theory.bench.train_step import bench_train_step, settings_of

    settings = settings_of(
        options.patterns,
        options.loop_state,
        options.ways,
        backend=options.backend,
        batch=options.batch,
        length=options.length,
    )
    _publish(bench_train_step(settings, steps=options.repeats), copy.json, threads=1)
    return DONE


def sparse(argv: list[str]) -> int:
    """Time the sparse attentions on a GPU.

    Args:
        argv: The arguments after the verb.

    Returns:
        The exit code.

    Raises:
        ValueError: A length is not allowed, or there is no GPU.
    """
    description = (
        "Time native and DeepSeek sparse attention on a GPU, forward and backward, with peak "
        "memory, the indexer's share and floors, beside the same with dense masks."
    )
    options, copy = parse(
        "lt2 bench sparse", argv, description, options=SparseOptions, copy=JsonCopy
    )
    check_file(copy.json, "--json")
    from lt2theory.bench.sparse import Setting, bench_sparse

    if min(options.lengths, default=0) < 1:
        raise ValueError(f"--lengths: {options.lengths} is not allowed (numbers >= 1)")
    settings = [
        Setting(op, length, options.dtype)
        for op in dict.fromkeys(options.ops)
        for length in dict.fromkeys(options.lengths)
    ]
    backends = tuple(dict.fromkeys(options.backends))
    table = bench_sparse(settings, backends=backends, repeats=options.repeats)
    _publish(table, copy.json, threads=1)
    return DONE


def _publish(table: "pd.DataFrame", path: Path | None, *, threads: int) -> None:
    """Print a table, and write it with the environment it was measured in."""
    from lt2theory.runs import write_json
    from lt2theory.runs.environment import capture

    print(table.to_string(index=False, float_format=lambda value: f"{value:,.3g}"))
    if path is not None:
        rows = json.loads(table.to_json(orient="records"))
        write_json(path, {"environment": capture(threads=threads), "rows": rows})
