import joblib
import pytest

from lt2theory.runs import threads_for


def test_threads_never_exceed_the_cores() -> None:
    cores = joblib.cpu_count()
    for workers in range(1, cores + 1):
        assert workers * threads_for(workers) <= cores
    for workers in (0, cores + 1):
        with pytest.raises(ValueError, match=rf"workers: got {workers}, allowed 1\.\.{cores}"):
            threads_for(workers)
