from __future__ import annotations

import json
import math

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.format import Format, feature_blocked
from clgraph.core.layout import Layout
from clgraph.errors import ModelError, UnsupportedError
from clgraph.graph.node import Fused
from clgraph.graph.primitive import PRIMITIVES, primitive_of
from clgraph.graph.serial import decode, encode
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.quantized_sum import QuantizedSum
from clgraph.ops.reorder import Reorder
from clgraph.ops.static_quantize import DequantizeAdd

VALUES = [
    None,
    True,
    -(1 << 62),
    1.0,
    0.1,
    1e-300,
    math.inf,
    -math.inf,
    "naïve \x00 text",
    (),
    (1, 1.0, (True, None, ("a",))),
    frozenset({3, 1}),
    DType.BOOL,
    Format((0, 2, 1), ((1, 16), (0, 4))),
    Layout(DType.F16, ()),
    Layout(DType.F32, (1, 20, 4, 5), feature_blocked(4), ((0, 0), (0, 0), (1, 2), (0, 3)), (640, 320, 80, 16)),
    Activation("clip", -math.inf, 6.0),
    Reorder(DType.F32, feature_blocked(4), ((0, 0), (0, 0), (1, 1), (1, 1))),
    DequantizeAdd(0.5, 3, QuantizedSum((0.25, 0.5, 1.0), (7, 3, 9)), swapped=True),
    (Fused(Eltwise("sub"), (2,), 1), Fused(Activation("relu"), (), 0, "pre")),
]


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_a_value_comes_back_equal_and_of_its_type(value: object) -> None:
    found = decode(json.loads(json.dumps(encode(value), allow_nan=False)), primitive_of)
    assert found == value
    assert type(found) is type(value)
    assert repr(found) == repr(value)


def test_nan_and_the_sign_of_zero_come_back() -> None:
    assert math.isnan(decode(json.loads(json.dumps(encode(math.nan))), primitive_of))
    assert math.copysign(1, decode(json.loads(json.dumps(encode(-0.0))), primitive_of)) == -1


def test_numbers_of_numpy_become_python_s() -> None:
    assert encode((np.int64(3), np.float32(0.5), np.bool_(True))) == ["t", 3, 0.5, True]


def test_what_is_not_listed_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match="object"):
        encode((1, object()))


@pytest.mark.parametrize(
    "data",
    [
        ["?"],
        [],
        ["l", "f33", [1], None, [], []],
        ["d"],
        ["p"],
        ["p", "activation", ["wings", 2]],
        [[]],
        ["o", [5], []],
        {},
    ],
    ids=str,
)
def test_what_encode_never_makes_is_one_model_error(data: object) -> None:
    with pytest.raises(ModelError):
        decode(data, primitive_of)


def test_a_kind_that_nobody_knows_is_named() -> None:
    with pytest.raises(UnsupportedError, match="'warp_drive'"):
        decode(["p", "warp_drive"], primitive_of)


def test_every_operator_is_found_by_its_kind() -> None:
    assert [primitive_of(kind) for kind in PRIMITIVES] == PRIMITIVES.values()
