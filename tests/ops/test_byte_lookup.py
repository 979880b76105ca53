"""Bytes looked up in a table of 256."""

import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.ops.byte_lookup import ByteLookup
from tests.support.check_op import check_op

BYTES = lambda rng, shape: rng.integers(0, 256, shape)  # noqa: E731


@pytest.mark.opencl
def test_every_implementation_finds_what_the_table_has(gpu_engine):
    draw = {0: BYTES, 1: BYTES}
    check_op(gpu_engine, ByteLookup(), (2, 3, 5, 16), (256,), dtype=DType.U8, draw=draw, families=["normal"])
    signed = {0: lambda rng, shape: rng.integers(-128, 128, shape), 1: BYTES}
    types = (DType.I8, DType.U8)
    check_op(gpu_engine, ByteLookup(), (2, 3, 5, 16), (256,), dtype=types, draw=signed, families=["normal"])


@pytest.mark.parametrize(("x", "entries"), [(DType.I16, 256), (DType.I8, 255)])
def test_what_does_not_fit_is_refused(x, entries):
    with pytest.raises(ShapeError, match="a table of 256"):
        ByteLookup().infer([Layout(x, (3,)), Layout(DType.U8, (entries,))])
