"""How much of the attention an indexer finds."""

from collections.abc import Callable

import pytest
import torch

from lt2theory.analysis import selected_mass
from lt2theory.models import LoopTrace
from lt2theory.ops import IndexedInputs

MakeTrace = Callable[..., LoopTrace]


def inputs(index_k: torch.Tensor) -> IndexedInputs:
    """Four keys, of which the last query attends to key 2 by 1/2 and to the others by 1/6."""
    q = torch.ones(1, 4, 1, 1, dtype=torch.float64)
    k = torch.log(torch.tensor([1.0, 1.0, 3.0, 1.0], dtype=torch.float64)).reshape(1, 4, 1, 1)
    weight = torch.ones(1, 4, 1, dtype=torch.float64)
    return IndexedInputs(q, k, k, index_q=q, index_k=index_k, index_weight=weight, top_k=3)


@pytest.mark.parametrize(("best", "mass"), [(2, 1 / 2), (0, 1 / 6)])
def test_by_hand(trace_with: MakeTrace, best: int, mass: float) -> None:
    index_k = torch.zeros(1, 4, 1, dtype=torch.float64)
    index_k[:, best] = 1.0
    table = selected_mass(trace_with({(1, 0): inputs(index_k)}), top_k=1)
    assert table[["layer", "loop"]].to_numpy().tolist() == [[1, 0]]
    # Query 1 sees two equal keys; query 2 sees keys of weights 1, 1 and 3.
    second = 3 / 5 if best == 2 else 1 / 5
    assert table["selected"].item() == pytest.approx((1 / 2 + second + mass) / 3, abs=1e-12)
    assert table["largest"].item() == pytest.approx((1 / 2 + 3 / 5 + 1 / 2) / 3, abs=1e-12)
    assert table["chance"].item() == pytest.approx((1 / 2 + 1 / 3 + 1 / 4) / 3, abs=1e-12)


def test_on_a_model(make_trace: MakeTrace) -> None:
    """One row a place; the more keys, the more mass; never more than the heaviest have."""
    trace = make_trace("gdn,dsa", length=30, top_k=5)
    tables = [selected_mass(trace, top_k=k) for k in (1, 5, 29)]
    for table in tables:
        assert list(zip(table["layer"], table["loop"], strict=True)) == [(1, 0), (1, 1)]
        assert (table["selected"] <= table["largest"] + 1e-12).all()
    assert (tables[0]["selected"] < tables[1]["selected"]).all()
    assert (tables[1]["selected"] < tables[2]["selected"]).all()
    assert selected_mass(trace).equals(tables[1])


def test_no_indexer_no_rows(make_trace: MakeTrace) -> None:
    table = selected_mass(make_trace("full"), top_k=3)
    assert table.empty
    assert list(table.columns) == ["layer", "loop", "selected", "largest", "chance"]


@pytest.mark.parametrize("top_k", [0, 9])
def test_numbers_out_of_range_are_named(make_trace: MakeTrace, top_k: int) -> None:
    with pytest.raises(ValueError, match=f"top_k: {top_k} is not allowed"):
        selected_mass(make_trace("dsa"), top_k=top_k)
