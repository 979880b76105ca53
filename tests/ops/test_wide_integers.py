"""Integers that doubles do not hold: every operator that takes 64 bits, on the device and folded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import clgraph
from tests.support.onnx_case import ONNX_TYPES, one_node

I64, I32, U64, U32 = (np.dtype(name) for name in ("int64", "int32", "uint64", "uint32"))
TYPES = [I64, U64, I32, U32]
BEYOND = 2**53
"""From here on not every integer is a double."""
Case = tuple[list[Any], dict[str, Any]]
Cases = Callable[[np.dtype[Any]], Iterator[Case]]


def numbers(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return the ends of *dtype*, where floats end, and small ones."""
    limits = np.iinfo(dtype)
    near = [0, 1, 2, 3, 2**24 + 1, 2**31 - 1, 2**31 + 1, BEYOND - 1, BEYOND + 1, 2**62 + 1, 2**63 + 1, limits.max]
    every = {s * n for n in [*near, limits.max - 1] for s in (1, -1)} | {int(limits.min), int(limits.min) + 1}
    return np.array(sorted(n for n in every if limits.min <= n <= limits.max), dtype)


def whole(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


def pairs(dtype: np.dtype[Any]) -> Iterator[Case]:
    v = numbers(dtype)
    yield [np.repeat(v, len(v)), np.tile(v, len(v))], {}


def remainders(dtype: np.dtype[Any]) -> Iterator[Case]:
    for inputs, _ in pairs(dtype):
        yield inputs, {}
        yield inputs, {"fmod": 1}


def one(dtype: np.dtype[Any]) -> Iterator[Case]:
    yield [numbers(dtype)], {}


def rows(dtype: np.dtype[Any]) -> Iterator[Case]:
    v = numbers(dtype)
    for axis in (0, 1):
        yield [np.stack([v, v[::-1]]), whole(axis)], {"constant": (1,)}


def running(dtype: np.dtype[Any]) -> Iterator[Case]:
    for (x, axis), _ in rows(dtype):
        yield [x, axis.reshape(())], {"constant": (1,), "opset": 14}


def clips(dtype: np.dtype[Any]) -> Iterator[Case]:
    limits, v = np.iinfo(dtype), numbers(dtype)
    low, high = np.array(v[len(v) // 2] + 1, dtype), np.array(limits.max - 1, dtype)
    for bounds in ([], [low], [None, high], [low, high], [np.array(limits.min, dtype), np.array(limits.max, dtype)]):
        yield [v, *bounds], {"constant": tuple(range(1, 1 + len(bounds)))}
        yield [v, *bounds], {}


def several(dtype: np.dtype[Any]) -> Iterator[Case]:
    v = numbers(dtype)
    yield [v, v[::-1].copy(), np.roll(v, 3)], {}


def extremes(dtype: np.dtype[Any]) -> Iterator[Case]:
    v = numbers(dtype)
    for last in (0, 1):
        yield [np.stack([v, v[::-1], np.sort(v)])], {"axis": 1, "select_last_index": last}


def best(dtype: np.dtype[Any]) -> Iterator[Case]:
    v = numbers(dtype)
    for largest in (0, 1):
        yield [np.stack([v, v[::-1]]), whole(3)], {"constant": (1,), "outputs": 2, "largest": largest}


def fills(dtype: np.dtype[Any]) -> Iterator[int]:
    limits = np.iinfo(dtype)
    yield from (int(limits.max), int(limits.max) - 1, int(limits.min), min(int(limits.max), BEYOND + 1))


def padded(dtype: np.dtype[Any]) -> Iterator[Case]:
    for fill in fills(dtype):
        yield [numbers(dtype), whole(1, 2), np.array(fill, dtype)], {"constant": (1, 2)}


def filled(dtype: np.dtype[Any]) -> Iterator[Case]:
    for fill in fills(dtype):
        yield [whole(3)], {"constant": (0,), "value": numpy_helper.from_array(np.array([fill], dtype))}


def chosen(dtype: np.dtype[Any]) -> Iterator[Case]:
    v = numbers(dtype)
    yield [np.resize([True, False, True], v.shape), v, v[::-1].copy()], {}


def triangles(dtype: np.dtype[Any]) -> Iterator[Case]:
    for upper in (0, 1):
        yield [np.resize(numbers(dtype), (4, 5))], {"upper": upper}


def scattered(places: np.ndarray[Any, Any]) -> Cases:
    def cases(dtype: np.dtype[Any]) -> Iterator[Case]:
        for reduction in ("none", "add", "mul", "max", "min"):
            yield [numbers(dtype), places, np.array([*fills(dtype)], dtype)], {"reduction": reduction}

    return cases


def products(dtype: np.dtype[Any]) -> Iterator[Case]:
    v = numbers(dtype)
    yield [np.resize(v, (3, 5)), np.resize(v[::-1], (5, 4))], {}


def summed(dtype: np.dtype[Any]) -> Iterator[Case]:
    for inputs, _ in products(dtype):
        yield inputs, {"equation": "ij,jk->ik"}


def shifted(dtype: np.dtype[Any]) -> Iterator[Case]:
    if dtype.kind == "u":
        for direction in ("LEFT", "RIGHT"):
            v = numbers(dtype)
            yield [v, np.resize(np.array([0, 1, 31, 8 * dtype.itemsize - 1], dtype), v.shape)], {"direction": direction}


def signed(cases: Cases) -> Cases:
    return lambda dtype: cases(dtype) if dtype.kind == "i" else iter(())


def cast(dtype: np.dtype[Any]) -> Iterator[Case]:
    for to in (*TYPES, np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int8), np.dtype(bool)):
        yield [numbers(dtype)], {"to": ONNX_TYPES[to]}


def at(places: np.ndarray[Any, Any]) -> Cases:
    return lambda dtype: iter([([numbers(dtype), places], {})])


OPERATORS: dict[str, Cases] = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "BitwiseAnd", "BitwiseOr", "BitwiseXor"), pairs),
    **dict.fromkeys(("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"), pairs),
    **dict.fromkeys(("Abs", "Sign", "BitwiseNot", "Identity", "NonZero", "Unique"), one),
    **dict.fromkeys(("Neg", "Relu"), signed(one)),
    **dict.fromkeys(("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1"), rows),
    **dict.fromkeys(("Max", "Min"), several),
    **dict.fromkeys(("ArgMax", "ArgMin"), extremes),
    **dict.fromkeys(("Gather", "GatherElements"), at(whole(1, -1, 3))),
    "BitShift": shifted,
    "Cast": cast,
    "Clip": clips,
    "ConstantOfShape": filled,
    "CumSum": running,
    "Einsum": summed,
    "GatherND": at(whole(1, -1, 3).reshape(3, 1)),
    "MatMul": products,
    "Mod": remainders,
    "Pad": padded,
    "ScatterElements": scattered(whole(0, 2, 2, 5)),
    "ScatterND": scattered(whole(0, 2, 2, 5).reshape(4, 1)),
    "TopK": best,
    "Trilu": triangles,
    "Where": chosen,
}
"""How each is asked; ONNX's reference computes all of these in their own type, and wraps around."""


