"""Verbs of `lt2 bench` for generators, ops, analysers and models: speeds, with their setting."""

from lt2theory.cli.bench_options import (
    AnalysisOptions,
    DecodeOptions,
    OpsOptions,
    PrefillOptions,
    SparseOptions,
    TaskOptions,
    TrainStepOptions,
)
from lt2theory.cli.bench_output import Growing, check_backend, check_lists, publish
from lt2theory.cli.errors import DONE
from lt2theory.cli.output import JsonCopy, check_file
from lt2theory.cli.parsing import parse


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
    publish(table, copy.json, threads=1)
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
    publish(table, copy.json, threads=options.threads)
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
    publish(table, copy.json, threads=options.threads)
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

    check_lists(options, patterns=PATTERNS)
    settings = [
        Setting(pattern, batch, context)
        for pattern in dict.fromkeys(options.patterns)
        for batch in dict.fromkeys(options.batches)
        for context in dict.fromkeys(options.contexts)
    ]
    told = Growing(copy.json, threads=1)
    table = bench_decode(settings, steps=options.steps, eager=options.eager, on_row=told)
    publish(table, copy.json, threads=1)
    return DONE


def prefill(argv: list[str]) -> int:
    """Time reading a prompt into full-scale models on a GPU.

    Args:
        argv: The arguments after the verb.

    Returns:
        The exit code.

    Raises:
        ValueError: A pattern, a context or a backend is not allowed, or there is no GPU.
    """
    description = (
        "Time reading a prompt into 1.3B looped models on a GPU (logits of the last position), how "
        "that grows with the length, and beside the products that it must compute."
    )
    options, copy = parse(
        "lt2 bench prefill", argv, description, options=PrefillOptions, copy=JsonCopy
    )
    check_file(copy.json, "--json")
    from lt2theory.bench.decode import PATTERNS
    from lt2theory.bench.prefill import Setting, bench_prefill

    check_lists(options, patterns=PATTERNS)
    check_backend(options.backend)
    fixed = {"chunk": options.chunk, "backend": options.backend, "layers": options.layers}
    settings = [
        Setting(pattern, options.batch, context, **fixed)
        for pattern in dict.fromkeys(options.patterns)
        for context in dict.fromkeys(options.contexts)
    ]
    told = Growing(copy.json, threads=1)
    table = bench_prefill(settings, repeats=options.repeats, on_row=told)
    publish(table, copy.json, threads=1)
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
    check_lists(options)
    check_backend(options.backend)
    if options.device == "cpu":
        from lt2theory.bench.train_step_cpu import bench_train_step_cpu

        table = bench_train_step_cpu(repeats=options.repeats, threads=options.threads)
        publish(table, copy.json, threads=options.threads)
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
    told = Growing(copy.json, threads=1)
    table = bench_train_step(settings, steps=options.repeats, on_row=told)
    publish(table, copy.json, threads=1)
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

    check_lists(options)
    settings = [
        Setting(op, length, options.dtype)
        for op in dict.fromkeys(options.ops)
        for length in dict.fromkeys(options.lengths)
    ]
    backends = tuple(dict.fromkeys(options.backends))
    told = Growing(copy.json, threads=1)
    table = bench_sparse(settings, backends=backends, repeats=options.repeats, on_row=told)
    publish(table, copy.json, threads=1)
    return DONE
