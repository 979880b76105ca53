"""Orders of axes, and every operator that says how it computes on tensors held in another one."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.graph.permute import between, compose, held, identity, inverse, moves_data, without
from clgraph.graph.primitive import PRIMITIVES, Primitive
from clgraph.ops.activation import Activation
from clgraph.ops.arg import ArgExtremum
from clgraph.ops.concat import Concat
from clgraph.ops.cumulative_sum import CumulativeSum
from clgraph.ops.dequantize import Dequantize
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.expand import Expand, Repeat
from clgraph.ops.gather import Gather
from clgraph.ops.is_special import IsSpecial
from clgraph.ops.pad import Pad
from clgraph.ops.quantize import Quantize
from clgraph.ops.quantized_pair import QuantizedPair
from clgraph.ops.quantized_product import QuantizedProduct
from clgraph.ops.quantized_sum import QuantizedSum
from clgraph.ops.reduce import Reduce
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.ops.resize import Resize
from clgraph.ops.rotation import Rotation
from clgraph.ops.slice import Slice
from clgraph.ops.softmax import Softmax
from clgraph.ops.split import Split
from clgraph.ops.where import Where

X = (2, 3, 4, 5)
RANDOM = np.random.default_rng(5)


def _floats(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


CASES: list[tuple[Primitive, list[np.ndarray]]] = [
    (Activation("sigmoid"), [_floats(*X)]),
    (Eltwise("sub"), [_floats(*X), _floats(*X)]),
    (Eltwise("sub"), [_floats(*X), _floats(5)]),
    (Eltwise("div"), [_floats(3, 1, 5), _floats(*X)]),
    (Eltwise("mul"), [_floats(*X), _floats()]),
    (Where(), [RANDOM.random((4, 1)) < 0.5, _floats(*X), _floats(2, 1, 1, 1)]),
    (Reorder(DType.F16), [_floats(*X)]),
    (Concat(3), [_floats(*X), _floats(2, 3, 4, 2)]),
    (Slice((0, 2, 1, 4), (2, -4, 4, 0), (1, -1, 2, -2)), [_floats(*X)]),
    (Split(2, (1, 3)), [_floats(*X)]),
    (Pad(((0, 0), (1, 0), (0, 2), (1, 1)), "reflect"), [_floats(*X)]),
    (Resize("linear", shape=(2, 3, 8, 3), scales=(1.0, 1.0, 2.0, 0.6)), [_floats(*X)]),
    (Reduce("sum", (1, 3)), [_floats(*X)]),
    (Reduce("max", (0, 2), keepdims=False), [_floats(*X)]),
    (Softmax((1, 3)), [_floats(*X)]),
    (ArgExtremum(3), [_floats(*X)]),
    (ArgExtremum(1, keepdims=False), [_floats(*X)]),
    (Expand((2, 3, 4, 5)), [_floats(2, 1, 4, 1)]),
    (Repeat((1, 2, 3, 1)), [_floats(*X)]),
    (CumulativeSum(2), [_floats(*X)]),
    (IsSpecial(positive=True), [np.where(_floats(*X) > 1, np.float32(np.inf), _floats(*X))]),
    (Gather(2), [_floats(*X), np.array([3, 0, -1])]),
    (Gather(1), [_floats(*X), np.array(2)]),
    (Reshape((2, 1, 12, 1)), [_floats(2, 12, 1, 1)]),
    (Reshape((1, 2, 1, 3, 4, 1)), [_floats(2, 3, 1, 4)]),
    (Reshape((4,)), [_floats(1, 1, 4, 1)]),
    (Quantize(1), [_floats(*X), np.array([0.1, 0.2, 0.3], np.float32), np.array([3, 4, 5], np.uint8)]),
    (QuantizedSum((0.1, 0.2, 0.3), (3, 4, 5)), [_floats(*X), _floats(4, 5)]),
    (QuantizedProduct((0.1, 0.2, 0.3), (3, 4, 5)), [_floats(*X), _floats(4, 5)]),
    (QuantizedPair("mul", (0.1, 0.2, 0.3), (3, 4, 5)), [_floats(*X).astype(np.int8), _floats(4, 5).astype(np.int8)]),
    (Rotation(), [_floats(*X), _floats(2, 1, 4, 2), _floats(2, 1, 4, 2)]),
    (Dequantize(3), [RANDOM.integers(0, 9, X).astype(np.int8), np.array([1, 2, 3, 4, 5], np.float32)]),
]

KEEP_THE_LAST = (Rotation,)
"""Operators on rows of the last axis, which stays the last."""


def _hold(array: np.ndarray, order: tuple[int, ...] | None) -> np.ndarray:
    if order is None:
        return array
    wide = array.reshape((1,) * (len(order) - array.ndim) + array.shape)
    return np.ascontiguousarray(wide.transpose(inverse(order)))


@pytest.mark.parametrize(("primitive", "inputs"), CASES, ids=lambda v: str(v) if isinstance(v, Primitive) else "")
def test_on_tensors_held_in_any_order_the_same_results_come_out_held_as_said(primitive, inputs) -> None:
    layouts = [Layout.of(np.asarray(a)) for a in inputs]
    wanted = primitive.reference(*map(np.asarray, inputs))
    for order in permutations(range(max(a.ndim for a in inputs))):
        option = primitive.permuted(order, layouts)
        if option is None and isinstance(primitive, KEEP_THE_LAST) and order[-1] != len(order) - 1:
            continue
        assert option is not None
        arrays = [_hold(np.asarray(a), o) for a, o in zip(inputs, option.inputs, strict=True)]
        made = option.primitive.infer([Layout.of(a) for a in arrays])
        for got, layout, want, axes in zip(
            option.primitive.reference(*arrays), made, wanted, option.outputs, strict=True
        ):
            assert got.shape == layout.shape
            # Sums may be added up in another order: of at most 20 terms of about one.
            np.testing.assert_allclose(got.transpose(axes), want, rtol=0, atol=20 * 2.0**-22)


def test_every_operator_that_can_be_permuted_is_tried_here() -> None:
    said = {p.kind for p in PRIMITIVES.values() if p.permuted is not Primitive.permuted}
    assert said - {p.kind for p, _ in CASES} == set()


def test_a_reshape_that_cuts_an_axis_cannot_be_permuted() -> None:
    assert Reshape((2, 6, 10)).permuted((0, 2, 1, 3), [Layout(DType.F32, X)]) is None


def test_composing_and_inverting_orders() -> None:
    x = _floats(*X)
    for first in permutations(range(4)):
        assert compose(first, inverse(first)) == identity(4)
        for then in ((1, 0, 3, 2), (3, 1, 0, 2)):
            np.testing.assert_array_equal(x.transpose(first).transpose(then), x.transpose(compose(first, then)))
            h, g = x.transpose(inverse(first)), x.transpose(inverse(then))
            assert h.shape == held(x.shape, first)
            np.testing.assert_array_equal(h.transpose(between(first, then)), g)


def test_what_is_left_of_an_order_without_some_axes() -> None:
    assert without((0, 2, 3, 1), (1, 2)) == (0, 1)
    assert without((3, 0, 1, 2), (1,)) == (2, 0, 1)


@pytest.mark.parametrize(("axes", "moves"), [((0, 1, 2, 3), False), ((0, 2, 1, 3), False), ((3, 0, 1, 2), True)])
def test_only_axes_with_elements_beside_each_other_are_moved(axes, moves) -> None:
    assert moves_data((2, 1, 4, 5), axes) is moves
    assert not moves_data((2, 0, 4, 5), axes)
