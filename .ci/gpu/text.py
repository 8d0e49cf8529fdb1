"""Parts of text.sh, by name: steps, steps-of, weights, xz, compare, table.

Each imports what it needs itself: loading torch for the others would cost the training seconds.
"""

import json
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

MINUTES = 8
AROUND = 25
"""Seconds of a training command that are not its steps: imports, compilation, evaluations."""
PART = 14 * 2**20
"""Most bytes of weights in a file."""
SPEED = ("tokens_per_second", "tflops", "mfu", "peak_memory_gib")


def lines(path: Path) -> list[dict[str, Any]]:
    """The records of a file of JSON lines, none where there is no file."""
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def config_of(run: str) -> dict[str, Any]:
    """The configuration of a run."""
    return json.loads((Path(run) / "config.json").read_text(encoding="utf-8"))["config"]


def steps_of(run: str) -> None:
    """Print the steps that a run was begun with."""
    print(config_of(run)["steps"])


def steps(probe: str, seconds: str) -> None:
    """Print the steps that fit into the seconds which a training command may take."""
    config = config_of(probe)
    tokens = config["batch_size"] * config["sequence_length"]
    rows = lines(Path(probe) / "timing.jsonl")
    late = [row for row in rows if row["step"] > rows[-1]["step"] / 2]
    each = median(tokens / row["tokens_per_second"] for row in late)
    whole = min(int(seconds), 60 * MINUTES) - AROUND
    print(max(200, int(whole / (1.02 * each)) // 20 * 20))


def weights(run: str, to: str) -> None:
    """Write all weights in bfloat16, in as many files as their size asks for."""
    import torch
    from safetensors.torch import save_file

    from lt2theory.training.lm import load_lm

    model, config = load_lm(Path(run))
    parts: list[dict[str, torch.Tensor]] = [{}]
    for name, value in model.state_dict().items():
        half = value.detach().to(torch.bfloat16).contiguous().clone()
        if sum(x.nbytes for x in parts[-1].values()) + half.nbytes > PART:
            parts.append({})
        parts[-1][name] = half
    metadata = {"config": config.model.model_dump_json()}
    for number, part in enumerate(parts, 1):
        save_file(part, str(Path(to) / f"weights-{number}.safetensors"), metadata=metadata)


def xz(run: str) -> None:
    """Write xz.json of a run that is still training."""
    from lt2theory.report.text_baseline import baselines_of
    from lt2theory.runs import RunFolder

    while not (Path(run) / "corpus.json").is_file():
        time.sleep(1)
    print(baselines_of(RunFolder.open(Path(run))))


def compare(run: str, two: str, checks: str) -> None:
    """Add to the checks what their option `--other` adds, without reading the texts once more."""
    from lt2theory.experiments.text_checks import losses_compared

    path = Path(checks)
    if Path(two).is_dir() and path.is_file():
        found = json.loads(path.read_text(encoding="utf-8"))
        found["processes"] = losses_compared(Path(run), Path(two))
        path.write_text(json.dumps(found, indent=1), encoding="utf-8")


def table(run: str, checks: str) -> None:
    """Print what was found."""
    folder, path = Path(run), Path(checks)
    found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    summary = folder / "summary.json"
    ended = summary.is_file()
    print("TABLE")
    print("summary", summary.read_text(encoding="utf-8") if ended else "none: it has not ended")
    timing = lines(folder / "timing.jsonl")
    late = timing[len(timing) // 2 :]
    mean = {name: sum(row.get(name) or 0 for row in late) / max(len(late), 1) for name in SPEED}
    print("speed", mean)
    curve = [row for row in lines(folder / "metrics.jsonl") if row["split"] == "eval"]
    print("curve", {row["step"]: round(row["metrics"]["bits_per_byte"], 4) for row in curve})
    print("held out", found.get("held_out"), "| xz", found.get("xz"))
    if found.get("held_out") and found.get("xz"):
        bits = found["held_out"]["eval"]["bits_per_byte"]
        print("beats xz:", {name: bits < value for name, value in found["xz"].items()})
    print("texts", found.get("texts"))
    two_processes(found.get("processes") or {"steps": []})


def two_processes(found: dict[str, Any]) -> None:
    """Print how far the losses of two processes are from those of one."""
    rows = found["steps"]
    largest = max((row["relative"] for row in rows), default=None)
    print(f"two processes: {len(rows)} records after step {found.get('from_step')}, largest")
    print(f"  relative difference {largest}, bits per byte {found.get('bits_per_byte')}")
    for row in rows[:3] + rows[3:][-2:]:
        print("  ", row)


PARTS = {each.__name__: each for each in (steps, weights, xz, compare, table)}
PARTS["steps-of"] = steps_of

if __name__ == "__main__":
    PARTS[sys.argv[1]](*sys.argv[2:])
