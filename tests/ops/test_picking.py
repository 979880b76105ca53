"""GatherElements, GatherND, ScatterElements and ScatterND: elements at places that are data."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.ops.gather_elements import GatherElements
from clgraph.ops.gather_nd import GatherND
from clgraph.ops.scatter_elements import ScatterElements
from clgraph.ops.scatter_nd import ScatterND
from tests.support.check_op import check_op
from tests.support.combinations import each_value
from tests.support.onnx_case import agree

TYPES = [DType.F32, DType.F16, DType.I64, DType.U8]


def places(*sizes):
    """Return how to draw coordinates of axes of these *sizes*, from the front and from the back."""
    ends = np.array(sizes if len(sizes) > 1 else sizes[0])
    return {1: lambda rng, shape: rng.integers(-ends, ends, shape)}


@pytest.mark.opencl
@each_value(dtype=TYPES, index=[DType.I32, DType.I64])
def test_elements_and_slices_are_picked(dtype, index, engine):
    types = (dtype, index)
    check_op(engine, GatherElements(1), (3, 7, 4), (3, 5, 2), dtype=types, draw=places(7))
    check_op(engine, GatherElements(-1), (9,), (20,), dtype=types, draw=places(9))
    check_op(engine, GatherND(), (4, 5, 6), (3, 2, 2), dtype=types, draw=places(4, 5))
    check_op(engine, GatherND(), (4, 5), (7, 2), dtype=types, draw=places(4, 5))
    check_op(engine, GatherND(1), (3, 5, 6), (3, 4, 1), dtype=types, draw=places(5))
    check_op(engine, GatherND(), (4, 5), (3, 0), dtype=types)
    check_op(engine, GatherND(1), (3, 5), (3, 4, 0), dtype=types)


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_updates_come_in_their_order(reduction, dtype, engine):
    # Small whole numbers: sums and products of a dozen of them are exact, in halves too.
    small = {slot: lambda rng, shape: rng.integers(0, 3, shape) for slot in (0, 2)}
    types = (dtype, DType.I64, dtype)
    for axis, shape, picked in ((1, (3, 5, 4), (2, 9, 3)), (0, (4,), (11,))):
        scatter = ScatterElements(axis, reduction)
        check_op(engine, scatter, shape, picked, picked, dtype=types, draw=small | places(shape[axis]))
    scatter = ScatterND(reduction)
    check_op(engine, scatter, (4, 5, 6), (3, 3, 2), (3, 3, 6), dtype=types, draw=small | places(4, 5))
    check_op(engine, scatter, (3, 2), (8, 2), (8,), dtype=types, draw=small | places(3, 2))
    check_op(engine, scatter, (4, 6), (1,), (6,), dtype=types, draw=small | places(4))
    check_op(engine, scatter, (4, 6), (3, 0), (3, 4, 6), dtype=types, draw=small)


def test_references_agree_with_onnxruntime(rng):
    x = rng.standard_normal((3, 4, 5)).astype(np.float32)
    agree("GatherElements", [x, rng.integers(-4, 4, (3, 6, 5))], opset=13, axis=1)
    agree("GatherND", [x, rng.integers(-3, 3, (2, 2))], opset=13)
    indices, updates = rng.integers(-3, 3, (2, 4, 5)), rng.standard_normal((2, 4, 5)).astype(np.float32)
    agree("ScatterElements", [x, indices, updates], opset=18, axis=0, reduction="add")
    agree("ScatterND", [x, rng.integers(0, 3, (6, 1)), np.repeat(x, 2, 0)], opset=18, reduction="max")


def test_places_without_coordinates_are_the_whole_tensor(rng):
    x, y = rng.standard_normal((2, 3, 4)).astype(np.float32), rng.standard_normal((2, 5, 3, 4)).astype(np.float32)
    for shape, batch in (((0,), 0), ((5, 0), 0), ((0, 0), 0), ((2, 0), 1), ((2, 5, 0), 1), ((2, 3, 4, 0), 3)):
        agree("GatherND", [x, np.zeros(shape, np.int64)], opset=13, batch_dims=batch)
    for reduction in ("none", "add", "max"):
        agree("ScatterND", [x[0], np.zeros((2, 5, 0), np.int64), y], opset=18, reduction=reduction)
        agree("ScatterND", [x, np.zeros(0, np.int64), y[:, 0]], opset=18, reduction=reduction)
