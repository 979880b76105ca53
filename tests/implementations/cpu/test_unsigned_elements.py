"""Elementwise functions of unsigned integers whose highest bit is no sign."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.reorder import Reorder
from tests.support.check_op import check_op

pytestmark = pytest.mark.opencl

NAMES = (
    "min",
    "max",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "equal",
    "add",
    "sub",
    "mul",
    "div",
    "mod",
    "fmod",
)


def _spread(rng, shape, dtype):
    """Return numbers of any size, those next to the limits and to what would be the sign, and equal ones."""
    bits = 8 * dtype.itemsize
    edges = [0, 1, 2, (1 << bits - 1) - 1, 1 << bits - 1, (1 << bits - 1) + 1, (1 << bits) - 2, (1 << bits) - 1]
    edges = np.array(edges, dtype.numpy)
    wide = rng.integers(0, (1 << bits) - 1, shape, dtype.numpy, endpoint=True)
    shifted = wide >> rng.integers(0, bits, shape).astype(dtype.numpy)
    return np.where(rng.random(shape) < 0.5, rng.choice(edges, shape), shifted)


@pytest.mark.parametrize("dtype", [DType.U64, DType.U32, DType.U16, DType.U8], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_functions_of_two_are_exact_from_zero_to_the_limit(engine, dtype, name):
    draw = dict.fromkeys((0, 1), lambda rng, shape: _spread(rng, shape, dtype))
    for shapes in (((3, 701), (3, 701)), ((5, 1), (1, 37))):
        found = check_op(
            engine, Eltwise(name), *shapes, dtype=dtype, draw=draw, families=("normal",), only=["eltwise.elements"]
        )
        assert found == {"eltwise.elements": 0.0}


@pytest.mark.parametrize("dtype", [DType.U64, DType.U32, DType.U16, DType.U8], ids=str)
def test_functions_of_one_are_exact_from_zero_to_the_limit(engine, dtype):
    most = int(np.iinfo(dtype.numpy).max)
    draw = {0: lambda rng, shape: _spread(rng, shape, dtype)}
    clips = (Activation("clip", 3, most // 2 + 7), Activation("clip", most - 2, most), Activation("clip", 9, 5))
    for primitive in (*map(Activation, ("sign", "relu", "abs", "floor")), *clips):
        found = check_op(
            engine, primitive, (3, 701), dtype=dtype, draw=draw, families=("normal",), only=["activation.elements"]
        )
        assert found == {"activation.elements": 0.0}, primitive


def test_the_widest_become_floats_in_one_rounding_and_come_back(engine):
    widest = {0: lambda rng, shape: _spread(rng, shape, DType.U64)}
    for target in (DType.F32, DType.F64, DType.F16):
        with np.errstate(over="ignore"):
            found = check_op(
                engine, Reorder(target), (3, 701), dtype=DType.U64, draw=widest, families=("normal",),
                only=["reorder.elements"],
            )  # fmt: skip
        assert found == {"reorder.elements": 0.0}, target
    for source, bits in ((DType.F32, 24), (DType.F64, 53), (DType.F16, 11), (DType.BF16, 8)):
        # The largest of each type below 2^64, those around 2^63, fractions.
        most = [2.0**64 - 2.0 ** (64 - bits), 2.0**63, 2.0**63 - 2.0 ** (63 - bits), 2.0**62, 3.75, 0.5, 0.0]
        some = np.array(most[4:] if source == DType.F16 else most)
        found = check_op(
            engine, Reorder(DType.U64), (3, 701), dtype=source, families=("normal",), only=["reorder.elements"],
            draw={0: lambda rng, shape, some=some: rng.choice(some, shape)},
        )  # fmt: skip
        assert found == {"reorder.elements": 0.0}, source
