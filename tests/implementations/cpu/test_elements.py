"""Elementwise functions of all element types by runs: broadcast inputs, rows longer than a run, rows of few."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.elements import FUNCTIONS
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.reorder import Reorder
from clgraph.ops.where import Where
from tests.support.check_op import check_op

pytestmark = pytest.mark.opencl

SHAPES = (((2, 3, 1100), (1100,)), ((7, 1), (1, 5)), ((4, 1, 33), (4, 2, 1)), ((1,), (700,)))
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


@pytest.mark.parametrize("source", [DType.BOOL, *INTEGERS, *ROUNDING], ids=str)
def test_conversions_are_numpys(engine, source):
    draw = {} if source.floating else {0: _whole(source, 0, 2 if source == DType.BOOL else 100)}
    for target in (DType.BOOL, *INTEGERS, *ROUNDING):
        if target != source and (source, target) != (DType.F64, DType.F16):
            positive = {0: lambda rng, shape: rng.uniform(0, 100, shape)} if source.floating else draw
            found = check_op(
                engine, Reorder(target), (3, 701), dtype=source, draw=positive, families=("normal",),
                only=["reorder.elements"],
            )  # fmt: skip
            assert "reorder.elements" in found


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
