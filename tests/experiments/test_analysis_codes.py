"""Tables about a group on models that know nothing, and their limits."""

import pytest
import torch

from lt2theory.analysis import silenced_accuracy
from lt2theory.experiments.analysis_codes import (
    HEAD_TOKENS,
    LONGEST_WORD,
    TOKENS,
    group_tables,
)
from lt2theory.models import LoopedConfig, LoopedModel
from tasks import create


def untrained(task, **fields):
    config = {"width": 16, "num_heads": 2, "num_layers": 1, "num_loops": 2, "pattern": "deltanet"}
    return LoopedModel(LoopedConfig(vocab_size=task.vocab_size, **config | fields)).double()


@pytest.mark.parametrize("loop_state", ["rescan", "accumulate"])
def test_an_untrained_model_tracks_nothing(loop_state):
    task = create("group_word", group="S3")
    tables = group_tables(untrained(task, loop_state=loop_state), task, 16)
    assert tables.keys() == {"group_readout", "group_heads", "group_silenced"}
    readout = tables["group_readout"]
    assert list(readout["loop"]) == [-1, 0, 1]
    assert (readout[["product", "chance"]] < 0.3).all(axis=None)
    assert len(tables["group_heads"]) == 4
    assert tables["group_heads"]["product"].max() < 0.3
    assert tables["group_silenced"].empty, "no layer holds anything"


@pytest.mark.parametrize("pattern", ["mlstm", "kda", "gated_deltaproduct", "gdn,full"])
def test_every_kind_of_factor_is_read(pattern):
    task = create("group_word", group="Z5")
    layers = 1 + pattern.count(",")
    tables = group_tables(untrained(task, pattern=pattern, num_layers=layers), task, 11)
    assert len(tables["group_heads"]) == 4
    assert len(tables["group_readout"]) == 1 + 2 * layers


def test_what_is_too_large_or_too_short_is_left_out():
    for name, length in (("S6", 16), ("S3", 1)):
        task = create("group_word", group=name)
        assert group_tables(untrained(task), task, length) == {}


def test_silencing_a_head_leaves_the_model_as_it_was():
    task = create("group_word", group="S3")
    model = untrained(task)
    before = {name: x.clone() for name, x in model.named_parameters()}
    batch = task.batch(stage=16, split="test", seed=0, index=0, size=4)
    tokens, targets = torch.from_numpy(batch.inputs), torch.from_numpy(batch.targets)
    assert silenced_accuracy(model, tokens, targets, {1}).empty, "there is no such layer"
    silenced = silenced_accuracy(model, tokens, targets, {0})
    assert (silenced["whole"] < 0.4).all()
    assert silenced[["layer", "head"]].to_numpy().tolist() == [[0, 0], [0, 1]]
    assert all(torch.equal(x, before[name]) for name, x in model.named_parameters())


def test_a_long_task_and_a_large_model_do_not_cost_more_words(monkeypatch):
    task = create("group_word", group="S3")
    seen = []
    traced = LoopedModel.trace

    def trace(self, tokens):
        seen.append(tokens.shape)
        return traced(self, tokens)

    monkeypatch.setattr(LoopedModel, "trace", trace)
    group_tables(untrained(task), task, 512)
    group_tables(untrained(task, num_layers=4, num_heads=8, num_loops=4), task, 512)
    (few, length), (fewer, same) = seen
    assert length == same == LONGEST_WORD
    assert few * length == TOKENS
    assert fewer * length * 4 * 8 * 4 == HEAD_TOKENS
