"""The tile function of rotations."""

import numpy as np
import pytest

from clgraph.implementations.cpu.rotation import RotationRows
from clgraph.ops.rotation import Rotation
from tests.ops.test_rotation import SHAPES, terms
from tests.support.run_tiles import check_tiles


@pytest.mark.opencl
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(("shape", "angles"), [*SHAPES, ((3, 7, 40, 64), (3, 1, 40, 32))])
@pytest.mark.parametrize("misalign", [0, 3])
def test_rotations_agree_with_float64(engine, shape, angles, interleaved, misalign, rng):
    x, cos, sin = (rng.standard_normal(s).astype(np.float32) for s in (shape, angles, angles))
    # Two products and their sum.
    size = terms(interleaved)(x, cos, sin)
    check_tiles(engine, RotationRows, Rotation(interleaved), [x, cos, sin], 2, size=size, misalign=misalign)
