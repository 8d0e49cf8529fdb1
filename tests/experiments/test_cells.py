"""Cells as data: names, order, costs and the hash of a device."""

import pytest

from lt2theory.experiments.cells import Cell, in_order
from lt2theory.experiments.recipes import state_based_recall, word_problem
from lt2theory.experiments.studies import smoke, studies
from lt2theory.models import LoopedConfig
from lt2theory.models.flops import step_flops
from lt2theory.training.config import Dtype


def cell(name: str = "a", block: int = 1, **fields: object) -> Cell:
    return Cell(name=name, block=block, config=state_based_recall(), **fields)  # type: ignore[arg-type]


def test_blocks_come_in_order_and_keep_the_order_of_the_study() -> None:
    cells = (cell("d", 2), cell("c", 1), cell("b", 1, priority=-1), cell("a", 1))
    assert [each.name for each in in_order(cells)] == ["b", "c", "a", "d"]
    with pytest.raises(ValueError, match=r"name: the cell 'a' appears twice"):
        in_order((cell("a"), cell("a", 2)))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": "a b"}, "name: got 'a b', allowed are letters"),
        ({"block": 5}, r"block: got 5, allowed are \(1, 2, 3, 4\)"),
        ({"expected_steps": 801}, r"expected_steps: got 801, allowed 1\.\.800 \(step_budget\)"),
        ({"shares": (1.0,)}, r"shares: got \(1\.0,\), allowed are 2 numbers > 0"),
        ({"shares": (1.0, 0.0)}, r"shares: got \(1\.0, 0\.0\), allowed are 2 numbers > 0"),
    ],
)
def test_bad_fields_are_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cell(**fields)


def test_columns_say_what_a_table_needs() -> None:
    found = cell().columns()
    assert (found["supervision"], found["layout"], found["group"]) == ("dense", "indexed", None)
    assert (found["pattern"], found["loops"], found["layers"]) == ("deltanet,full,deltanet", 1, 3)
    word = Cell(name="w", block=2, config=word_problem("S5")).columns()
    assert (word["group"], word["loops"], word["loop_state"]) == ("S5", 2, "accumulate")
    assert word["negative_eigenvalues"] is True


def test_cost_is_that_of_the_stages() -> None:
    each = cell(expected_steps=100)
    config = each.resolved
    lengths = [config.task.create().sequence_length(stage) for stage in config.stages]
    a_step = [step_flops(config.model, config.batch_size, length) for length in lengths]
    assert (each.steps(), each.steps(cap=True)) == (200, 1600)
    assert each.flops() == pytest.approx(100 * sum(a_step))
    assert each.flops(cap=True) == pytest.approx(800 * sum(a_step))


def test_steps_lie_on_the_stages_as_the_shares_say() -> None:
    each = cell(expected_steps=100, shares=(1.0, 3.0))
    first, second = each.resolved.stages
    assert each.steps_by_stage() == {first: 50, second: 150}
    assert each.steps_by_stage(cap=True) == {first: 800, second: 800}
    assert each.flops() == 50 * each.step_flops(first) + 150 * each.step_flops(second)
    assert each.on("cuda").shares == (1.0, 3.0)
    odd = cell(expected_steps=100, shares=(1.0, 2.0))
    assert list(odd.steps_by_stage().values()) == [67, 133]
    assert cell(expected_steps=800, shares=(1.0, 3.0)).steps() == 400 + 800  # the cap of a stage


def test_no_stage_is_expected_to_end_before_a_recipe_lets_it() -> None:
    config = state_based_recall().model_copy(update={"min_steps": 300})
    each = Cell(name="a", block=1, config=config, expected_steps=100, shares=(1.0, 5.0))
    assert list(each.steps_by_stage().values()) == [300, 500]
    each = Cell(name="a", block=1, config=config, expected_steps=100)
    assert list(each.steps_by_stage().values()) == [300, 300]


def test_a_device_makes_another_run() -> None:
    here, there = cell().on("cpu"), cell().on("cuda")
    assert there.config.cuda_graph
    assert not here.config.cuda_graph
    assert here.run().hash != there.run().hash
    assert here.run().hash == cell().run().hash


@pytest.mark.parametrize(
    ("pattern", "dtype", "backend"),
    [
        ("deltanet", "float32", "triton"),
        ("gdn,retnet", "float32", "triton"),
        ("deltanet,gla", "float32", "auto"),
        ("window(8)", "float32", "auto"),
        ("deltanet", "bfloat16", "auto"),
    ],
)
def test_a_gpu_takes_our_kernels_in_float32_where_they_can(
    pattern: str, dtype: Dtype, backend: str
) -> None:
    changes = {"dtype": dtype, "model": LoopedConfig(pattern=pattern, num_layers=2)}
    there = Cell(name="a", block=2, config=state_based_recall().model_copy(update=changes))
    assert there.on("cuda").resolved.model.backend == backend
    assert there.on("cpu").resolved.model.backend == "auto"


def test_other_decays_than_a_mixers_own_are_left_to_auto() -> None:
    model = LoopedConfig(pattern="gdn", decay_grain="channel")
    config = state_based_recall().model_copy(update={"dtype": "float32", "model": model})
    there = Cell(name="a", block=2, config=config).on("cuda")
    assert there.resolved.model.backend == "auto"


def test_every_study_can_be_put_in_order_with_runs_that_differ() -> None:
    assert studies()["smoke"] is smoke
    for make in studies().values():
        cells = in_order(make())
        runs = {each.run().folder for each in cells}
        assert len(runs) == len(cells)
