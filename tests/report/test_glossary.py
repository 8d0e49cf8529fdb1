"""Terms of the reports."""

import pytest

from lt2theory.report.glossary import GLOSSARY, terms


def test_terms_come_in_the_order_asked_for():
    assert list(terms("seed", "arm")) == ["seed", "arm"]
    assert terms("arm")["arm"] == GLOSSARY["arm"]


def test_unknown_terms_are_refused():
    with pytest.raises(ValueError, match=r"term: 'nonsense' is not allowed .choose from arm, seed"):
        terms("arm", "nonsense")
