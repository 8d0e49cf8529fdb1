"""Options of the verbs of `lt2 bench`."""

from typing import Literal

from pydantic import Field

from lt2theory.fields import Frozen


class TaskOptions(Frozen):
    """How the generators are timed."""

    seconds: float = Field(2.0, gt=0, allow_inf_nan=False, description="Seconds for each row.")
    workers: int = Field(2, ge=1, description="Processes that generate at once.")
    size: int = Field(2048, ge=1, description="Examples a batch.")


class OpsOptions(Frozen):
    """How the recurrences are timed."""

    repeats: int = Field(7, ge=1, description="Turns of every method; the fastest counts.")
    threads: int = Field(2, ge=1, le=1024, description="Threads of a tensor operation.")


class AnalysisOptions(Frozen):
    """How the analysers are timed."""

    sample: int = Field(256, ge=1, le=8192, description="Operators of the dense methods.")
    repeats: int = Field(5, ge=1, description="Turns of the methods; the fastest counts.")
    threads: int = Field(
        1,
        ge=1,
        le=1024,
        description="Threads of a tensor operation in the spectra; the models have one.",
    )


class DecodeOptions(Frozen):
    """What is decoded."""

    patterns: tuple[str, ...] = Field(
        ("gdn",), description="Layer patterns: gdn, full, full-gdn, gdn-dsa, nsa, window."
    )
    batches: tuple[int, ...] = Field((8,), description="Rows.")
    contexts: tuple[int, ...] = Field((1024,), description="Tokens already read.")
    steps: int = Field(30, ge=1, description="Steps that are timed.")
    eager: bool = Field(True, description="Also time the model's own forward with a cache.")


class TrainStepOptions(Frozen):
    """Which training steps are taken."""

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
    threads: int = Field(1, ge=1, le=1024, description="Threads of a tensor operation on a CPU.")


class StudyOptions(Frozen):
    """Which cells share a GPU."""

    workloads: tuple[str, ...] = Field(
        ("words", "recall-4", "recall-64"),
        description="What is trained: words, words-accumulate, recall-4, recall-64, "
        "recall-window-4, recall-window-64 (the number is that of the swaps).",
    )
    at_once: tuple[int, ...] = Field((1, 2, 4, 8), description="Numbers of cells at a time.")
    seconds: float = Field(
        6.0, gt=0, allow_inf_nan=False, description="Time of every count, after the first steps."
    )


class SparseOptions(Frozen):
    """Which sparse attentions are timed."""

    ops: tuple[Literal["dsa", "nsa"], ...] = Field(("dsa", "nsa"), description="Attentions.")
    lengths: tuple[int, ...] = Field((4096, 16384, 65536), description="Tokens.")
    dtype: Literal["bfloat16", "float32"] = Field("bfloat16", description="Dtype of the inputs.")
    backends: tuple[Literal["triton", "chunked", "reference"], ...] = Field(
        ("triton", "reference"), description="Backends; reference has the dense masks."
    )
    repeats: int = Field(5, ge=1, description="Runs that are timed; the median counts.")


class PrefillOptions(Frozen):
    """What is read."""

    patterns: tuple[str, ...] = Field(
        ("gdn", "window", "full", "nsa", "gdn-dsa"),
        description="Layer patterns: gdn, full, full-gdn, gdn-dsa, nsa, window.",
    )
    contexts: tuple[int, ...] = Field((8192, 32768), description="Tokens of a row.")
    batch: int = Field(8, ge=1, description="Rows; halved where they do not fit.")
    chunk: int = Field(
        0,
        ge=0,
        description="Tokens of a row read at a time, into a cache; 0: all at once, without one.",
    )
    backend: str = Field(
        "triton", description="Backend of the ops; one without it takes what auto would."
    )
    layers: int = Field(20, ge=1, le=1024, description="Layers; 20 are the whole model.")
    repeats: int = Field(3, ge=1, description="Runs that are timed; the median counts.")
