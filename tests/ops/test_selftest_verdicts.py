"""What a verdict holds for, where it is kept, and how it reads."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from lt2theory.ops.selftest_recurrence import RecurrenceClass
from lt2theory.ops.selftest_verdicts import Verdict, cache_dir

SHAPE = RecurrenceClass("kernel", "cpu", "a device", torch.float32, 2, 8, 6, "scalar", True)


def test_which_of_several_devices_does_not_count() -> None:
    assert SHAPE.key() == replace(SHAPE, device="cuda:3").key()


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LT2_CACHE_DIR", str(tmp_path))
    assert cache_dir() == tmp_path
    monkeypatch.delenv("LT2_CACHE_DIR")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache_dir() == Path("/x/lt2theory")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_dir() == Path.home() / ".cache" / "lt2theory"
    monkeypatch.setattr("sys.platform", "darwin")
    assert cache_dir() == Path.home() / "Library" / "Caches" / "lt2theory"
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", "/y")
    assert cache_dir() == Path("/y/lt2theory")


def test_verdicts_as_text() -> None:
    text = str(Verdict(True, "output", 1.5e-4, 5e-3))
    assert text == (
        "gradient self-test passed: output has a relative error 1.5e-04 of 5e-03 allowed"
    )
