"""Layers chosen by short distillations, and the stages of recipe B, on a tiny teacher."""

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import torch

from lt2theory.linearize.choice import score_table
from lt2theory.linearize.construct import build_student
from lt2theory.linearize.engine import run_recipe
from lt2theory.linearize.hybrids import student_config
from lt2theory.linearize.recipe import Recipe, read_recipe
from lt2theory.linearize.recipe_b import continuation_stages, recipe_b
from lt2theory.linearize.results import load_student
from lt2theory.linearize.selection import SelectionConfig, final_scores
from lt2theory.linearize.selectors_compared import TRAINED, select_layers
from lt2theory.linearize.sources import Sources
from lt2theory.linearize.teachers import frozen
from lt2theory.models import LoopedModel
from lt2theory.training.lm import Execution
from lt2theory.training.text import Corpus, CorpusConfig, prepare

Make = Callable[..., LoopedModel]
QUICK = SelectionConfig(
    keep=1,
    seeds=2,
    steps=4,
    last=2,
    batch_size=2,
    sequence_length=16,
    learning_rate=1e-2,
    top_k=8,
    dtype="float64",
    probe_windows=2,
    probe_length=24,
)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("corpus")
    prepare(CorpusConfig(sources=("excerpt",), piece_bytes=600, eval_share=0.3), folder)
    return Corpus(folder)


@pytest.fixture
def sources(teacher: Make, corpus: Corpus) -> Sources:
    return Sources(frozen(teacher("ouro", vocab_size=258, num_layers=3), "tiny"), corpus)


def student_of(sources: Sources) -> LoopedModel:
    model = sources.teacher.model
    tokens = torch.from_numpy(sources.corpus.stream("train").document(0)[0][:48].astype("int64"))
    config = student_config(model.config, "gdn", linear_rotation="off")
    return build_student(model, config, calibration=tokens[None]).model


def test_a_selection_goes_on_to_the_same_scores(sources: Sources, tmp_path: Path) -> None:
    student = student_of(sources)
    whole = select_layers(student, QUICK, Execution(), sources, folder=tmp_path / "one")
    scores = pd.read_parquet(tmp_path / "one" / "scores.parquet")
    course = pd.read_parquet(tmp_path / "one" / "course.parquet")
    assert len(course) == 3 * 2 * 2  # layers, seeds, records
    selectors = {"trained", "sharpness", "distance", "beyond", "reach"}
    assert set(scores["selector"]) == selectors | {"replacement", "restoration"}
    trained = scores[scores["selector"] == TRAINED].set_index("layer")
    last = course[course["step"] == 4].groupby("layer")["kl"]
    assert (trained["mean"] + last.mean()).abs().max() < 1e-12
    assert (trained["lowest"] + last.max()).abs().max() < 1e-12  # the spread over seeds is shown
    assert whole["chosen"][TRAINED] == [int(last.mean().idxmin())]
    assert whole["chosen"]["uniform"] == [0]
    assert not list((tmp_path / "one" / "runs").rglob("*.safetensors"))
    recipe = read_recipe(tmp_path / "one" / "recipe.json")
    begun, _, hybrid, *_ = recipe.students(sources.teacher.model.config)
    assert begun == student.config
    kept = [i for i, spec in enumerate(hybrid.loops[0]) if spec.mixer == "full"]
    assert kept == whole["chosen"][TRAINED]
    # A killed selection has some of the runs; their results are read, not made again.
    other = tmp_path / "two"
    select_layers(student, QUICK, Execution(), sources, folder=other)
    (other / "summary.json").unlink()
    ended = other / "runs" / "seed-1" / "layer-02"
    for path in ended.iterdir():
        path.unlink()
    before = (other / "runs" / "seed-0" / "layer-00" / "summary.json").read_bytes()
    assert select_layers(student, QUICK, Execution(), sources, folder=other) == whole
    assert (other / "runs" / "seed-0" / "layer-00" / "summary.json").read_bytes() == before
    pd.testing.assert_frame_equal(pd.read_parquet(other / "course.parquet"), course)
    with pytest.raises(ValueError, match="another"):
        select_layers(
            student, QUICK.model_copy(update={"top_k": 3}), Execution(), sources, folder=other
        )


