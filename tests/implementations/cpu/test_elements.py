"""Elementwise functions of all element types by runs: broadcast inputs, rows longer than a run, rows of few."""

from itertools import product

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.element_functions import DOUBLE_FUNCTIONS, FUNCTIONS
from clgraph.ops.activation import FUNCTIONS as FUNCTIONS_OF_FLOATS
from clgraph.ops.activation import Activation
from clgraph.ops.dequantize import Dequantize
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.quantize import Quantize
from clgraph.ops.reorder import Reorder
from clgraph.ops.where import Where
from tests.support.check_op import FAMILIES, check_op

pytestmark = pytest.mark.opencl

SHAPES = (((2, 3, 1100), (1100,)), ((7, 1), (1, 5)), ((2, 1, 4, 33), (3, 1, 1)), ((1,), (700,)))
INTEGERS = (DType.I64, DType.I32, DType.I16, DType.I8, DType.U32, DType.U16, DType.U8)
ROUNDING = {DType.F16: 2.0**13, DType.F32: 1.0, DType.F64: 1.0}
"""What one rounding of a result is in units of 2^-24."""


def _whole(dtype: DType, low: int = -9, high: int = 9) -> object:
    low = low if dtype.numpy.kind == "i" else 0
    return lambda rng, shape: rng.integers(low, high, shape).astype(dtype.numpy)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_integers_are_computed_as_numpy_does(engine, shapes, dtype):
    names = [n for n in FUNCTIONS if n not in ("same", "choice", "neg", "abs", "not")]
    for name in (*names, "greater", "greater_equal"):
        draw = {0: _whole(dtype), 1: _whole(dtype)}
        found = check_op(
            engine, Eltwise(name), *shapes, dtype=dtype, draw=draw, families=("normal",), only=["eltwise.elements"]
        )
        assert found == {"eltwise.elements": 0.0}, name


@pytest.mark.parametrize("dtype", list(ROUNDING), ids=str)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_floats_are_rounded_once(engine, shapes, dtype):
    for name in ("add", "sub", "mul", "div", "min", "max", "equal", "less", "less_equal", "greater", "greater_equal"):
        check_op(engine, Eltwise(name), *shapes, dtype=dtype, ulps=ROUNDING[dtype], only=["eltwise.elements"])


def test_four_axes_have_operands_of_their_own(engine):
    product = (Eltwise("mul"), [(3, 4, 1)], 0)
    check_op(engine, Eltwise("sub"), (2, 1, 4, 33), (3, 1, 1), fused=[product], ulps=2.0, only=["eltwise.elements"])


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16], ids=str)
def test_powers_of_floats_are_within_their_bound(engine, dtype):
    draw = {0: lambda rng, shape: rng.uniform(0.1, 4.0, shape), 1: lambda rng, shape: rng.uniform(-4.0, 4.0, shape)}
    for shapes in (((33, 1), (1, 70)), ((7, 1), (1, 5)), ((2, 1100), (2, 1100))):
        # post_pow is within 4 units; what is rounded to halves is rounded once more.
        ulps = 4.0 + (ROUNDING[dtype] if dtype == DType.F16 else 0.0)
        check_op(engine, Eltwise("pow"), *shapes, dtype=dtype, draw=draw, families=("normal",), ulps=ulps,
                 only=["eltwise.elements"])  # fmt: skip


def _multiples(rng, shape):
    """Return what is next to a multiple of 0.1, so that quotients by it are rounded up and down to integers."""
    return np.nextafter(np.rint(rng.uniform(-1e6, 1e6, shape)) * 0.1, rng.choice([-np.inf, np.inf], shape))


@pytest.mark.parametrize("dtype", list(ROUNDING), ids=str)
def test_remainders_of_floats_are_exact(engine, dtype):
    edges = np.array([0.0, 1e-42, 0.5, 1.0, 3.0, 2.0**28, 2.0**52 + 1, 1e30, np.inf, np.nan])
    either = lambda rng, shape: rng.choice([*edges, *-edges], shape)  # noqa: E731
    most = {DType.F16: 15, DType.F32: 127, DType.F64: 1023}[dtype]
    spread = lambda rng, shape: np.exp2(rng.uniform(-most, most, shape)) * rng.choice([-1, 1], shape)  # noqa: E731
    few = lambda rng, shape: rng.uniform(-9, 9, shape)  # noqa: E731
    draws = ((either, either), (spread, spread), (few, few), (_multiples, lambda rng, shape: np.full(shape, 0.1)))
    for shapes in (((3, 1100), (3, 1100)), ((700,), (1,))):
        for first, second in draws:
            with np.errstate(over="ignore"):
                found = check_op(
                    engine, Eltwise("fmod"), *shapes, dtype=dtype, draw={0: first, 1: second}, families=("normal",),
                    only=["eltwise.elements"],
                )  # fmt: skip
            assert found == {"eltwise.elements": 0.0}


