"""The teacher's likeliest tokens from the disk: the same loss, and no teacher to run."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from lt2theory.linearize.construct import build_student
from lt2theory.linearize.distillation import Distillation
from lt2theory.linearize.engine import run_recipe
from lt2theory.linearize.hybrids import student_config
from lt2theory.linearize.sources import Sources
from lt2theory.linearize.topk import top_k
from lt2theory.linearize.topk_store import TopKStore, rounded
from lt2theory.models import LoopedModel
from lt2theory.training.lm import Execution
from lt2theory.training.lm.objective import Place
from tests.linearize.runs import different, make_recipe, make_sources

Make = Callable[..., LoopedModel]
Text = Callable[[int, int, int], Tensor]


@pytest.mark.parametrize("k", [1, 5, 29, 64])
@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_the_disk_changes_nothing_but_digits(
    k: int, temperature: float, teacher: Make, text: Text, tmp_path: Path
) -> None:
    model = teacher().requires_grad_(False)
    config = student_config(model.config, "gdn", backend="chunked")
    student = build_student(model, config, calibration=text(2, 16, 0)).model
    tokens, targets = text(3, 11, 1), text(3, 11, 2)
    targets[0, :5] = -100
    told = Distillation(top_k=k, temperature=temperature, chunk=7)
    losses = []
    for store in (None, TopKStore(tmp_path), TopKStore(tmp_path)):
        objective = told.build(student, model)
        objective.store, objective.place = store, Place(3, 10, 0)
        losses.append(objective(tokens, targets, None, label_share=1.0, row_share=1.0)[1])
    assert [path.name for path in tmp_path.iterdir()] == ["00000003-00000-3.safetensors"]
    for name in losses[0]:
        assert losses[1][name] == losses[2][name]
        torch.testing.assert_close(losses[1][name], losses[0][name], rtol=2e-3, atol=1e-4)
    full = Distillation(temperature=temperature).build(student, model)
    whole = full(tokens, targets, None, label_share=1.0, row_share=1.0)[1]
    if k >= 29:
        torch.testing.assert_close(losses[0]["kl"], whole["kl"], rtol=1e-9, atol=1e-12)
    else:
        assert losses[0]["kl"] <= whole["kl"]
    assert losses[0]["agreement"] == whole["agreement"]


def test_a_place_is_a_step_and_rows(tmp_path: Path) -> None:
    store, asked = TopKStore(tmp_path / "store"), []

    def make(seed: int) -> Callable[[], object]:
        def asks() -> object:
            asked.append(seed)
            logits = torch.randn(4, 9, generator=torch.Generator().manual_seed(seed))
            return top_k(logits, 3)

        return asks

    places = [(Place(0, 9, 0), 2), (Place(0, 9, 2), 2), (Place(1, 9, 0), 2), (Place(1, 9, 0), 4)]
    for turn in range(2):
        for seed, (place, rows) in enumerate(places):
            found = store.at(place, rows, make(seed))  # type: ignore[arg-type]
            wanted = rounded(make(seed)())  # type: ignore[arg-type]
            assert torch.equal(found.ids, wanted.ids)
            assert torch.equal(found.log_p, wanted.log_p)
            asked.pop()
        assert asked == [0, 1, 2, 3], turn
    path = tmp_path / "store" / "00000000-00000-2.safetensors"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ValueError, match="is damaged; delete it"):
        store.at(*places[0], make(0))  # type: ignore[arg-type]


def test_arms_on_the_same_text_share_a_cache(tmp_path: Path) -> None:
    """The second arm makes no file; it ends as with a cache of its own."""
    made = make_sources(tmp_path / "sources")
    sources = Sources(made.teacher, made.corpus, cache=tmp_path / "cache")
    stage = make_recipe().stages[2].model_dump() | {"restore": (), "objective": {
        "kind": "distillation", "top_k": 8,
    }}  # fmt: skip
    arms = [
        make_recipe(stages=[stage], pattern=mixer, recovery_windows=0) for mixer in ("gdn", "gla")
    ]
    how = Execution(threads=1)
    apart = Sources(made.teacher, made.corpus, cache=tmp_path / "own")
    run_recipe(arms[1], how, apart, folder=tmp_path / "alone")
    run_recipe(arms[0], how, sources, folder=tmp_path / "gdn")
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*.safetensors")}
    assert len(files) == 5
    run_recipe(arms[1], how, sources, folder=tmp_path / "gla")
    assert {path: path.stat().st_mtime_ns for path in files} == files
    assert len(list((tmp_path / "cache").rglob("*.safetensors"))) == 5
    assert different(tmp_path / "gla", tmp_path / "alone") == []
