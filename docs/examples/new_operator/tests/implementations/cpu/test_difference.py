"""The tile function of differences."""

import numpy as np
import pytest

from clgraph.implementations.cpu.difference import DifferenceRows
from clgraph.ops.difference import Difference
from tests.support.run_tiles import check_tiles


@pytest.mark.opencl
@pytest.mark.parametrize(("shape", "axis"), [((3, 5), 0), ((2, 9, 16), 1), ((2, 19, 3, 37), 1), ((3, 40, 200), 1)])
@pytest.mark.parametrize("misalign", [0, 3])
def test_differences_agree_with_float64(engine, shape, axis, misalign, rng):
    x = rng.standard_normal(shape).astype(np.float32)
    # One rounding.
    check_tiles(engine, DifferenceRows, Difference(axis), [x], 1, misalign=misalign)
