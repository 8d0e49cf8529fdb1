"""States, speed, lm_eval's results, and the evaluation as a whole."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch

from lt2theory.analysis import effective_rank, state_rank
from lt2theory.linearize.evaluation import PARTS, EvaluationConfig, Pair, evaluate_pair
from lt2theory.linearize.evaluation.speed import speed_rows
from lt2theory.linearize.evaluation.states import state_rows
from lt2theory.linearize.evaluation.table import COLUMNS
from lt2theory.linearize.evaluation.zero_shot import harness_rows, zero_shot_rows
from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.runs.environment import last_environment
from lt2theory.training.runtime import Runtime
from lt2theory.training.text import TextBatches

MakePair = Callable[..., Pair]
TINY = EvaluationConfig(
    documents=2,
    length=64,
    needle_kinds=("word",),
    needle_lengths=(256,),
    needles=2,
    pairs=(2,),
    recalls=4,
    texts=2,
    prompt=8,
    new_tokens=12,
    windows=2,
    window=16,
    speed_lengths=(8,),
    speed_steps=2,
)


def test_states_are_what_the_analysers_say(make_pair: MakePair) -> None:
    pair = make_pair("gdn,full")
    rows = {(row.layer, row.loop, row.metric): row for row in state_rows(pair, TINY)}
    assert {key[:2] for key in rows} == {(0, 0), (0, 1)}  # layer 1 has no matrix state
    tokens = TextBatches(pair.stream, length=16, batch_size=2, seed=0).batch(0).inputs
    table = state_rank(pair.student.trace(torch.from_numpy(tokens)), every=16)
    last = table[(table["num_tokens"] == 16) & (table["loop"] == 1)]
    one = rows[0, 1, "entropy_rank"]
    assert one.value == pytest.approx(last["entropy_rank"].mean())
    assert one.floor == 1.0 <= one.value <= 8
    assert 0 < rows[0, 1, "rank_share"].value <= 1
    assert rows[0, 1, "horizon"].value <= 16
    assert float(effective_rank(torch.ones(3))) == pytest.approx(3.0)
    assert state_rows(make_pair("full"), TINY) == []


def test_a_students_cache_does_not_grow(make_pair: MakePair) -> None:
    pair = make_pair()
    config = EvaluationConfig(speed_lengths=(16, 64), speed_steps=3)
    rows = {(row.model, row.length, row.metric): row.value for row in speed_rows(pair, config)}
    assert rows["student", 64, "cache_mib"] < 1.5 * rows["student", 16, "cache_mib"]
    assert rows["teacher", 64, "cache_mib"] > 3 * rows["teacher", 16, "cache_mib"]
    assert all(value > 0 for value in rows.values())
    assert rows["teacher", None, "weights_mib"] * 2**20 == 8 * sum(
        parameter.numel() for parameter in pair.teacher.parameters()
    )


def test_models_generate_in_the_dtype_of_the_runtime(make_pair: MakePair) -> None:
    pair = make_pair()
    assert pair.decoding(pair.student) is pair.student
    half = replace(pair, runtime=Runtime(torch.device("cpu"), torch.bfloat16))
    copy = half.decoding(half.student)
    assert copy.dtype == torch.bfloat16
    assert pair.student.dtype == torch.float64
    rows = {row.metric: row for row in speed_rows(half, TINY) if row.model == "student"}
    assert rows["weights_mib"].value * 2**20 == 2 * sum(p.numel() for p in copy.parameters())


def test_results_of_lm_eval_become_rows() -> None:
    found = {
        "results": {
            "niah": {
                "alias": "niah",
                "exact_match,none": 1.0,
                "exact_match_stderr,none": 0.0,
                "bits_per_byte,strict": 2.0,
                "bits_per_byte_stderr,strict": 0.5,
                "word_perplexity,none": 9.0,
                "word_perplexity_stderr,none": "N/A",
            }
        },
        "n-samples": {"niah": {"original": 100, "effective": 20}},
    }
    exact, bits, perplexity = harness_rows("student", found)
    assert (exact.kind, exact.metric, exact.value, exact.n) == ("niah", "exact_match", 1.0, 20)
    assert (exact.low, exact.high) == (pytest.approx(0.839, abs=1e-3), 1.0)  # Wilson's
    assert (bits.metric, bits.low) == ("bits_per_byte_strict", pytest.approx(1.02, abs=1e-3))
    assert (perplexity.low, perplexity.high) == (None, None)


@pytest.mark.slow
def test_lm_eval_reads_both_models(
    make_pair: MakePair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("lm_eval", "accelerate"):
        pytest.importorskip(name, reason="pip install 'lt2theory[hf]'")
    from lt2theory.hf.needle import write_needle_tasks

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    write_needle_tasks(tmp_path, stages=(40,), size=3)
    how = {"parts": ("zero_shot",), "tasks": ("lt2_needle_40",), "include": str(tmp_path)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of lm_eval's own
        rows = zero_shot_rows(make_pair(), EvaluationConfig.model_validate(how))
    assert [(row.model, row.metric, row.n) for row in rows] == [
        ("teacher", "exact_match", 3),
        ("student", "exact_match", 3),
    ]


def test_an_evaluation_is_kept_part_by_part(make_pair: MakePair, folder: Path) -> None:
    pair, told = make_pair(), list[str]()
    made = {"student": "a run of theirs"}
    table = evaluate_pair(pair, TINY, folder, made=made, tell=told.append)
    assert told == list(TINY.parts)
    ran = last_environment(folder)
    assert (ran["device"], ran["dtype"]) == ("cpu", "float32")
    assert ran["student"] == "a run of theirs"
    assert ran["packages"]["torch"] == torch.__version__
    assert list(table.columns) == list(COLUMNS)
    assert set(table["part"]) == set(TINY.parts) == set(PARTS) - {"zero_shot", "cloze"}
    kept = pd.read_parquet(folder / "evaluation.parquet").astype(table.dtypes.to_dict())
    pd.testing.assert_frame_equal(kept, table)
    (folder / "parts" / "needle.parquet").unlink()
    again = evaluate_pair(pair, TINY, folder, made=made, tell=told.append)
    assert told[len(TINY.parts) :] == ["needle"]
    pd.testing.assert_frame_equal(again, table)
    with pytest.raises(ValueError, match="holds another evaluation"):
        evaluate_pair(pair, TINY.model_copy(update={"seed": 1}), folder)


def test_settings_that_are_refused_leave_the_folder_free(make_pair: MakePair, folder: Path) -> None:
    pair, short = make_pair(), TINY.model_copy(update={"needle_lengths": (3,)})
    with pytest.raises(ValueError, match="needle_lengths: 3 tokens"):
        evaluate_pair(pair, short.model_copy(update={"parts": ("needle",)}), folder)
    assert list(folder.iterdir()) == []
    config = TINY.model_copy(update={"parts": ("recovery",)})
    assert len(evaluate_pair(pair, config, folder))


def test_a_part_is_named_once() -> None:
    with pytest.raises(ValueError, match="allowed are different values"):
        EvaluationConfig(parts=("recovery", "recovery"))


def test_pairs_are_of_one_vocabulary(make_pair: MakePair) -> None:
    pair = make_pair()
    other = LoopedModel(LoopedConfig(vocab_size=300, width=8, num_heads=2))
    with pytest.raises(ValueError, match="vocab_size: 300 of the student must be"):
        replace(pair, student=other)
    small = LoopedModel(LoopedConfig(vocab_size=100, width=8, num_heads=2))
    with pytest.raises(ValueError, match="at least the 258 of tokenizer 'bytes'"):
        replace(pair, student=small, teacher=small)
    with pytest.raises(ValueError, match=r"tasks: \(\) is not allowed with zero_shot"):
        EvaluationConfig(parts=("zero_shot",))
    with pytest.raises(ValueError, match="pairs: got"):
        EvaluationConfig(pairs=(4, 4))
