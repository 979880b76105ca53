"""Element types of what a program's image is fed and returns."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.network.imaging import NoImageError, _spelled


@pytest.mark.parametrize("dtype", list(DType), ids=str)
def test_types_are_spelled_so_that_numpy_makes_them_again_or_have_no_image(dtype):
    if dtype.numpy.isbuiltin == 1:
        assert np.dtype(_spelled(dtype.numpy)) == dtype.numpy
    else:
        with pytest.raises(NoImageError, match=dtype.numpy.name):
            _spelled(dtype.numpy)
