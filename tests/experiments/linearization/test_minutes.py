"""The constants behind the minutes of linearizations, beside what was measured."""

from pathlib import Path

import pytest

from lt2theory.bench.study import WORKLOADS
from lt2theory.experiments.linearization.minutes import PASS_MS
from lt2theory.models.flops import step_flops
from lt2theory.runs import read_json

ROOT = Path(__file__).parents[3]


def test_launches_and_products_give_the_steps_of_gdn_that_were_measured() -> None:
    rows = read_json(ROOT / "results" / "study-throughput-h200.json")["rows"]
    taken = {
        row["workload"]: row["ms"]
        for row in rows
        if (row["source"], row["way"], row["at_once"]) == ("b807a97", "engine", 4)
    }
    assert set(taken) == {"words", "recall-4", "recall-64"}
    for name, ms in taken.items():
        config = WORKLOADS[name].config()
        model = config.model
        length = config.task.create().sequence_length(config.stages[0])
        flops = step_flops(model, config.batch_size, length)
        said = PASS_MS * model.num_layers * model.num_loops + 14.9 * flops / 1e12
        assert said == pytest.approx(ms, rel=0.04), name
