import numpy as np
import pytest
from scipy.stats import chisquare

from tasks.digits import from_index
from tasks.splits import SPLITS, InstanceHash, draw_members, list_members, split_ids
from tasks.streams import Stream

RADICES = (2,) * 13


def decode(places):
    return from_index(places, RADICES)


def hash_by_hand(words, multipliers):
    """The documented formula in Python integers, for one row."""
    top = 2**64
    mixed = sum(int(w) * int(m) for w, m in zip(words, multipliers, strict=True)) % top
    mixed ^= mixed >> 33
    mixed = mixed * 0xFF51AFD7ED558CCD % top
    mixed ^= mixed >> 33
    mixed = mixed * 0xC4CEB9FE1A85EC53 % top
    return mixed ^ mixed >> 33


def test_hash_equals_its_formula_on_odd_widths():
    codes = Stream("codes").below(200, 7, 13)
    multipliers = [int(word) | 1 for word in Stream("split", "x", 1).words(2)]
    rows = [bytes(row.tolist()) + b"\0\0\0" for row in codes]
    words = [[int.from_bytes(row[i : i + 8], "little") for i in (0, 8)] for row in rows]
    expected = [hash_by_hand(row, multipliers) for row in words]
    assert InstanceHash("x", 1)(codes).tolist() == expected


def test_hash_depends_on_its_name_and_on_every_column():
    codes = Stream("codes").below(200, 50, 13)
    base = InstanceHash("x")(codes)
    assert not (base == InstanceHash("y")(codes)).any()
    for column in range(13):
        changed = codes.copy()
        changed[:, column] ^= 1
        assert not (InstanceHash("x")(changed) == base).any()


def test_splits_are_the_tenths_of_the_hash():
    hashes = np.array([(2**64 // 10) * tenth + 2**40 for tenth in range(10)], dtype=np.uint64)
    assert split_ids(hashes).tolist() == [0] * 8 + [1, 2]


def test_shares_are_80_10_10_even_for_neighbouring_instances():
    ids = split_ids(InstanceHash("shares")(from_index(np.arange(1 << 17), (2,) * 17)))
    counts = np.bincount(ids)
    expected = np.array([0.8, 0.1, 0.1]) * ids.size
    assert chisquare(counts, expected).pvalue > 1e-4


def test_listed_and_drawn_members_are_the_same_sets():
    hashed = InstanceHash("members")
    listed = list_members(decode, hashed, 1 << 13)
    assert sum(members.size for members in listed.values()) == 1 << 13
    stream = Stream("draws")
    for split in SPLITS:
        codes = draw_members(lambda n: stream.below(2, n, 13), hashed, split, 300)
        places = codes.astype(np.int64) @ (1 << np.arange(12, -1, -1))
        assert np.isin(places, listed[split]).all()
        if split != "train":
            assert np.unique(places).size == 300


@pytest.mark.parametrize("split", ["eval", "test"])
def test_drawing_finds_a_whole_split_without_repeats(split):
    hashed = InstanceHash("exhaust")
    radices = (2,) * 8
    members = list_members(lambda p: from_index(p, radices), hashed, 256)[split]
    stream = Stream("exhaust", split)
    codes = draw_members(lambda n: stream.below(2, n, 8), hashed, split, members.size)
    places = codes.astype(np.int64) @ (1 << np.arange(7, -1, -1))
    np.testing.assert_array_equal(np.sort(places), members)
