from __future__ import annotations

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.errors import UnsupportedError


def test_every_type_has_its_numpy_twin() -> None:
    for dtype in DType:
        assert DType.of(dtype.numpy) is dtype
        assert dtype.itemsize == dtype.numpy.itemsize == np.empty((), dtype.numpy).nbytes
        assert dtype.floating == (dtype.numpy.kind == "f")


@pytest.mark.parametrize("dtype", [np.complex64, np.dtype("U3"), object])
def test_a_type_that_is_not_held_is_refused(dtype) -> None:
    with pytest.raises(UnsupportedError, match="is not one of f64, f32"):
        DType.of(dtype)
