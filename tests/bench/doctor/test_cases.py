import re

import pytest

from lt2theory.bench.doctor.cases import backends_of, plan, sizes_for
from lt2theory.mixers import MIXERS


def test_the_plan_covers_every_mixer_and_backend_of_its_op():
    cases = plan(sizes_for("cpu", full=False))
    assert {c.mixer for c in cases} == set(MIXERS)
    assert {c.backend for c in cases if c.mixer == "gdn"} == set(backends_of("gdn"))
    assert not any((c.backend, c.dtype) == ("reference", "float64") for c in cases)
    assert len(set(cases)) == len(cases)
    full = plan(sizes_for("cuda", full=True), mixers=["gdn"], backends=["chunked"])
    assert {c.width for c in full} == {16, 32, 64, 100, 128}
    assert {c.dtype for c in full} == {"bfloat16", "float16", "float32"}
    assert sum(length % 2 for length in {c.length for c in full}) >= 3


def test_backends_that_serve_none_of_the_mixers_are_refused():
    sizes = sizes_for("cpu", full=False)
    said = "backends: none of triton serves full (choose from reference, chunked, "
    with pytest.raises(ValueError, match="^" + re.escape(said)):
        plan(sizes, mixers=["full", "full"], backends=["triton", "triton"])
    mixers = ("full", "window", "dsa")
    cases = plan(sizes, mixers=mixers, backends=["triton"])
    assert {case.mixer for case in cases} == {"window", "dsa"}
