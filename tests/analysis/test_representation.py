"""Ranks of representations against dense matrices, and heads made to carry one."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch

from lt2theory.analysis import carried_by_element, representation_ranks, representations_carried
from tasks.groups import group

SIGN_TIMES_STANDARD = "the sign times the standard representation"


def matrix_of(name, degree):
    """The permutation matrix of cycle notation."""
    image = list(range(degree))
    for cycle in name.strip("()").split(")("):
        points = [int(point) - 1 for point in cycle.split()]
        for here, there in zip(points, points[1:] + points[:1], strict=True):
            image[here] = there
    return np.eye(degree)[image].T


@pytest.mark.parametrize(("name", "degree"), [("S3", 3), ("S4", 4), ("A5", 5)])
def test_ranks_are_those_of_the_matrices(name, degree):
    names = group(name).names
    ranks = representation_ranks(names)
    for element in names:
        matrix = matrix_of(element, degree)
        sign = round(np.linalg.det(matrix))
        assert (
            np.linalg.matrix_rank(np.eye(degree) - matrix) == ranks["permutation matrices"][element]
        )
        if SIGN_TIMES_STANDARD in ranks:
            # On the orthogonal complement of the ones: sign times the permutation matrix.
            basis = np.linalg.svd(np.ones((1, degree)))[2][1:]
            standard = basis @ matrix @ basis.T
            rank = np.linalg.matrix_rank(np.eye(degree - 1) - sign * standard, tol=1e-9)
            assert rank == ranks[SIGN_TIMES_STANDARD][element]


def test_s4_and_a5_rotate():
    """E8: two reflections for every element of S_4 but the identity, and for A_5's too."""
    s4 = representation_ranks(group("S4").names)
    assert set(s4[SIGN_TIMES_STANDARD].values()) == {0, 2}
    assert list(s4[SIGN_TIMES_STANDARD].values()).count(0) == 1
    a5 = representation_ranks(group("A5").names)
    assert SIGN_TIMES_STANDARD not in a5
    assert set(a5["rotations of a plane or of space"].values()) == {0, 2}


def test_products_add_up():
    ranks = representation_ranks(group("A4xZ5").names)["permutation matrices"]
    assert ranks["(1 2 3)x(1 2 3 4 5)"] == 2 + 4
    assert ranks["()x()"] == 0
    with pytest.raises(ValueError, match="'ab' is not allowed"):
        representation_ranks(["ab"])


def table_of(heads, tokens, noise=0.0):
    """Transitions whose entropy rank in each head is what a function of the element says."""
    rng = np.random.default_rng(0)
    rows = []
    for (batch, token), (head, rank_of) in itertools.product(
        np.ndindex(*tokens.shape), enumerate(heads)
    ):
        rank = rank_of[int(tokens[batch, token])] + noise * rng.standard_normal()
        largest = 0.01 if rank_of[int(tokens[batch, token])] == 0 else 2.0
        rows.append((batch, token, 0, head, max(rank, 1.0), largest, round(rank)))
    columns = ["batch", "token", "layer", "head", "entropy_rank", "largest", "absolute_rank"]
    return pd.DataFrame(rows, columns=columns)


S3 = group("S3").names
TOKENS = torch.arange(6).repeat(4, 3)
PERMUTATION = list(representation_ranks(S3)["permutation matrices"].values())


def test_the_head_that_carries_the_group_is_named():
    table = table_of([[1, 1, 1, 2, 2, 1], PERMUTATION], TOKENS, noise=0.05)
    first, *others = representations_carried(table, TOKENS, S3)
    assert (first.representation, first.layer, first.head) == ("permutation matrices", 0, 1)
    assert first.within
    assert first.deviation < 0.06
    assert [one.deviation for one in others] == sorted(one.deviation for one in others)
    by_element = carried_by_element(table, TOKENS, S3)
    row = by_element.query("head == 1 and element == '(1 2 3)'").iloc[0]
    assert row["reference"] == 2
    assert row["count"] == 12
    assert row["carried_median"] == pytest.approx(2, abs=0.1)
    identity = by_element.query("head == 1 and element == '()'").iloc[0]
    assert identity["carried_mean"] == 0
    assert identity["entropy_mean"] >= 1


def test_another_representation_is_named():
    rotations = [0, 2, 2, 2, 2, 2]
    first, second, *_ = representations_carried(table_of([rotations], TOKENS), TOKENS, S3)
    assert not first.within
    assert first.deviation == pytest.approx(0.5)
    assert second.representation == "rotations of a plane or of space"
    assert second.within
    assert second.deviation == 0


def test_the_nearer_representation_wins():
    """A head between two representations shows only the nearer one, however wide the tolerance."""
    between = [0, 1.6, 1.6, 2, 2, 1.6]
    found = representations_carried(table_of([between], TOKENS), TOKENS, S3, tolerance=1.0)
    assert [one.representation for one in found if one.within] == [
        "rotations of a plane or of space"
    ]


def test_tolerance_is_checked():
    with pytest.raises(ValueError, match=r"tolerance: 2\.0 is not allowed"):
        representations_carried(table_of([PERMUTATION], TOKENS), TOKENS, S3, tolerance=2.0)
