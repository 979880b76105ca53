"""Elementwise functions of all element types on rows of few elements, of which a piece has several."""

import pytest

from clgraph.core.dtype import DType
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.where import Where
from tests.support.check_op import check_op

pytestmark = pytest.mark.opencl


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.I64, DType.U8], ids=str)
@pytest.mark.parametrize(
    "shapes",
    [
        ((2, 400, 1, 3), (2, 1, 4, 3)),
        ((1500, 1), (3,)),
        ((900, 2), (900, 1)),
        ((1, 40, 60), (30, 1, 60)),
        ((2, 1, 700, 1), (5, 700, 2)),
    ],
    ids=str,
)
def test_short_rows_are_computed_several_at_a_time(engine, shapes, dtype):
    low = -9 if dtype.numpy.kind == "i" else 0
    whole = lambda rng, of: rng.integers(low, 9, of).astype(dtype.numpy)  # noqa: E731
    draw = {} if dtype.floating else {0: whole, 1: whole}
    ulps = {DType.F16: 2.0**13, DType.F32: 1.0}.get(dtype, 0.0)
    for name in ("sub", "less"):
        check_op(engine, Eltwise(name), *shapes, dtype=dtype, draw=draw, families=("normal",), ulps=ulps,
                 only=["eltwise.elements"])  # fmt: skip
    check_op(engine, Where(), shapes[1], shapes[0], (1,), dtype=(DType.BOOL, dtype, dtype), families=("normal",),
             only=["where.elements"])  # fmt: skip


def test_operations_behind_short_rows_are_of_one_row(engine):
    product = (Eltwise("mul"), [(40, 1)], 0)
    check_op(engine, Eltwise("sub"), (40, 1), (1, 5), fused=[product], ulps=2.0, only=["eltwise.elements"])
