"""Sums of values on known steps."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.ops.activation import Activation
from clgraph.ops.quantized_sum import QuantizedSum
from clgraph.ops.static_quantize import DequantizeAdd
from tests.support.check_op import check_op

SUM = QuantizedSum((0.5, 0.25, 0.75), (3, 130, 120))


def on_steps(scale, zero):
    return lambda rng, shape: (rng.integers(0, 256, shape) - zero) * scale


@pytest.mark.opencl
def test_kernels_that_add_floats_are_within_half_a_step(gpu_engine):
    # In units of 2^-24: 0.375, and the roundings of numbers up to 120.
    half = lambda a, b: np.full(np.broadcast_shapes(a.shape, b.shape), 0.375 * 2**24 + 240)  # noqa: E731
    draw = {0: on_steps(0.5, 3), 1: on_steps(0.25, 130)}
    for fused in ((), [(Activation("relu"), [], 0)]):
        check_op(gpu_engine, SUM, (2, 3, 5), (3, 1), draw=draw, families=["normal"], ulps=1, scale=half, fused=fused)


@pytest.mark.opencl
def test_cpus_add_whole_vectors_of_floats(engine):
    # Multiples of a quarter are added without a rounding.
    draw = {0: on_steps(0.5, 3), 1: on_steps(0.25, 130)}
    half = lambda a, b: np.full(np.broadcast_shapes(a.shape, b.shape), 0.375 * 2**24)  # noqa: E731
    for shapes, name in (((2, 19, 5, 7), (19, 1, 1)), "fsv16"), (((3, 70), (70,)), "rows"):
        check_op(
            engine, SUM, *shapes, draw=draw, families=["normal"], ulps=1, scale=half, only=[f"quantized_sum.{name}"]
        )


def test_a_sum_with_bytes_is_the_same_in_either_place(rng):
    a, b = rng.integers(0, 256, (2, 50)).astype(np.uint8)
    floats = (a.astype(np.float32) - 3) * np.float32(0.5), (b.astype(np.float32) - 130) * np.float32(0.25)
    (want,) = SUM.reference(*floats)
    np.testing.assert_array_equal(want % 0.75, 0)
    np.testing.assert_array_equal(DequantizeAdd(0.25, 130, SUM).reference(floats[0], b)[0], want)
    np.testing.assert_array_equal(DequantizeAdd(0.5, 3, SUM, swapped=True).reference(floats[1], a)[0], want)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ShapeError, match="floats of one type"):
        SUM.infer([Layout(DType.F32, (3,)), Layout(DType.F16, (3,))])
    with pytest.raises(ShapeError, match="do not broadcast"):
        SUM.infer([Layout(DType.F32, (3,)), Layout(DType.F32, (2,))])