def both(
    op_type: str, inputs: list[Any], opset: int = 21, constant: tuple[int, ...] = (), **more: Any
) -> Iterator[Any]:
    """Return the model and what clgraph computes of it: on the device, then with every input known when it compiles."""
    for known in (constant, tuple(range(len(inputs)))):
        model, feeds = one_node(op_type, inputs, opset=opset, constant=known, **more)
        yield model, feeds, [*clgraph.compile(model).run(feeds).values()]


@pytest.mark.opencl
@pytest.mark.parametrize(
    ("op_type", "dtype"),
    [(op, dtype) for op, cases in OPERATORS.items() for dtype in TYPES if next(cases(dtype), None)],
)
def test_every_operator_of_wide_integers_is_exact(op_type, dtype):
    for inputs, more in OPERATORS[op_type](dtype):
        for model, feeds, got in both(op_type, inputs, **more):
            with np.errstate(all="ignore"):
                want = ReferenceEvaluator(model).run(None, feeds)
            for mine, theirs in zip(got, want, strict=True):
                assert mine.dtype == theirs.dtype
                np.testing.assert_array_equal(mine, theirs, err_msg=f"{op_type} {more}")


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", [I64, I32], ids=str)
def test_powers_of_integers_wrap_around(dtype):
    base, exponent = (np.ravel(a) for a in np.meshgrid(numbers(dtype), np.array([0, 1, 2, 3, 63, -1, -2], dtype)))
    bits = 8 * dtype.itemsize

    def power(a: int, b: int) -> int:
        if b < 0:
            return a**-b if a in (1, -1) else 0
        return (pow(a, b, 1 << bits) + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)

    want = np.array([power(int(a), int(b)) for a, b in zip(base, exponent, strict=True)], dtype)
    for _, _, got in both("Pow", [base, exponent]):
        np.testing.assert_array_equal(got[0], want)


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_means_of_integers_are_the_exact_quotient_towards_zero(dtype):
    x = np.stack([numbers(dtype), numbers(dtype)[::-1]])
    for axis, lines in ((0, x.T), (1, x)):
        sums = [sum(map(int, line)) for line in lines]
        want = [(1 if s > 0 else -1) * (abs(s) // lines.shape[1]) for s in sums]
        for _, _, got in both("ReduceMean", [x, whole(axis)], constant=(1,), keepdims=0):
            assert got[0].tolist() == want


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", [I64, I32], ids=str)
def test_a_product_scaled_by_whole_numbers_stays_exact(dtype):
    a, b = np.resize(numbers(dtype), (3, 5)), np.resize(numbers(dtype)[::-1], (5, 4))
    bias = np.resize(numbers(dtype), (4,))
    with np.errstate(all="ignore"):
        want = np.array(2, dtype) * (a @ b) + np.array(3, dtype) * bias
    for _, _, got in both("Gemm", [a, b, bias], alpha=2.0, beta=3.0):
        np.testing.assert_array_equal(got[0], want)


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", [I64, I32], ids=str)
def test_a_range_counts_in_integers_of_any_size(dtype):
    least, most = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    for ends in ((most - 5, most, 1), (least, most, most // 2), (least + 7, least, -2), (0, most, most - 1), (3, 3, 1)):
        inputs = [np.array(n, dtype) for n in ends]
        for _, _, (got,) in both("Range", inputs, constant=(0, 1, 2)):
            assert got.tolist() == list(range(*ends))


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_one_hot_holds_any_two_values(dtype):
    for value in fills(dtype):
        values = np.array([value, np.iinfo(dtype).max - 1], dtype)
        want = values[(np.arange(4) == np.array([[0], [2], [1], [3], [9]])).astype(int)]
        for _, _, (got,) in both("OneHot", [whole(0, 2, 1, -1, 7), whole(4), values], constant=(1,)):
            np.testing.assert_array_equal(got, want)


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_a_chain_of_operators_with_scalar_constants_is_exact(dtype):
    most = int(np.iinfo(dtype).max)
    odd = min(most, BEYOND) // 3 * 2 + 1
    scalars = {"three": 3, "odd": odd, "most": most - 1, "zero": 0}
    steps = [
        ("Add", "three"),
        ("Max", "odd"),
        ("Mul", "three"),
        ("Min", "most"),
        ("Sub", "odd"),
        ("Clip", "odd", "most"),
    ]
    steps += [("Div", "three"), ("Max", "zero"), ("Mod", "odd")]
    names = ["x", *(f"v{i}" for i in range(len(steps)))]
    nodes = [helper.make_node(op, [names[i], *rest], [names[i + 1]]) for i, (op, *rest) in enumerate(steps)]
    kind = ONNX_TYPES[dtype]
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", kind, ["n"])],
        [helper.make_tensor_value_info(names[-1], kind, None)],
        [numpy_helper.from_array(np.array(v, dtype), n) for n, v in scalars.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    feeds = {"x": numbers(dtype)}
    with np.errstate(all="ignore"):
        (want,) = ReferenceEvaluator(model).run(None, feeds)
    np.testing.assert_array_equal(clgraph.compile(model).run(feeds)[names[-1]], want)
