"""Compile and tune what the 1.3B presets need, on models of their widths and few layers.

python warm_presets.py NUMBER OF FILE: the NUMBER-th share of OF, without what FILE has rows of.
"""

import argparse
import json
import time
from pathlib import Path

from lt2theory.bench import lm_step, presets
from lt2theory.models import find_preset
from lt2theory.models.preset import Preset, changed

SHARED = (
    "bookend", "full-kda", "gated", "coarse-to-fine", "fine-to-coarse", "gdn-window", "full-window",
)  # fmt: skip
"""Ends of names whose kernels are those of other presets."""
SLOW = ("kda", "gated_deltaproduct", "gla", "hgrn2", "mlstm", "mamba2", "retnet")
"""Mixers whose tuning takes longest, which come first."""
SIZES = {
    "cuda": {"train": (4, 2048), "prefill": (1, 8192), "decode": (8, 8192)},
    "cpu": {"train": (1, 16), "prefill": (1, 32), "decode": (2, 32)},
}


def few_layers(name: str) -> Preset:
    """The preset with one layer of each kind, and two loops."""
    config = find_preset(name).config
    order, by_loop = config.pattern, "->" in config.pattern
    layers = 5 if "*4" in order else len(order.split("->")[0].split(","))
    loops = 4 if by_loop else 2
    return Preset(changed(config, vocab_size=1024, num_layers=layers, num_loops=loops), "")


def share(number: int, of: int) -> list[str]:
    """Names of the presets that a process compiles."""
    names = [name for name in presets.full_scale_presets() if not name.endswith(SHARED)]
    names.sort(key=lambda name: (name.split("-")[-1] not in SLOW, name))
    return names[number::of]


def compile_one(job: presets.Job, device: str) -> str:
    """Run a job once, and say which way it went or why not."""
    backend = "triton" if device == "cuda" else "auto"
    try:
        row = presets.measure_job(job, presets.Way(device, steps=2, backend=backend))
    except Exception as error:  # noqa: BLE001 (the benchmark tells the fault; others go on)
        return f"{type(error).__name__}: {str(error)[:100]}"
    return str(row["reason"] or row["path"])


def main() -> None:
    """Run every job of this share that has no row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("number", type=int)
    parser.add_argument("of", type=int)
    parser.add_argument("file", type=Path)
    parser.add_argument("--preset", help="this one alone")
    parser.add_argument("--device", choices=tuple(SIZES), default="cuda")
    asked = parser.parse_args()
    rows = json.loads(asked.file.read_text())["rows"] if asked.file.is_file() else []
    done = {(row["preset"], row["phase"]) for row in rows}
    presets.find_preset = lm_step.find_preset = few_layers
    for phase, (batch, length) in SIZES[asked.device].items():
        for name in [asked.preset] if asked.preset else share(asked.number, asked.of):
            if (name, phase) not in done:
                begun = time.perf_counter()
                said = compile_one(presets.Job(name, phase, batch, length), asked.device)
                print(f"{time.perf_counter() - begun:.1f} s {name} {phase} {said}", flush=True)


if __name__ == "__main__":
    main()
