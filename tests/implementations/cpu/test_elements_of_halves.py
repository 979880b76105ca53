"""Functions that bound or turn halves by their bits, all that there are; numbers that stand for all of a row."""

import numpy as np
import pytest

import clgraph
from clgraph.core.dtype import DType
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.where import Where
from tests.support.check_op import check_op

pytestmark = pytest.mark.opencl


def _all(dtype, shape):
    """Return each of their numbers, of bfloat16 without NaN, which NumPy does not compare with itself."""
    found = np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)
    if dtype == DType.BF16:
        found[np.isnan(found.astype(np.float32))] = 0
    return found.reshape(shape)


BOUNDS = ((-1.0, 2.0), (0.0, 6.0), (-0.0, 0.0), (-np.inf, np.inf), (3.0, np.inf), (2.5, -2.5), (0.1, 1e9))
"""Both ends, the upper end below the lower one, what a half does not hold."""


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16], ids=str)
def test_each_of_their_numbers_is_turned_and_bounded_as_numpy_does(engine, dtype):
    draw = {0: lambda rng, shape: _all(dtype, shape)}
    with np.errstate(over="ignore"):
        rounded = [tuple(float(np.array(v).astype(dtype.numpy)) for v in pair) for pair in BOUNDS]
    clips = [Activation("clip", *pair) for pair in rounded]
    for primitive in (*map(Activation, ("neg", "abs", "sign", "relu")), *clips):
        found = check_op(
            engine, primitive, (64, 1024), dtype=dtype, draw=draw, families=("normal",), only=["activation.elements"]
        )
        assert found == {"activation.elements": 0.0}, primitive


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16], ids=str)
def test_a_bound_that_they_do_not_hold_is_rounded_to_one(engine, dtype):
    draw = {0: lambda rng, shape: _all(dtype, shape)}
    for low, high in ((0.1, 1 / 3), (-1 / 3, 1e-9), (-1e-9, 0.7)):
        found = check_op(
            engine, Activation("clip", low, high), (64, 1024), dtype=dtype, draw=draw, families=("normal",),
            ulps=2.0**16, only=["activation.elements"],
        )  # fmt: skip
        assert found


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16], ids=str)
def test_a_choice_keeps_the_bits_of_every_half(engine, dtype):
    draw = {
        0: lambda rng, shape: rng.random(shape) < 0.5,
        1: lambda rng, shape: _all(dtype, shape),
    }
    for other in ((64, 1024), (64, 1), (1,)):
        found = check_op(
            engine, Where(), (64, 1024), (64, 1024), other, dtype=[DType.BOOL, dtype, dtype], draw=draw,
            families=("normal",), only=["where.elements"],
        )  # fmt: skip
        assert found == {"where.elements": 0.0}


@pytest.mark.parametrize("name", ["exp", "tanh", "sqrt", "floor", "leaky_relu"])
def test_other_functions_of_brain_floats_are_rounded_once(engine, name):
    found = check_op(
        engine, Activation(name, 0.5), (3, 701), dtype=DType.BF16,
        draw={0: lambda rng, shape: rng.uniform(0.1, 4, shape)}, families=("normal",), ulps=32.0,
        only=["activation.elements"],
    )  # fmt: skip
    assert found


def test_brain_floats_that_are_no_numbers_stay_so(device):
    bits = np.array([0x7F81, 0x7FC0, 0xFF81, 0xFFFF, 0x7F80, 0xFF80], np.uint16)
    made = clgraph.Topology()
    x = made.input("x", bits.shape, DType.BF16)
    for name in ("neg", "abs", "sign", "relu", "clip"):
        made.output(name, made.add(f"{name}_of_x", Activation(name, -1.0, 1.0), x))
    results = clgraph.compile(made, device=device).run({"x": bits.view(DType.BF16.numpy)})
    for name, y in results.items():
        assert np.isnan(y.astype(np.float32)).tolist() == [True] * 4 + [False] * 2, name


@pytest.mark.parametrize("width", [600, 1100, 2100])
def test_a_number_for_all_is_there_for_long_pieces_behind_short_ones(engine, width):
    """Tickets are runs of 512 longs of a row, and begin with any of these: the room for the number may be half full."""
    draw = dict.fromkeys((0, 1), lambda rng, shape: rng.integers(-9, 9, shape))
    for other in ((1,), (701, 1)):
        found = check_op(
            engine, Eltwise("add"), (701, width), other, dtype=DType.I64, draw=draw, families=("normal",),
            only=["eltwise.elements"],
        )  # fmt: skip
        assert found == {"eltwise.elements": 0.0}