def test_the_smallest_integers_divided_by_minus_one_wrap(engine):
    for dtype in (DType.I64, DType.I32, DType.I8):
        least = np.iinfo(dtype.numpy).min
        draw = {
            0: lambda rng, shape, v=least: np.full(shape, v),
            1: lambda rng, shape: np.where(np.arange(20) % 3, -1, 0),
        }
        for name in ("mod", "fmod"):
            check_op(
                engine,
                Eltwise(name),
                (20,),
                (20,),
                dtype=dtype,
                draw=draw,
                families=("normal",),
                only=["eltwise.elements"],
            )


@pytest.mark.parametrize("dtype", [DType.BOOL, *INTEGERS, *ROUNDING], ids=str)
def test_a_choice_moves_bits(engine, dtype):
    condition = {0: lambda rng, shape: rng.random(shape) < 0.5}
    draw = condition if dtype.floating else {**condition, 1: _whole(dtype, 0, 2), 2: _whole(dtype, 0, 2)}
    for shapes in (((600, 1), (1, 3), (600, 3)), ((2, 1, 540), (540,), (2, 4, 540))):
        check_op(
            engine, Where(), *shapes, dtype=[DType.BOOL, dtype, dtype], draw=draw, families=("normal",),
            only=["where.elements"],
        )  # fmt: skip


def test_bytes_and_integers_of_two_become_one_another(engine):
    narrow = (DType.I8, DType.U8, DType.BOOL), (DType.I16, DType.U16)
    for source, target in (*product(*narrow), *((b, a) for a, b in product(*narrow))):
        limits = np.iinfo(source.numpy) if source != DType.BOOL else None
        draw = {
            0: _whole(source, 0, 2) if limits is None else lambda rng, s, of=limits: rng.integers(of.min, of.max + 1, s)
        }
        # A row of more than a piece, and one of a few elements.
        for shape in ((3, 2501), (5, 3)):
            made = check_op(
                engine, Reorder(target), shape, dtype=source, draw=draw, families=("normal",), only=["reorder.elements"]
            )
            assert made == {"reorder.elements": 0.0}, (source, target)


def test_signs_and_opposites(engine):
    for dtype in (DType.I64, DType.I32, DType.I16, DType.F64, DType.F16):
        draw = {} if dtype.floating else {0: _whole(dtype)}
        for name in ("neg", "abs"):
            check_op(
                engine, Activation(name), (3, 701), dtype=dtype, draw=draw, families=("normal",),
                only=["activation.elements"],
            )  # fmt: skip
    opposite = {0: lambda rng, shape: rng.random(shape) < 0.5}
    check_op(
        engine, Activation("not"), (3, 701), dtype=DType.BOOL, draw=opposite, families=("normal",),
        only=["activation.elements"],
    )  # fmt: skip


@pytest.mark.parametrize("name", ["sigmoid", "tanh", "gelu", "exp", "clip"])
def test_functions_of_halves_are_those_of_floats_rounded(engine, name):
    # The function is off by at most 8 ulps of a float, then rounded to a half: a little over half an ulp of that.
    check_op(
        engine, Activation(name, -1, 1), (5, 530), dtype=DType.F16, ulps=2.0**13 + 16,
        scale=lambda x: np.maximum(np.abs(x), 1), only=["activation.elements"],
    )  # fmt: skip


EDGES = (
    *(0.0, 5e-324, 1e-310, 2.3e-308, 1e-17, 0.3465, 0.3466, 0.49999999999999994, 0.5, 0.7071067811865475, 1 - 2.0**-53),
    *(1.0, 1 + 2.0**-52, 1.5, 2.5, 21.9, 22.0, 709.7, 709.8, 744.4, 745.2, 746.5, 2.0**51 + 0.5, 2.0**52 + 1, 2.0**53),
    *(1.7e308, np.inf, np.nan),
)
"""Where a function of doubles goes over into another branch, a result's or a number's last bit; of both signs."""
DOUBLES = {
    **FAMILIES,
    "edges": lambda rng, shape: np.resize(np.array([*EDGES, *(-v for v in EDGES)]), shape),
    "small": lambda rng, shape: rng.uniform(-1.5, 1.5, shape),
    "every exponent": lambda rng, shape: np.exp2(rng.uniform(-1074, 1023, shape)),
}
LEAST = 2.0**-1022

