from lt2theory.bench.doctor.advice import advise
from lt2theory.bench.doctor.choices import Served
from lt2theory.bench.doctor.diagnosis import Diagnosis
from lt2theory.bench.doctor.measure import measure


def test_advice_says_where_and_how(planted, make_case):
    cases = [make_case(name, length) for name in ("wrong_at_odd", "raising") for length in (6, 7)]
    outcomes = tuple(measure(c, "cpu") for c in cases)
    environment = {"device_type": "cuda", "architecture": "hopper", "packages": {
        "triton": "3.6.0", "fla-core": "0.6.0", "einops": None}}  # fmt: skip
    served = (Served("gdn", "float32", "", "RuntimeError: no"),)
    said = advise(Diagnosis(environment, False, served, outcomes))
    assert said[0].startswith("install einops (pip install einops)")
    assert said[1].startswith("avoid backend 'raising' for gdn: crashed in 1 of 2 cases (tokens 7")
    assert said[2].startswith("avoid backend 'wrong_at_odd' for gdn: wrong in 1 of 2 cases (tokens")
    assert any("issues/640" in text and "Remedy: Triton 3.7.1" in text for text in said)
    assert not any("issues/984" in text for text in said)  # FLA 0.6.0 has the fix
    assert said[-1] == "gdn has no backend here: RuntimeError: no"
    healthy = Diagnosis({**environment, "packages": {
        "triton": "3.9.0", "fla-core": "0.6.0", "einops": "0.8"}, "architecture": "ampere"},
        False, (), ())  # fmt: skip
    assert not any("avoid" in text.split() for text in advise(healthy))
