"""Students before training in one table, the comparison with a teacher, and teachers by path."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from lt2theory.linearize.divergence import recovery
from lt2theory.linearize.starts import STUDENT_MIXERS, Start
from lt2theory.linearize.teachers import frozen, load_teacher
from lt2theory.linearize.untrained import Case, axis_cases, untrained_table
from lt2theory.models import LoopedModel

Make = Callable[..., LoopedModel]
Text = Callable[[int, int, int], Tensor]


@pytest.mark.parametrize("chunk", [1, 7, 512])
def test_recovery_is_its_definition(chunk: int, teacher: Make, text: Text) -> None:
    model, other, tokens = teacher(), teacher(num_layers=2), text(3, 20, 0)
    with torch.no_grad():
        p, q = model(tokens), other(tokens)
    found = recovery(model, other, tokens, chunk=chunk)
    kl = F.kl_div(q.log_softmax(-1), p.softmax(-1), reduction="sum") / 60
    assert found.kl == pytest.approx(float(kl), rel=1e-9)
    loss = F.cross_entropy(q[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
    assert found.loss == pytest.approx(float(loss), rel=1e-6)
    assert found.agreement == float((p.argmax(-1) == q.argmax(-1)).double().mean())
    alone = recovery(model, model, tokens).loss
    assert alone == pytest.approx(
        found.teacher_loss, rel=1e-14
    )  # a last digit may be rounded apart


def test_recovery_refuses(teacher: Make, text: Text) -> None:
    with pytest.raises(ValueError, match="vocab_size: 30 of the student"):
        recovery(teacher(), teacher(vocab_size=30), text(1, 5, 0))
    with pytest.raises(ValueError, match="tokens: 1 a row"):
        recovery(teacher(), teacher(), text(1, 1, 0))


def test_the_table_has_a_row_a_case(teacher: Make, text: Text) -> None:
    cases = axis_cases(("gdn", "retnet"))
    assert len(cases) == 2 * 15
    assert len(axis_cases()) == 15 * len(STUDENT_MIXERS)
    chosen = [cases[0], cases[1], cases[2], cases[-1], Case("mlstm", Start(decay="attention"))]
    table = untrained_table(teacher(), chosen, calibration=text(4, 30, 0), tokens=text(2, 30, 1))
    assert table["pattern"].tolist() == ["gdn", "gdn", "gdn", "retnet", "mlstm"]
    assert table["copied"].tolist() == [True, False, True, True, True]
    assert table.loc[3, "conv_width"] == 0
    numbers = table[["kl", "loss", "teacher_loss", "agreement"]]
    assert bool(numbers.notna().all(axis=None))
    assert table["cosine"].isna().tolist() == [False, True, True, False, False]
    assert table.loc[0, "kl"] < table.loc[1, "kl"]


def test_teachers_by_path(tmp_path: Path, teacher: Make, text: Text) -> None:
    from safetensors.torch import save_file

    from lt2theory.linearize.llama import load_llama, tensor_names
    from lt2theory.linearize.llama_config import looped_config
    from lt2theory.linearize.weights import FolderSource

    settings = {
        "model_type": "llama",
        "vocab_size": 29,
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    }
    names = tensor_names(looped_config(settings, "x"))
    shapes = dict(LoopedModel(looped_config(settings, "x")).named_parameters())
    folder = tmp_path / "some-llama"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(settings))
    save_file(
        {
            theirs: torch.randn(shapes[ours].shape, generator=torch.Generator().manual_seed(0))
            for ours, theirs in names.items()
        },
        folder / "model.safetensors",
    )
    found = load_teacher(folder, dtype=torch.bfloat16)
    assert (found.name, found.source, found.model.dtype) == ("some-llama", "folder", torch.bfloat16)
    assert not found.model.training
    assert not any(parameter.requires_grad for parameter in found.model.parameters())
    assert found.model.config == load_llama(FolderSource(folder)).config
    with pytest.raises(
        ValueError, match=r"must be a Hugging Face checkpoint, a run's folder.*; found a folder"
    ):
        load_teacher(tmp_path)
    assert frozen(teacher(), "mine").source == "memory"


def test_runs_of_ours_are_teachers(tmp_path: Path) -> None:
    from lt2theory.models import LoopedConfig
    from lt2theory.training import (
        CurriculumConfig,
        OptimiserConfig,
        TaskConfig,
        load_model,
        run_curriculum,
    )

    config = CurriculumConfig(
        task=TaskConfig(name="parity"),
        model=LoopedConfig(width=8, num_layers=1, num_heads=2, pattern="full", num_loops=2),
        optimiser=OptimiserConfig(warmup_steps=1),
        stages=(12,),
        batch_size=4,
        step_budget=2,
        evaluate_every=2,
        evaluation_size=64,
        confirmation_size=64,
        test_size=64,
    )
    run_curriculum(config, tmp_path / "run")
    found = load_teacher(tmp_path / "run")
    expected, _ = load_model(tmp_path / "run")
    assert found.source == "run"
    for own, theirs in zip(found.model.parameters(), expected.parameters(), strict=True):
        assert torch.equal(own, theirs)
