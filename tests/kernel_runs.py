"""Run folders as a GPU leaves them: their configuration names kernels that a CPU has not."""

from pathlib import Path

from lt2theory.runs import config_hash, read_json, write_json


def name_kernels(folder: Path, backend: str = "triton") -> None:
    """Let the configuration of a run that a CPU made name kernels of a GPU."""
    path = folder / "config.json"
    header = read_json(path)
    header["config"]["model"]["backend"] = backend
    write_json(path, header | {"hash": config_hash(header["config"])})
