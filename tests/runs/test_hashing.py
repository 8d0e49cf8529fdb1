import hashlib
import math

import pytest

from lt2theory.runs import canonical_json, config_hash


def test_canonical_text() -> None:
    assert canonical_json({"b": (1, 2.5), "a": {"ü": None}}) == '{"a":{"ü":null},"b":[1,2.5]}'


def test_hash_ignores_key_order_and_tuples() -> None:
    first = config_hash({"a": 1, "b": [1, 2]})
    assert first == config_hash({"b": (1, 2), "a": 1})
    assert first == hashlib.sha256(b'{"a":1,"b":[1,2]}').hexdigest()[:12]


@pytest.mark.parametrize("other", [{"a": 2}, {"a": "1"}, {"a": True}, {"a": 1, "b": None}, {}])
def test_hash_tells_values_apart(other: dict[str, object]) -> None:
    assert config_hash(other) != config_hash({"a": 1})


def test_numbers_that_are_not_finite_are_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        config_hash({"a": math.inf})
