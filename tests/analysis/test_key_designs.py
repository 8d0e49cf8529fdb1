"""Transitions by design against what theory says of them."""

import pytest
import torch

from lt2theory.analysis import coherent_keys, designed_transitions


@pytest.mark.parametrize("coherence", [0, 0.37, 1])
def test_every_two_keys_have_the_cosine(coherence) -> None:
    keys = coherent_keys(3, 7, coherence, generator=torch.Generator().manual_seed(0))
    want = torch.full((3, 3), float(coherence), dtype=torch.float64).fill_diagonal_(1)
    torch.testing.assert_close(keys @ keys.T, want, atol=1e-12, rtol=0)


def test_orthogonal_keys_give_the_ideal() -> None:
    """R3 and R6: T equal values, scaled by the decays."""
    table = designed_transitions(3, dim=5, coherence=0, beta=0.7, decay=0.9)
    assert table["singular_value"].to_numpy() == pytest.approx(table["orthogonal_ideal"])
    last = table[table["num_loops"] == 3]
    assert last["singular_value"].to_numpy() == pytest.approx([0.7 * 0.9**3] * 3)
    assert list(table.groupby("num_loops")["rank"].first()) == [1, 2, 3]


def test_one_key_repeated_gains_no_rank() -> None:
    """R4 and R5; two reflections undo each other."""
    assert set(designed_transitions(4, coherence=1, beta=0.5)["rank"]) == {1}
    twice = designed_transitions(2, coherence=1, beta=2.0).query("num_loops == 2")
    assert twice["singular_value"].max() == pytest.approx(0, abs=1e-12)


def test_nothing_erased_is_no_correction() -> None:
    """R8."""
    assert set(designed_transitions(3, beta=0, decay=0.5)["rank"]) == {0}


def test_directions_do_not_matter() -> None:
    one, two = (designed_transitions(3, coherence=0.4, beta=1.5, seed=s) for s in (0, 1))
    assert one["singular_value"].to_numpy() == pytest.approx(two["singular_value"])


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"dim": 3}, r"dim: 3 is not allowed \(must be above count = 3\)"),
        ({"coherence": 1.5}, "coherence: 1.5 is not allowed"),
        ({"beta": 2.5}, "beta: 2.5 is not allowed"),
        ({"decay": 0}, "decay: 0 is not allowed"),
        ({"decay": 1.1}, "decay: 1.1 is not allowed"),
    ],
)
def test_what_is_out_of_range_is_refused(wrong, said) -> None:
    with pytest.raises(ValueError, match=said):
        designed_transitions(3, **wrong)
    with pytest.raises(ValueError, match="num_loops: 0 is not allowed"):
        designed_transitions(0)