# In units of 2 u, u = 2^-53: what double_runs.clh states and what the reference is off by, whose functions NumPy has
# within 2 u; with the sums and quotients around them 5 u of sigmoid, 6 u of swish and softplus, 3 u of elu and celu,
# which divides alike. 0.5 v is exact, so that
# both sides round a linear function once; of what is not in the table they round the same operations.
OF_DOUBLES = {
    "exp": (3.0, None),
    "log": (2.5, None),
    "tanh": (5.0, None),
    "sigmoid": (5.5, None),
    "swish": (6.5, lambda v: np.abs(FUNCTIONS_OF_FLOATS["swish"](v, 0.5, 0)) + LEAST * np.abs(v)),
    "softplus": (8.0, None),
    "elu": (4.5, None),
    "celu": (4.5, None),
    "linear": (1.0, lambda v: np.abs(v) + 1),
    "hard_sigmoid": (1.0, lambda v: 1),
    "hard_swish": (2.0, np.abs),
}


@pytest.mark.parametrize("name", list(DOUBLE_FUNCTIONS))
def test_functions_of_doubles_are_within_their_bounds(engine, name):
    ulps, scale = OF_DOUBLES.get(name, (1.0, None))
    size = scale or (lambda v: np.abs(FUNCTIONS_OF_FLOATS[name](v, 0.5, 0.25)))
    with np.errstate(all="ignore"):
        check_op(
            engine, Activation(name, 0.5, 0.25), (3, 1100), dtype=DType.F64, families=DOUBLES, ulps=ulps,
            scale=lambda v: np.maximum(np.nan_to_num(size(v)), LEAST), only=["activation.elements"],
        )  # fmt: skip


def test_powers_of_doubles_are_within_their_bound(engine):
    either = lambda rng, shape: rng.choice(np.array([*EDGES, *(-v for v in EDGES)]), shape)  # noqa: E731
    whole = lambda rng, shape: rng.integers(-40, 41, shape).astype(np.float64)  # noqa: E731
    near_1 = lambda rng, shape: 1 + rng.choice([-1, 1], shape) * np.exp2(rng.uniform(-53, -1, shape))  # noqa: E731
    wide = lambda rng, shape: np.exp2(rng.uniform(-1074, 1023, shape))  # noqa: E731
    much = lambda rng, shape: rng.choice([-1, 1], shape) * np.exp2(rng.uniform(0, 60, shape))  # noqa: E731
    small = lambda rng, shape: rng.uniform(-1.2, 1.2, shape)  # noqa: E731
    positive = lambda rng, shape: rng.exponential(1, shape)  # noqa: E731
    normal = FAMILIES["normal"]
    three = lambda rng, shape: np.full(shape, 3.0)  # noqa: E731
    draws = (
        (either, either),
        (either, whole),
        (either, three),
        (normal, three),
        (normal, whole),
        (wide, small),
        (near_1, much),
        (positive, normal),
    )

    def size(a, b):
        with np.errstate(all="ignore"):
            return np.maximum(np.nan_to_num(np.abs(np.power(a, b))), LEAST)

    for first, second in draws:
        for shapes in (((5, 1100), (5, 1100)), ((700,), (1,))):
            # In units of 2 u: 0.7 ulp are 1.4 u, a cube's roundings 2 u, and NumPy's power is within 2 u.
            found = check_op(
                engine, Eltwise("pow"), *shapes, dtype=DType.F64, draw={0: first, 1: second}, ulps=2.0, scale=size,
                families=("normal",), only=["eltwise.elements"],
            )  # fmt: skip
            assert "eltwise.elements" in found


def test_rounding_and_clipping_doubles_is_exact(engine):
    for name in ("relu", "clip", "floor", "ceil", "round", "sign"):
        check_op(
            engine, Activation(name, -0.5, 0.75), (3, 701), dtype=DType.F64, families=DOUBLES,
            only=["activation.elements"],
        )  # fmt: skip


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_functions_of_integers_are_exact_up_to_their_limits(engine, dtype):
    limits = np.iinfo(dtype.numpy)
    draw = {0: lambda rng, shape: rng.integers(limits.min, limits.max, shape, dtype.numpy, endpoint=True)}
    low, high = int(limits.min) // 3, int(limits.max) // 3
    for primitive in (
        *(Activation(name) for name in ("relu", "sign", "floor", "ceil", "abs", "neg")),
        Activation("clip", low, high),
        Activation("clip", -np.inf, 5),
        Activation("clip", 5, 2),
    ):
        check_op(
            engine, primitive, (3, 701), dtype=dtype, draw=draw, families=("normal",), only=["activation.elements"]
        )


@pytest.mark.parametrize("dtype", [*INTEGERS, DType.U64], ids=str)
def test_shifts_by_all_bits_or_less_than_none_leave_the_sign(engine, dtype):
    limits, bits = np.iinfo(dtype.numpy), 8 * dtype.itemsize
    draw = {
        0: lambda rng, shape: rng.integers(limits.min, limits.max, shape, dtype.numpy, endpoint=True),
        1: lambda rng, shape: rng.integers(-3 if limits.min else 0, bits + 40, shape).astype(dtype.numpy),
    }
    for name in ("shift_left", "shift_right"):
        check_op(
            engine, Eltwise(name), (5, 701), (701,), dtype=dtype, draw=draw, families=("normal",),
            only=["eltwise.elements"],
        )  # fmt: skip


