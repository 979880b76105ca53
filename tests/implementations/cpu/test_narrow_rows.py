"""Elementwise tiles of few elements a row."""

from functools import partial

import numpy as np
import pytest

from clgraph.core.layout import Layout
from clgraph.implementations.cpu.eltwise import EltwiseRows
from clgraph.ops.eltwise import Eltwise
from tests.support.run_tiles import check_tiles, pose, post_list

OTHERS = (lambda w: (5, 9, 1), lambda w: (5, 1, w), lambda w: (9, 1), lambda w: (9, w), lambda w: (5, 1, 1))


@pytest.mark.opencl
@pytest.mark.parametrize("other", range(len(OTHERS)))
@pytest.mark.parametrize("width", [2, 8, 11, 16, 17, 31, 32, 47, 128])
def test_operands_are_broadcast_along_rows_and_images_of_a_piece(engine, width, other):
    rng = np.random.default_rng(width + other)
    shape, turned = (5, 9, width), other == 1
    arrays = [rng.standard_normal(s).astype(np.float32) for s in (shape, OTHERS[other](width))]
    if turned:
        arrays.reverse()
    fused, slope = post_list(("", "row sigmoid", "gate add", "row relu", "row")[other], shape, arrays, rng)
    asked = partial(pose, engine.info, EltwiseRows, Eltwise("sub"), arity=2, fused=fused)
    (tile,) = EltwiseRows.plan(asked([Layout.of(a) for a in arrays])).steps
    assert tile.name == "copy_narrow_rows"
    # One rounding of the function, one of an addition to an operand below 4, six of a sigmoid.
    check_tiles(
        engine, EltwiseRows, Eltwise("sub"), arrays, slope * 10, arity=2, size=4, fused=fused, misalign=width % 16
    )
