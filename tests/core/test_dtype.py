from __future__ import annotations

import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from clgraph.core.dtype import DType, is_floating, largest, named, spelled, unit
from clgraph.errors import UnsupportedError


def test_every_type_has_its_numpy_twin() -> None:
    for dtype in DType:
        assert DType.of(dtype.numpy) is dtype
        assert dtype.itemsize == dtype.numpy.itemsize == np.empty((), dtype.numpy).nbytes
        assert named(spelled(dtype.numpy)) == dtype.numpy
        assert DType.of(dtype.numpy.name) is dtype
        assert dtype.floating == is_floating(dtype.numpy) == (dtype.name in ("F64", "F32", "F16", "BF16"))


@pytest.mark.parametrize("dtype", [np.complex64, np.dtype("U3"), object])
def test_a_type_that_is_not_held_is_refused(dtype) -> None:
    with pytest.raises(UnsupportedError, match="is not one of f64, f32"):
        DType.of(dtype)


def test_the_bounds_of_integers_and_the_units_of_floats_are_numpys() -> None:
    for dtype in DType:
        if dtype.floating:
            assert unit(dtype.numpy) == float(ml_dtypes.finfo(dtype.numpy).eps)
            assert largest(dtype.numpy) == float(ml_dtypes.finfo(dtype.numpy).max)
        elif dtype.name[0] in "IU":
            assert dtype.bounds == (int(ml_dtypes.iinfo(dtype.numpy).min), int(ml_dtypes.iinfo(dtype.numpy).max))


def test_types_that_numpy_does_not_have_are_imported_where_one_occurs() -> None:
    code = "import sys; from clgraph.core.dtype import DType; print(DType.F16.numpy, 'ml_dtypes' in sys.modules)"
    code += "; print(DType.of('bfloat16').numpy, 'ml_dtypes' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.split() == ["float16", "False", "bfloat16", "True"]