def test_quotients_and_remainders_of_any_integers_are_right(engine):
    for dtype in (DType.I64, DType.I32, DType.U32, DType.I16, DType.U8):
        limits = np.iinfo(dtype.numpy)
        few = [-7, -3, -2, -1] if limits.min else []
        edges = np.array([limits.min, limits.min + 1, limits.max - 1, limits.max, 0, 1, 2, 3, 7, *few], dtype.numpy)

        def drawn(rng, shape, edges=edges, limits=limits):
            wide = rng.integers(limits.min, limits.max, shape, edges.dtype, endpoint=True)
            return np.where(rng.random(shape) < 0.5, rng.choice(edges, shape), wide >> rng.integers(0, 7, shape))

        for name in ("div", "mod", "fmod"):
            check_op(
                engine, Eltwise(name), (3, 701), (3, 701), dtype=dtype, draw={0: drawn, 1: drawn},
                families=("normal",), only=["eltwise.elements"],
            )  # fmt: skip


@pytest.mark.parametrize("most", [2**52 - 1, 2**52 + 1, 2**62])
def test_quotients_of_longs_that_doubles_hold_are_those_of_others(engine, most):
    edges = np.array([-most, 1 - most, most, most - 1, 0, 1, -1, 2, 3, -3, 2**31, 2**26 + 1])

    def drawn(rng, shape):
        wide = rng.integers(-most, most, shape) >> rng.integers(0, 52, shape)
        return np.where(rng.random(shape) < 0.5, rng.choice(edges, shape), wide)

    def close(rng, shape):
        divisor = np.maximum(1, rng.integers(1, 1 << 26, shape))
        return divisor * rng.integers(-(1 << 25), 1 << 25, shape) + rng.integers(-1, 2, shape)

    for name in ("div", "mod", "fmod"):
        for first, second in ((drawn, drawn), (close, lambda rng, shape: rng.integers(1, 1 << 26, shape))):
            found = check_op(
                engine, Eltwise(name), (3, 701), (3, 701), dtype=DType.I64, draw={0: first, 1: second},
                families=("normal",), only=["eltwise.elements"],
            )  # fmt: skip
            assert found == {"eltwise.elements": 0.0}


def test_integers_with_one_scale_are_widened_with_one_rounding(engine):
    scale = {1: lambda rng, shape: rng.uniform(0.01, 1, shape)}
    for dtype in (DType.U8, DType.I8, DType.U16, DType.I16):
        limits = np.iinfo(dtype.numpy)

        def drawn(rng, shape, limits=limits):
            return rng.integers(limits.min, limits.max, shape, limits.dtype, endpoint=True)

        for axis, *shapes in (0, (3, 701), (1,)), (0, (3, 701), (), ()), (1, (2, 3, 701), (3,), (3,)):
            check_op(
                engine, Dequantize(axis), *shapes, dtype=(dtype, DType.F32, dtype)[: len(shapes)],
                draw={0: drawn, 2: drawn} | scale, families=("normal",), ulps=1, only=["dequantize.elements"],
            )  # fmt: skip


def test_floats_become_integers_as_their_quotients_are_rounded(engine):
    types = [(DType.F32, dtype) for dtype in (DType.U8, DType.I8, DType.U16, DType.I16)]
    for source, dtype in (*types, (DType.F16, DType.I8), (DType.BF16, DType.U16)):
        limits = np.iinfo(dtype.numpy)

        def floats(rng, shape, limits=limits):
            quarters = rng.integers(5 * limits.min - 9, 5 * limits.max + 9, shape) / 4
            odd = rng.choice([np.nan, np.inf, -np.inf, 1e30, -1e30, 0.0], shape)
            return np.where(rng.random(shape) < 0.1, odd, quarters)

        def zeros(rng, shape, limits=limits):
            return rng.integers(limits.min, limits.max, shape, limits.dtype, endpoint=True)

        draw = {0: floats, 1: lambda rng, shape: rng.choice([0.5, 1.0, 2.0], shape), 2: zeros}
        for axis, *shapes in (0, (3, 701), (1,)), (0, (3, 701), (), ()), (1, (2, 3, 701), (3,), (3,)):
            check_op(
                engine, Quantize(axis, dtype=dtype), *shapes, dtype=(source, source, dtype)[: len(shapes)],
                draw=draw, families=("normal",), only=["quantize.elements"],
            )  # fmt: skip
