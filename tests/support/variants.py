"""Mark the values of a parametrized test that only ``make test-variants`` takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet


def also(*values: Any) -> list[ParameterSet]:
    """Return them marked; a tuple has the values of several arguments."""
    each = [value if isinstance(value, tuple) else (value,) for value in values]
    return [pytest.param(*given, marks=pytest.mark.variants) for given in each]
