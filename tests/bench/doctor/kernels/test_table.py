"""Every kernel in the package is in the doctor's table, and launched by its check."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import lt2theory
from lt2theory.bench.doctor.kernels import measure as module
from lt2theory.bench.doctor.kernels.table import KERNELS

ROOT = Path(lt2theory.__file__).parent
OPS = "lt2theory.ops."


def kernels_in(path: Path) -> list[str]:
    """Names of the functions of a file that Triton compiles."""
    tree = ast.parse(path.read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return [
        function.name
        for function in functions
        if any("triton.jit" in ast.unparse(each) for each in function.decorator_list)
    ]


def compiled() -> dict[str, list[str]]:
    """The modules of the package that hold kernels, with their kernels."""
    paths = {p.relative_to(ROOT.parent).with_suffix(""): p for p in ROOT.rglob("*.py")}
    found = {".".join(name.parts): kernels_in(path) for name, path in paths.items()}
    return {name: names for name, names in found.items() if names}


def test_every_module_with_a_kernel_is_checked() -> None:
    checked = {OPS + name for check in KERNELS for name in check.modules}
    missing = sorted(set(compiled()) - checked)
    assert not missing, f"add a check of these to lt2theory.bench.doctor.kernels: {missing}"
    assert not sorted(checked - set(compiled()))


def test_names_are_names() -> None:
    names = [check.name for check in KERNELS]
    assert len(set(names)) == len(names)
    assert max(map(len, names)) <= 21
    assert all({"float32", "bfloat16"} == set(check.tolerances) for check in KERNELS)


@pytest.fixture(scope="module")
def launched() -> Iterator[set[tuple[str, str]]]:
    """Module and name of every kernel that a test of this file has launched."""
    from triton.runtime.interpreter import GridExecutor

    seen: set[tuple[str, str]] = set()
    before = GridExecutor.__call__

    def noting(self, *args, **kwargs):
        seen.add((self.fn.__module__, self.fn.__name__))
        return before(self, *args, **kwargs)

    GridExecutor.__call__ = noting
    yield seen
    GridExecutor.__call__ = before


@pytest.mark.interpreter
@pytest.mark.parametrize("check", KERNELS, ids=lambda check: check.name)
def test_right_in_the_interpreter(check, launched, monkeypatch: pytest.MonkeyPatch) -> None:
    """In float32: the interpreter cannot multiply bfloat16."""
    monkeypatch.setattr(module, "DRAWS", 1)
    before = set(launched)
    found = module.measure_kernel(check.name, "float32", "cpu")
    assert found.verdict == "right", found.reason
    assert found.same_bits
    assert found.value_error is not None
    assert found.value_error <= 1e-4
    assert {name.removeprefix(OPS) for name, _ in launched - before} <= set(check.modules)


@pytest.mark.interpreter
def test_every_kernel_was_launched(launched) -> None:
    """Those that end in `_kernel`; others are parts of them. Runs after the checks above."""
    if not launched:
        pytest.skip("needs the checks of this file in the same session")
    kernels = {(m, n) for m, names in compiled().items() for n in names if n.endswith("_kernel")}
    assert not sorted(kernels - launched)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("check", KERNELS, ids=lambda check: check.name)
def test_right_on_a_gpu(check, dtype: str) -> None:
    found = module.measure_kernel(check.name, dtype, "cuda")
    assert found.verdict == "right", found.reason