def test_what_cannot_be_selected_is_refused(sources: Sources, tmp_path: Path) -> None:
    model = sources.teacher.model
    with pytest.raises(ValueError, match="layer 0 has the teacher's mixer already"):
        select_layers(model, QUICK, Execution(), sources, folder=tmp_path / "x")
    with pytest.raises(ValueError, match="last: 3 must divide steps, 4"):
        SelectionConfig(steps=4, last=3)
    with pytest.raises(ValueError, match="keep: 4 must be >= 1 and <= 3"):
        SelectionConfig(keep=4).count(3)
    student = student_of(sources)
    for changes, way, message in (
        ({"probe_length": 10**6}, Execution(), "probe_length: 1000000 must be at most the"),
        ({"sequence_length": 10**6}, Execution(), "sequence_length: 1000000 must be at most"),
    ):
        config = QUICK.model_copy(update=changes)
        with pytest.raises(ValueError, match=message):
            select_layers(student, config, way, sources, folder=tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_run_that_diverges_is_named(sources: Sources, tmp_path: Path) -> None:
    config = QUICK.model_copy(update={"learning_rate": 1e30, "last": 1})
    for _ in range(2):
        with pytest.raises(ValueError, match=r"learning_rate: 1e\+30 let .*layer-00 diverge"):
            select_layers(student_of(sources), config, Execution(), sources, folder=tmp_path / "x")
    assert [SelectionConfig().count(n) for n in (1, 4, 28, 30)] == [1, 1, 7, 8]


def test_noise_between_seeds_shows_as_a_share_below_one() -> None:
    """Differences between layers are often below those between seeds: the choice says so."""
    generator = torch.Generator().manual_seed(0)
    kl = torch.tensor([0.50, 0.30, 0.31, 0.60, 0.32], dtype=torch.float64)
    noisy = kl + 0.02 * torch.randn(12, 5, generator=generator, dtype=torch.float64)
    rows = [
        {"layer": layer, "seed": seed, "step": step, "kl": float(noisy[seed, layer]) + (step < 9)}
        for seed in range(12)
        for layer in range(5)
        for step in (5, 9)
    ]
    scores = final_scores(pd.DataFrame(rows))
    assert len(scores) == 60
    wide = scores.pivot(index="seed", columns="layer", values="score")
    table = score_table(torch.tensor(wide.to_numpy().tolist(), dtype=torch.float64), 1)
    share = table.set_index("layer")["share"]
    assert share[[1, 2, 4]].between(0.01, 0.99).all()
    assert share[0] == share[3] == 0.0
    chosen = table[table["chosen"]]["layer"].tolist()
    assert chosen in ([1], [2], [4])


def test_windows_grow_and_steps_read_as_much() -> None:
    stages = continuation_stages(3 * 2**17, (1024, 4096, 16384), tokens_per_step=2**15)
    assert [stage.sequence_length for stage in stages] == [1024, 4096, 16384]
    assert [stage.batch_size for stage in stages] == [32, 8, 2]
    assert {stage.tokens for stage in stages} == {2**17}
    assert {stage.optimiser.learning_rate for stage in stages} == {1e-5}
    long = continuation_stages(2**17, (2**16,), tokens_per_step=2**15)
    assert long[0].batch_size == 1
    with pytest.raises(ValueError, match=r"lengths: \[4096, 1024\] is not allowed"):
        continuation_stages(2**20, (4096, 1024))
    with pytest.raises(ValueError, match="tokens: 1000 are not enough"):
        continuation_stages(1000, (512, 1024), tokens_per_step=2048)


def test_the_recipe_has_lt2s_shares_and_hybrid_distillations_rates() -> None:
    found = recipe_b("gdn", (5, 2), tokens=13_000_000)
    assert [stage.tokens for stage in found.stages[:2]] == [1_000_000, 6_000_000]
    assert sum(stage.tokens or 0 for stage in found.stages[2:]) == 6_000_000
    one, two = found.stages[:2]
    assert (one.trained, one.optimiser.learning_rate, one.optimiser.schedule) == (
        "linear_mixers",
        1e-3,
        "cosine",
    )
    assert two.restore == (2, 5)
    assert two.optimiser.learning_rate * two.other_rate == pytest.approx(7e-6)
    assert Recipe.model_validate(json.loads(json.dumps(found.to_json()))) == found


def test_recipe_b_runs_from_a_looped_teacher_to_a_hybrid(sources: Sources, tmp_path: Path) -> None:
    recipe = recipe_b(
        "gdn",
        (1,),
        tokens=13 * 160,
        length=16,
        lengths=(32, 64),
        tokens_per_step=64,
        dtype="float64",
        calibration_length=48,
        calibration_windows=1,
        recovery_windows=2,
        recovery_length=24,
    )
    file = tmp_path / "recipe.json"
    file.write_text(json.dumps(recipe.to_json()))
    summary = run_recipe(read_recipe(file), Execution(), sources, folder=tmp_path / "run")
    assert summary.status == "finished"
    names = ["pre-alignment", "hybrid", "continuation-32", "continuation-64"]
    assert [stage.name for stage in summary.stages] == names
    assert summary.pattern == "gdn,full,gdn"
    hybrid = load_student(tmp_path / "run")
    assert [spec.mixer for spec in hybrid.config.loops[2]] == ["gdn", "full", "gdn"]
    aligned, distilled = (stage.recovery for stage in summary.stages[:2])
    assert aligned is not None
    assert distilled is not None
    assert distilled.kl < aligned.kl
