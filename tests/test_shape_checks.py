"""What `tests.shape_checks` installs is on in this very session."""

import jaxtyping
import pytest
import torch

from lt2theory.analysis.conformance_measures import draw_tokens, relative_error
from tests.shape_checks import PACKAGES, modules_with_shapes


def test_a_wrong_shape_is_refused() -> None:
    assert relative_error(torch.ones(2, 3), torch.ones(2, 3)) == 0
    with pytest.raises(jaxtyping.TypeCheckError, match=r"\*shape"):
        relative_error(torch.ones(2, 3), torch.ones(2, 2))


def test_a_wrong_type_is_refused() -> None:
    with pytest.raises(jaxtyping.TypeCheckError, match="length"):
        draw_tokens(1, "3")  # type: ignore[arg-type]  # that is what is tested


def test_every_package_has_modules_with_shapes() -> None:
    found = list(modules_with_shapes())
    assert {name.partition(".")[0] for name in found} == set(PACKAGES)
    assert "lt2theory.ops.factors" in found
