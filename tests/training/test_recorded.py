"""A recorded model answers as the model does, and training beside it is as without it."""

from collections.abc import Callable
from itertools import pairwise

import pytest
import torch

from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.training import CurriculumConfig, Runtime, resolve
from lt2theory.training.draws import evaluation_batch, training_batch
from lt2theory.training.evaluation import predict
from lt2theory.training.recorded import RecordedModel
from lt2theory.training.selection import new_model
from lt2theory.training.stepper import GraphStepper

pytestmark = pytest.mark.gpu


def small(pattern: str = "gdn,window(4)", **changes: object) -> LoopedModel:
    fields = {"vocab_size": 11, "width": 64, "num_heads": 2, "num_layers": 2, "num_loops": 2}
    config = LoopedConfig.model_validate(fields | {"pattern": pattern} | changes)
    with torch.device("cuda"):
        return LoopedModel(config, generator=torch.Generator("cuda").manual_seed(0)).eval()


@pytest.mark.parametrize("pattern", ["gdn,window(4)", "full,gdn", "gdn,nsa", "dsa", "retnet"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_answers_as_the_model_does(pattern: str, dtype: str) -> None:
    runtime = Runtime.of("cuda", "float32" if dtype == "float32" else "bfloat16")
    model = small(pattern, block_size=4, num_blocks=2, top_k=4)
    recorded = RecordedModel(model, runtime)
    draw = torch.Generator("cuda").manual_seed(1)
    # More rows than were recorded, fewer, another length, and the first length again.
    for rows, length in ((5, 33), (12, 33), (3, 33), (2, 70), (5, 33)):
        tokens = torch.randint(11, (rows, length), device="cuda", generator=draw)
        with torch.no_grad(), runtime.autocast():
            expected = model(tokens)
        close = 1e-5 if dtype == "float32" else 2e-2
        torch.testing.assert_close(recorded(tokens), expected, rtol=close, atol=close)


def test_knows_the_weights_of_now() -> None:
    model = small()
    recorded = RecordedModel(model, Runtime.of("cuda", "float32"))
    tokens = torch.randint(11, (4, 20), device="cuda")
    before = recorded(tokens)
    with torch.no_grad():
        model.embedding.weight.mul_(1.5)
        expected = model(tokens)
    assert not torch.allclose(before, expected, rtol=1e-2)
    torch.testing.assert_close(recorded(tokens), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_training_and_evaluations_share_memory_and_leave_each_other_alone(
    make_config: Callable[..., CurriculumConfig], dtype: str
) -> None:
    config = resolve(make_config(device="cuda", dtype=dtype))
    runtime, task = Runtime.of("cuda", config.dtype), config.task.create()
    evaluated, alone = (GraphStepper(new_model(config, runtime), config, runtime) for _ in range(2))
    found, own = [], torch.cuda.Stream()
    own.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(own):  # as runs that share a device have one each
        for step, stage in enumerate((12, 12, 16, 16, 12)):
            batch = training_batch(task, config, stage, step)
            for stepper in (evaluated, alone):
                stepper.take(batch, 1e-2)
            held = evaluation_batch(task, config, stage, step)
            found.append(predict(evaluated.answering, held, runtime)[1])
            eager = predict(evaluated.model, held, runtime)[1]
            assert abs(found[-1] - eager).max() < (1e-4 if dtype == "float32" else 5e-2)
    assert all(one.shape != other.shape or (one != other).any() for one, other in pairwise(found))
    weights = [dict(stepper.model.named_parameters()) for stepper in (evaluated, alone)]
    for name, parameter in weights[0].items():
        assert torch.equal(parameter, weights[1][name]), name
    assert [len(list(stepper.results())) for stepper in (evaluated, alone)] == [5, 5]
