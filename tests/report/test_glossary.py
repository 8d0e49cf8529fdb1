"""Terms of the reports."""

import pytest

from lt2theory.report.glossary import GLOSSARY, glossary


def test_terms_come_in_the_order_asked_for():
    assert list(glossary("seed", "arm")) == ["seed", "arm"]
    assert glossary("arm")["arm"] == GLOSSARY["arm"]


def test_unknown_terms_are_refused():
    with pytest.raises(ValueError, match="term is 'nonsense', allowed are: arm, seed"):
        glossary("arm", "nonsense")
