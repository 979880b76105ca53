"""Rotations of pairs; against ONNX Runtime as RotaryEmbedding, which is made of them."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.ops.activation import Activation
from clgraph.ops.rotation import Rotation
from tests.support.check_op import check_op

SHAPES = [
    # Angles for all heads of a token, wherever these lie; tails of features behind 16, 8 and less than 8 pairs.
    ((2, 3, 5, 16), (2, 1, 5, 8)),
    ((2, 5, 3, 66), (1, 5, 1, 33)),
    ((1, 2, 3, 45), (1, 2, 3, 11)),
    ((4, 6), (4, 2)),
]


def terms(interleaved):
    """Return the sum of the absolute products that a result of :class:`Rotation` is, or the feature that stays."""

    def scale(x, cos, sin):
        size = 2 * cos.shape[-1]
        other = np.abs(Rotation(interleaved).reference(np.abs(x), np.zeros_like(cos), np.abs(sin))[0])
        own = Rotation(interleaved).reference(np.abs(x), np.abs(cos), np.zeros_like(sin))[0]
        return np.concatenate([(own + other)[..., :size], np.abs(x[..., size:])], -1)

    return scale


@pytest.mark.opencl
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(("x", "angles"), SHAPES)
def test_every_implementation_rounds_two_products_and_their_sum(x, angles, interleaved, engine):
    # Each product is rounded, then the sum: at most that of both, with a rounding of its own.
    check_op(engine, Rotation(interleaved), x, angles, angles, ulps=2, scale=terms(interleaved))


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", [DType.F16, DType.F64])
def test_halves_and_doubles_are_rotated(dtype, engine):
    check_op(engine, Rotation(), *SHAPES[0], SHAPES[0][1], ulps=2, scale=terms(False), dtype=dtype)


@pytest.mark.opencl
def test_fused_operations_are_applied_to_what_is_turned_and_what_stays(engine):
    x, angles = SHAPES[2]
    check_op(engine, Rotation(), x, angles, angles, ulps=2, scale=terms(False), fused=[(Activation("relu"), [], 0)])


@pytest.mark.parametrize(
    ("cos", "sin", "message"),
    [
        ((2, 1, 5, 9), (2, 1, 5, 9), "not those of pairs"),
        ((2, 1, 5, 8), (2, 1, 5, 4), "not those of pairs"),
        ((5, 8), (5, 8), "not those of pairs"),
        ((2, 1, 4, 8), (2, 1, 4, 8), "do not broadcast"),
    ],
)
def test_tables_that_do_not_fit_are_refused(cos, sin, message):
    with pytest.raises(ShapeError, match=message):
        Rotation().infer([Layout(DType.F32, s) for s in ((2, 3, 5, 16), cos, sin)])


def test_only_orders_in_which_features_stay_last_are_the_same_operator():
    layouts = [Layout(DType.F32, s) for s in ((2, 3, 5, 16), (2, 1, 5, 8), (2, 1, 5, 8))]
    permuted = Rotation().permuted((0, 2, 1, 3), layouts)
    assert permuted is not None
    assert permuted.inputs == ((0, 2, 1, 3),) * 3
    assert Rotation().permuted((0, 1, 3, 2), layouts) is None
