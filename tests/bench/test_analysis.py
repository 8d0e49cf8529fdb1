"""The analysis benchmark: its dense twin, and its columns."""

import pytest
import torch

from lt2theory.analysis import correction_spectrum
from lt2theory.bench import analysis as module
from lt2theory.bench.analysis import bench_analysis, dense_spectrum, make_products


@pytest.mark.parametrize("decay", ["no", "scalar", "vector"])
def test_the_dense_twin_gives_the_same_values(decay):
    factors = make_products(decay, 20)
    values, seconds = dense_spectrum(*factors)
    assert seconds > 0
    torch.testing.assert_close(correction_spectrum(*factors), values, rtol=0, atol=1e-13)


def test_every_row_says_what_was_timed(monkeypatch):
    monkeypatch.setattr(module, "MODELS", {"gdn": ("gdn", 1, "rescan")})
    table = bench_analysis(sample=4, operators=40, repeats=1, length=16)
    spectra = table[table["method"] == "correction_spectrum"]
    assert spectra["operators"].tolist() == [40] * 3
    assert (spectra["error"] < 1e-13).all()
    assert (spectra["target"] == 150).all()
    dense = table[table["method"] == "dense product + SVD"]
    assert dense["operators"].tolist() == [4] * 3
    assert dense["gain"].tolist() == [1] * 3
    alone = table[table["method"] == "the SVD alone"]
    assert (alone["seconds"].to_numpy() < dense["seconds"].to_numpy()).all()
    model = table.iloc[-1]
    assert model["work"] == "analysis, 4 layers, length 16: gdn"
    assert model["target"] == 10
