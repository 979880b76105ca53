"""Sums and products of bytes with scales."""

import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.ops.quantized_pair import QuantizedPair
from tests.support.check_op import check_op

PAIRS = (
    # Most sums and products of these are halves, and a part of them beyond the bytes.
    QuantizedPair("add", (0.5, 0.25, 2.0), (3, 120, 77)),
    QuantizedPair("mul", (0.5, 0.25, 64.0), (3, 120, 77)),
    # Two roundings where one would make others.
    QuantizedPair("mul", (0.10151613503694534, 0.014822453260421753, 0.01956554949283600), (0, 127, 1)),
)


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", [DType.U8, DType.I8], ids=str)
def test_all_kernels_make_the_bytes_of_the_reference(engine, dtype):
    low, high = dtype.bounds
    either = lambda rng, shape: rng.integers(low, high + 1, shape).astype(dtype.numpy)  # noqa: E731
    for pair in PAIRS:
        # A row that is two pieces and a half, rows of one element of the second, and few pieces of strided ones.
        for shapes in (((2, 5000), (5000,)), ((3, 1, 67), (5, 1)), ((7, 1), (1, 5))):
            check_op(engine, pair, *shapes, dtype=dtype, draw={0: either, 1: either}, families=["normal"])


def test_what_does_not_fit_is_refused():
    with pytest.raises(ShapeError, match="u8 or i8, both the same"):
        PAIRS[0].infer([Layout(DType.U8, (3,)), Layout(DType.I8, (3,))])
    with pytest.raises(ShapeError, match="do not broadcast"):
        PAIRS[0].infer([Layout(DType.U8, (3,)), Layout(DType.U8, (2,))])
