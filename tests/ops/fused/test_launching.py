"""Rehearsals: kernels are collected, each signature once, and nothing is computed."""

from typing import Any

import pytest
import torch

from lt2theory.ops.fused.launching import launch, rehearsal


class Kernel:
    """Stands for a kernel of Triton."""

    def __init__(self) -> None:
        self.launched: list[tuple[Any, ...]] = []
        self.compiled: list[tuple[Any, ...]] = []
        self.run = self

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        return lambda *arguments, **constants: self.launched.append((grid, arguments, constants))

    def warmup(self, *arguments: Any, grid: tuple[int, ...], **constants: Any) -> "Kernel":
        self.compiled.append((arguments, constants))
        return self


def test_a_launch_runs_the_kernel() -> None:
    kernel, out = Kernel(), torch.ones(2)
    launch(kernel, (3,), out, 7, writes=(out,), D=4)
    assert kernel.launched == [((3,), (out, 7), {"D": 4})]
    assert kernel.compiled == []
    assert out.tolist() == [1.0, 1.0]


def test_a_rehearsal_compiles_every_signature_once_and_writes_zeros() -> None:
    kernel, out = Kernel(), torch.ones(2)
    with rehearsal():
        for rows, width in ((1, 4), (2, 4), (2, 8)):
            launch(kernel, (3,), out, rows, writes=(out,), D=width)
        launch(kernel, (3,), out.double(), 2, writes=(), D=8)
    assert kernel.launched == []
    assert len(kernel.compiled) == 3
    assert out.tolist() == [0.0, 0.0]
    launch(kernel, (3,), out, 7, writes=(out,), D=4)
    assert len(kernel.launched) == 1


def test_what_does_not_compile_fails_when_it_is_launched() -> None:
    class Broken(Kernel):
        def warmup(self, *arguments: Any, grid: tuple[int, ...], **constants: Any) -> Kernel:
            raise RuntimeError("no")

    with rehearsal():
        launch(Broken(), (1,), torch.ones(1), writes=(), D=1)


def test_a_rehearsal_that_fails_is_over() -> None:
    kernel = Kernel()
    with pytest.raises(RuntimeError, match="stop"), rehearsal():
        raise RuntimeError("stop")
    launch(kernel, (1,), torch.ones(1), writes=())
    assert len(kernel.launched) == 1
