"""No launch of ours has an axis y or z that grows with rows or tokens: CUDA ends them at 65,535.

Every launcher runs with many rows and with many tokens, on a CPU: launches are noted, not run.
"""

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from torch import Tensor

import lt2theory.ops
from lt2theory.ops import AttentionProblem, Factors
from lt2theory.ops.attention_triton import triton_attention
from lt2theory.ops.fused.add_norm import fused_add_rms_norm
from lt2theory.ops.fused.gated_norm import fused_gated_rms_norm
from lt2theory.ops.fused.loop_residual import fused_loop_residual
from lt2theory.ops.fused.norm import fused_rms_norm
from lt2theory.ops.fused.short_conv import delta_inputs, padding
from lt2theory.ops.fused.swiglu import fused_swiglu
from lt2theory.ops.sparse.dsa_reference import IndexedProblem
from lt2theory.ops.sparse.dsa_triton import listed_indexed_attention, masked_indexed_attention
from lt2theory.ops.sparse.nsa_reference import BlockSparseProblem
from lt2theory.ops.sparse.span_launch import _PROGRAMS
from lt2theory.ops.sparse.triton_backend import triton_block_sparse
from lt2theory.ops.triton_delta.recurrence import ahead_recurrence, triton_recurrence
from lt2theory.ops.workload import is_interpreting
from tests.ops.full_scale import decode

pytest.importorskip("triton")
pytestmark = pytest.mark.skipif(is_interpreting(), reason="the interpreter has its own launches")

Grids = dict[str, set[tuple[int, ...]]]

TILE = 128
"""Rows or tokens of a program, at most."""
MANY = (_PROGRAMS + 1) * TILE
"""So many that an axis that grows with them is longer than one that sums are split along."""
SIZES = {"rows": (MANY, 2), "tokens": (1, MANY)}


@contextmanager
def recording() -> Iterator[Grids]:
    """Inside, launches are noted by kernel; what they should have written is anything."""
    from triton.runtime.jit import JITFunction

    seen: Grids = {}

    def note(self: object, *args: object, grid: tuple[int, ...], **options: object) -> None:
        name = f"{self.__module__}.{self.__name__}"  # type: ignore[attr-defined]
        seen.setdefault(name, set()).add(tuple(grid))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JITFunction, "run", note)
        yield seen


def leaf(*size: int) -> Tensor:
    return torch.zeros(*size, requires_grad=True)


def differentiate(*found: Tensor) -> None:
    torch.autograd.backward(found, [torch.zeros_like(x) for x in found])


def heads(batch: int, length: int) -> tuple[Tensor, Tensor, Tensor]:
    return leaf(batch, length, 2, 4), leaf(batch, length, 1, 4), leaf(batch, length, 1, 4)


def windows(batch: int, length: int) -> None:
    differentiate(triton_attention(AttentionProblem(*heads(batch, length), 1, 0.1, None, None)))


def nsa(batch: int, length: int) -> None:
    """Many blocks of two tokens, and two of many."""
    for size in {2, length // 2}:
        gates = leaf(batch, length, 2, 3)
        problem = BlockSparseProblem(
            *heads(batch, length), 1, 0.1, None, None, gates=gates, block_size=size, num_blocks=2
        )
        differentiate(triton_block_sparse(problem))


def dsa(batch: int, length: int) -> None:
    index = {"index_q": (1, 4), "index_k": (4,), "index_weight": (1,)}
    tensors = {name: leaf(batch, length, *size) for name, size in index.items()}
    problem = IndexedProblem(*heads(batch, length), None, 0.1, None, None, **tensors, top_k=1)
    differentiate(masked_indexed_attention(problem))
    differentiate(listed_indexed_attention(problem))


def recurrence(batch: int, length: int) -> None:
    steps = (batch, length, 1, 1)
    tensors = {"q": (batch, length, 1, 4), "k": (*steps, 4), "v": (*steps, 4)}
    gates = {"log_decay": steps, "beta": steps}
    factors = Factors(**{name: leaf(*size) for name, size in (tensors | gates).items()})
    differentiate(triton_recurrence(factors, None)[0])


def recurrence_ahead(batch: int, length: int) -> None:
    """Of long streams and wide heads."""
    steps = (max(1, batch // TILE), max(256, length // TILE), 1, 1)
    tensors = {"q": (*steps[:2], 1, 64), "k": (*steps, 64), "v": (*steps, 4)}
    factors = Factors(**{name: torch.zeros(size) for name, size in tensors.items()})
    ahead_recurrence(Factors(factors.q, factors.k, factors.v, None, torch.zeros(steps)), None)


def inputs_of_recurrence(batch: int, length: int) -> None:
    columns = 3 * 4 + 2
    z = leaf(batch, length, columns + padding(columns))
    differentiate(*delta_inputs(z, leaf(12, 4), leaf(1), leaf(1), [1, 1, 4, 4, 1]))


def rows(batch: int, length: int) -> None:
    h, change, weight = leaf(batch * length, 4), leaf(batch * length, 4), leaf(4)
    differentiate(fused_rms_norm(h, weight, 1e-5, torch.float32))
    differentiate(*fused_add_rms_norm(h, change, weight, 1e-5, torch.float32))
    gated = (h.unflatten(1, (1, 4)), change, weight, 1e-5, torch.float32, True)
    differentiate(fused_gated_rms_norm(*gated))
    differentiate(fused_swiglu(leaf(batch * length, 8)))
    differentiate(fused_loop_residual(h, change, weight))


def decoding(batch: int, length: int) -> None:
    widths = {"width": 8, "num_heads": 2, "num_kv_heads": 1, "head_dim": 4, "value_dim": 4}
    sizes = {"ffn_width": 8, "block_size": 8, "num_blocks": 2, "window": 2, "top_k": 1}
    index = {"index_heads": 1, "index_dim": 4}
    for pattern in ("gdn", "full", "window(2)", "nsa", "dsa"):
        with pytest.MonkeyPatch.context() as patch:
            decode(pattern, batch, 8 + length, patch, **widths, **sizes, **index)


LAUNCHERS = (
    windows, nsa, dsa, recurrence, recurrence_ahead, inputs_of_recurrence, rows, decoding
)  # fmt: skip


def kernels() -> set[str]:
    """All kernels of the package that are launched; what they call is named otherwise."""
    root, found = Path(lt2theory.ops.__file__).parent, set()
    for path in root.rglob("triton_*.py"):
        module = ".".join(("lt2theory.ops", *path.relative_to(root).with_suffix("").parts))
        functions = [x for x in ast.parse(path.read_text()).body if isinstance(x, ast.FunctionDef)]
        found |= {f"{module}.{x.name}" for x in functions if x.name.endswith("_kernel")}
    return found


@pytest.mark.parametrize("many", SIZES)
def test_only_x_grows_with_the_data(many: str) -> None:
    batch, length = SIZES[many]
    with recording() as seen:
        for launcher in LAUNCHERS:
            launcher(batch, length)
    assert set(seen) == kernels()
    most = {
        name: max(size for grid in grids for size in (1, *grid[1:])) for name, grids in seen.items()
    }
    assert not {name: size for name, size in most.items() if size > _PROGRAMS}
