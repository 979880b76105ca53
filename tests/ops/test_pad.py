"""Padding."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.ops.pad import Pad, PadRef
from clgraph.selector.query import Query
from tests.support.check_op import check_op
from tests.support.onnx_case import agree

MOVED = {"uchar": 1, "ushort": 2, "uint": 4, "ulong": 8, "uint4": 16}
PADS = [[0, 1, 2, 1, 0, 3], [0, -1, 2, 1, 0, -2], [0, -1, 1, 0, 1, -1]]


@pytest.mark.parametrize("pads", PADS)
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
@pytest.mark.parametrize("opset", [7, 11, 13, 18, 19, 21])
def test_pad_agrees_with_onnxruntime(opset, mode, pads, rng):
    if mode == "wrap" and (opset < 19 or min(pads) < 0):
        pytest.skip("wrap came with opset 19; ONNX Runtime reads beyond a cut axis")
    if mode == "reflect" and min(pads) < 0:
        pytest.skip("ONNX Runtime refuses it")
    x = rng.standard_normal((2, 3, 4)).astype(np.float32)
    if opset < 11:
        agree("Pad", [x], opset=opset, pads=pads, mode=mode, **({"value": 1.5} if mode == "constant" else {}))
        return
    value = [np.array(1.5, np.float32)] if mode == "constant" else []
    agree("Pad", [x, np.array(pads, np.int64), *value], opset=opset, constant=(1, 2), mode=mode)


def test_pads_may_be_for_some_axes(rng):
    x = rng.standard_normal((2, 3, 4)).astype(np.float32)
    inputs = [x, np.array([1, 2, 0, 1], np.int64), None, np.array([-1, 0], np.int64)]
    agree("Pad", inputs, opset=18, constant=(1, 3))


TYPES = [DType.F32, DType.F16, DType.F64, DType.I64, DType.I32, DType.U8, DType.BOOL]


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_every_implementation_copies_exactly(mode, dtype, engine):
    check_op(engine, Pad(((0, 1), (2, 1), (0, 3)), mode, 2.0), (2, 3, 4), dtype=dtype, families=["normal"])
    if mode in ("constant", "edge"):
        check_op(engine, Pad(((0, -1), (2, -1), (-2, 3)), mode, 2.0), (2, 3, 4), dtype=dtype, families=["normal"])
        check_op(engine, Pad(((0, 0), (1, -1), (-2, 2)), mode, 2.0), (2, 3, 4), dtype=dtype, families=["normal"])
    if mode == "constant":
        check_op(engine, Pad(((0, 0), (-4, 6), (0, 1)), mode, 2.0), (2, 3, 4), dtype=dtype, families=["normal"])


WIDE = {
    ((0, 0), (1, 2), (0, 0)): ((2, 5, 8), (16, 8), 2),
    ((0, 0), (0, 0), (4, 8)): ((3, 2, 12), (16, 4), 2),
    ((0, 0), (0, 0), (4, -8)): ((3, 2, 12), (16, 4), 2),
    ((0, 0), (1, -1), (0, 0)): ((2, 5, 6), (8, 2), 2),
    ((0, 0), (0, 0), (3, 3)): ((2, 3, 5), (4, 1), 2),
    ((1, 0), (0, 0), (0, 0)): ((2, 3, 4), (16, 4), 1),
}
"""By pads: shape, the bytes moved together of floats and of bytes, and the axes that are counted."""


@pytest.mark.opencl
def test_neighbours_are_moved_together_and_exactly(engine):
    for pads, (shape, bytes_together, axes) in WIDE.items():
        for dtype, together in zip((DType.F32, DType.U8), bytes_together, strict=True):
            check_op(engine, Pad(pads, "constant", 2.0), shape, dtype=dtype, families=["normal"])
            x = Layout(dtype, shape)
            q = Query(Pad(pads), (x,), Pad(pads).infer([x]), engine.info, 1)
            macros = dict(PadRef.plan(q).steps[0].jit.macros)
            assert (MOVED[macros["MOVED"]], macros["RANK"]) == (together, str(axes)), (pads, dtype)
        check_op(engine, Pad(tuple((max(b, 0), max(a, 0)) for b, a in pads), "edge"), shape, families=["normal"])
    # A border may be missing where the sizes are equal; what is repeated is not in the order of memory.
    check_op(engine, Pad(((0, 0), (1, -1)), "constant", 2.0), (3, 8), families=["normal"])
    check_op(engine, Pad(((0, 0), (1, -1)), "edge"), (3, 8), families=["normal"])


def test_nothing_that_is_left_cannot_be_repeated():
    x = Layout(DType.F32, (2, 3))
    for mode in ("edge", "reflect", "wrap"):
        with pytest.raises(ShapeError, match=r"leave nothing of \[2, 3\] to repeat"):
            Pad(((0, 0), (-3, 2)), mode).infer([x])
        assert Pad(((0, 0), (-3, 0)), mode).infer([x])[0].shape == (2, 0)
