"""Cells in order, rows of small models on a CPU, what does not fit, and sessions of one file."""

import json
import math
import time
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from lt2theory.bench import efficiency
from lt2theory.bench.efficiency import Meter, measure_cells
from lt2theory.bench.efficiency_cells import (
    ARMS,
    FORMS,
    Cell,
    all_cells,
    cache_bytes,
    config_of,
    floor_ms,
    weight_bytes,
    without_loops,
)
from lt2theory.bench.efficiency_file import KEY, add_rows, left_to_do
from lt2theory.models import LoopedConfig
from lt2theory.models.parameters import applied_weights, parameter_count

ENVIRONMENT = {"device": "a", "packages": {"torch": "2"}}


class Clock(Meter):
    """The same on a CPU, whose memory is what a test says."""

    device = "cpu"

    def __init__(self, memory: float = 1e12) -> None:
        self.bytes = memory

    def memory(self) -> float:
        return self.bytes

    def begin(self) -> None:
        pass

    def peak(self) -> float:
        return 2.0**30

    def is_alive(self) -> bool:
        return self.bytes > 0

    def milliseconds(self, call: Any, times: int = 1) -> float:
        begun = time.perf_counter()
        for _ in range(times):
            call()
        return 1e3 * (time.perf_counter() - begun) / times


def small(arm: str, form: Any) -> LoopedConfig:
    pattern = {"full": "full", "gdn": "gdn", "full-gdn": "gdn,full"}[arm]
    config = LoopedConfig(
        vocab_size=20, width=16, num_layers=2, num_loops=2, num_heads=2, pattern=pattern
    )
    return without_loops(config, form)


def rows_of(cells: list[Cell], meter: Meter, **fields: Any) -> list[dict[str, Any]]:
    settings = {"until": math.inf, "steps": 2, "backend": "auto", "config": small} | fields
    return list(measure_cells(cells, meter, **settings))


def test_counterparts_have_the_same_parameters_or_the_same_work() -> None:
    for arm in ARMS:
        looped = config_of(arm, "looped")
        same, deep = (config_of(arm, form) for form in FORMS[1:])
        loop_gates = 3 * looped.width
        assert parameter_count(same) + loop_gates == parameter_count(looped)
        assert applied_weights(deep) == applied_weights(looped) == 4 * applied_weights(same)
        assert [x.mixer for x in deep.layers] == 4 * [x.mixer for x in looped.layers]
        for phase in ("decode", "prefill"):
            cell = Cell(arm, "looped", phase, 8, 8192)
            assert floor_ms(deep, cell) == pytest.approx(floor_ms(looped, cell), rel=1e-3)
        assert cache_bytes(deep, cell) == cache_bytes(looped, cell) == 4 * cache_bytes(same, cell)


def test_what_is_wanted_most_comes_first() -> None:
    arms = tuple(ARMS)
    cells = all_cells(arms, FORMS, ("decode", "prefill"), (1, 8, 32), (1024, 8192, 16384, 32768))
    assert len(cells) == len(set(cells)) == 6 * 3 * 2 * 3 * 4
    first = cells[: 6 * 6]
    assert {cell.form for cell in first} == {"looped"}
    assert [cell.arm for cell in first] == [arm for arm in arms for _ in range(6)]
    assert {(c.phase, c.batch) for c in first} == {("decode", 8), ("prefill", 1)}
    assert {cell.length for cell in cells[-50:]} == {16384}
    with pytest.raises(ValueError, match=r"arms: 'rnn' is not allowed \(choose from full, gdn"):
        all_cells(("rnn",), FORMS, ("decode",), (1,), (8,))


def test_rows_of_small_models() -> None:
    cells = all_cells(("full", "gdn"), FORMS, ("decode", "prefill"), (2,), (24,))
    rows = rows_of(cells, Clock())
    assert [tuple(row[name] for name in KEY) for row in rows] == [
        (c.arm, c.form, c.phase, c.batch, c.length) for c in cells
    ]
    for row in rows:
        tokens = 2 * (24 if row["phase"] == "prefill" else 1)
        assert row["tokens_per_second"] == pytest.approx(1e3 * tokens / row["ms"])
        assert row["peak_gib"] == 1
        assert 0 < row["floor_ms"] < row["ms"]
        if row["phase"] == "prefill":
            assert (row["path"], row["reason"]) == ("pieces of 24", None)
        else:  # no fused kernels here: the next way runs, and the row says why
            assert row["path"] == "graph"
            assert row["reason"].startswith("fused: ValueError")


def test_pieces_share_the_tokens_of_a_call() -> None:
    assert Cell("full", "looped", "prefill", 8, 32768).chunk == 2048
    assert Cell("full", "looped", "prefill", 1, 1024).chunk == 1024


def test_what_cannot_fit_is_not_tried() -> None:
    cell = Cell("full", "looped", "decode", 2, 4000)
    config = small("full", "looped")
    memory = cache_bytes(config, cell) + weight_bytes(config) - 1.0
    (row,) = rows_of([cell], Clock(memory))
    assert row["reason"].startswith("out of memory: cache ")
    assert row["ms"] is row["tokens_per_second"] is row["path"] is None
    assert row["cache_gib"] > 0
    (row,) = rows_of([Cell("full", "looped", "prefill", 2, 64)], Clock(), most_seconds=1e-12)
    assert row["reason"].startswith("left out: takes at least")


def test_running_out_of_memory_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("no more")

    monkeypatch.setattr(efficiency, "decoder_at", full)
    cells = [Cell("gdn", "looped", phase, 1, 16) for phase in ("decode", "prefill")]
    out, fine = rows_of(cells, Clock())
    assert (out["ms"], out["reason"]) == (None, "out of memory")
    assert fine["ms"] > 0


def test_a_dead_device_ends_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()

    def breaks(*_: Any, **__: Any) -> None:
        clock.bytes = 0
        raise RuntimeError("CUDA error: misaligned address")

    cells = [Cell("gdn", "looped", phase, 1, 16) for phase in ("prefill", "decode", "prefill")]
    monkeypatch.setattr(efficiency, "decoder_at", breaks)
    fine, last = rows_of(cells, clock)
    assert fine["ms"] > 0
    assert "misaligned address" in last["reason"]


def test_sessions_add_to_one_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    cells = all_cells(("gdn",), ("looped",), ("decode",), (1, 2), (16, 24))

    def session(count: int, **changes: Any) -> dict[str, Any]:
        left = left_to_do(cells, path)
        found = measure_cells(left, Clock(), until=math.inf, steps=1, backend="auto", config=small)
        environment = ENVIRONMENT | changes
        return add_rows(
            path, lambda: islice(found, count), command="bench", environment=environment
        )

    assert len(session(3)["rows"]) == 3
    assert len(left_to_do(cells, path)) == 1
    content = session(3)
    assert json.loads(path.read_text()) == content
    assert len({tuple(row[name] for name in KEY) for row in content["rows"]}) == 4
    assert content["commands"] == ["bench"]
    with pytest.raises(ValueError, match="holds rows of device a, not b; give another file"):
        session(1, device="b")
    path.write_text('{"rows": 3}')
    with pytest.raises(ValueError, match="it has no rows"):
        left_to_do(cells, path)


def test_a_session_ends_in_time() -> None:
    cells = all_cells(("gdn",), ("looped",), ("decode",), (1, 2), (16,))
    assert rows_of(cells, Clock(), until=time.monotonic()) == []
