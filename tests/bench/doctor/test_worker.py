"""The worker's pinned autotuner: Triton's own class, and kernels that are plain functions."""

from collections.abc import Iterator

import pytest

from lt2theory.bench.doctor.worker import answer, pin_autotuning

autotuner = pytest.importorskip("triton.runtime.autotuner")


@pytest.fixture
def pinned() -> Iterator[None]:
    kept = {name: vars(autotuner.Autotuner)[name] for name in ("_bench", "do_bench")}
    kept["check_disk_cache"] = vars(autotuner.Autotuner).get("check_disk_cache")
    pin_autotuning()
    yield
    for name, value in kept.items():
        setattr(autotuner.Autotuner, name, value)


class Kernel:
    """What an autotuner needs of a kernel: 64 does not fit, all else runs."""

    def __init__(self) -> None:
        self.tried: list[int] = []
        self.fn = lambda: None

    def run(self, x: int, *, BLOCK: int, **options: object) -> int:
        self.tried.append(BLOCK)
        if BLOCK == 64:
            raise autotuner.OutOfResources(1, 0, "shared memory")
        return BLOCK * x


def tuner(kernel: Kernel, *blocks: int):
    configs = [autotuner.Config({"BLOCK": block}) for block in blocks]
    return autotuner.Autotuner(kernel, ["x"], configs, ["x"], None, None, cache_results=True)


def test_the_first_configuration_that_runs_is_taken(pinned: None) -> None:
    kernel = Kernel()
    tuned = tuner(kernel, 64, 32, 16)
    assert tuned.run(3) == 96
    assert kernel.tried == [64, 32, 32]  # 16 is not even tried; the last run is the real one
    assert tuned.run(3) == 96
    assert tuned.run(5) == 160  # another key is tuned afresh
    assert kernel.tried == [64, 32, 32, 32, 64, 32, 32]


def test_a_kernel_that_no_configuration_fits_still_fails(pinned: None) -> None:
    with pytest.raises(autotuner.OutOfResources):
        tuner(Kernel(), 64, 64).run(3)


def test_a_mixer_that_cannot_be_asked_is_reported_and_not_raised() -> None:
    found = answer({"choose": "gdn"}, "no_device")
    assert (found["mixer"], found["backend"]) == ("gdn", "")
    assert found["reason"].startswith("RuntimeError: ")
