"""Equality of arrays with NaN of any element type."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def assert_equal(found: NDArray[Any], wanted: NDArray[Any], why: str) -> None:
    """Assert that arrays are equal, *why* being told where not; NumPy knows no NaN of ml_dtypes' types."""
    if found.tobytes() != wanted.tobytes():
        np.testing.assert_array_equal(found, wanted, why)
