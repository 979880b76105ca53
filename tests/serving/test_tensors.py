from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clgraph.errors import InputError, UnsupportedError
from clgraph.serving.tensors import (
    BYTES,
    TYPES,
    checked_shape,
    datatype,
    datatype_of,
    from_list,
    from_raw,
    to_list,
    to_raw,
)

TEXTS = np.array(["", "a heron", "größe"], object)


def _array(name: str) -> Any:
    if name == "BOOL":
        return np.array([[True, False, True]])
    if "INT" in name:
        low, high = TYPES[name].bounds
        return np.array([[low, 1, high]], TYPES[name].numpy)
    return np.array([[-1.5, 0, 1.25]], np.float32).astype(TYPES[name].numpy)


@pytest.mark.parametrize("name", TYPES)
def test_a_tensor_of_every_type_comes_back_from_bytes_and_from_lists(name: str) -> None:
    array = _array(name)
    assert datatype(array) == name
    for found in (
        from_raw(to_raw(array), name, (1, 3), "x"),
        from_list(to_list(array), name, (1, 3), "x"),
        from_list([to_list(array)], name, (1, 3), "x"),
    ):
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)


def test_texts_come_back_from_bytes_and_from_lists() -> None:
    assert datatype(TEXTS) == BYTES
    assert from_raw(to_raw(TEXTS), BYTES, (3,), "x").tolist() == TEXTS.tolist()
    assert from_list(to_list(TEXTS), BYTES, (3, 1), "x").tolist() == [[text] for text in TEXTS]
    assert from_list([[b"a"], ["b"]], BYTES, (2,), "x").tolist() == ["a", "b"]


def test_bytes_at_an_odd_address_make_an_array_that_is_aligned() -> None:
    raw = memoryview(b"?" + np.arange(3, dtype=np.float32).tobytes())[1:]
    found = from_raw(raw, "FP32", (3,), "x")
    assert found.flags.aligned
    assert found.tolist() == [0, 1, 2]


def test_any_byte_but_0_is_true() -> None:
    found = from_raw(b"\x00\x01\x02\xff", "BOOL", (4,), "x")
    assert found.view(np.uint8).tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize(
    ("raw", "name", "shape", "text"),
    [
        (b"1234567", "FP32", (2,), "takes 8 bytes: 7 were given"),
        (b"1234", "FP32", (1 << 62, 1 << 62), "were given"),
        (b"", "FP31", (0,), "the datatype of x is 'FP31'; there are BOOL, UINT8"),
        (b"\x05\0\0\0abc", BYTES, (1,), "ends inside of a string"),
        (b"\x05\0", BYTES, (1,), "ends inside of a string"),
        (b"\xff\xff\xff\xff", BYTES, (1,), "ends inside of a string"),
        (b"\x01\0\0\0a", BYTES, (2,), "2 strings are expected, 1 were given"),
        (b"\x01\0\0\0\xff", BYTES, (1,), "string 0 of x is not UTF-8"),
    ],
)
def test_bytes_that_do_not_fit_are_refused(raw: bytes, name: str, shape: tuple[int, ...], text: str) -> None:
    with pytest.raises(InputError, match=text):
        from_raw(raw, name, shape, "x")


@pytest.mark.parametrize(
    ("data", "name", "text"),
    [
        ([1, 2, 3], "FP32", "2 elements are expected, 3 were given"),
        ([[1], [2, 3]], "FP32", "differ in length or depth"),
        ([1, "a"], "FP32", "what is not a number"),
        ([1, None], "FP32", "what is not a number"),
        ([1, {}], "INT8", "what is not a number"),
        ([1, 1 << 70], "INT64", "cannot hold"),
        ([1, 300], "UINT8", "300, which uint8 cannot hold"),
        ([1, -1], "UINT8", "-1, which uint8 cannot hold"),
        ([1, 1.5], "INT32", "1.5, which int32 cannot hold"),
        ([1, 1e6], "FP16", "which float16 cannot hold"),
        ([True, False], "FP32", "true and false"),
        ([1, 0], "BOOL", "others than true and false"),
        ("ab", "FP32", "be a list, not str"),
        ({"a": 1}, "FP32", "be a list, not dict"),
        ([1, 2], BYTES, "where strings are expected"),
        (["a", "\ud800"], BYTES, "not UTF-8"),
        ([1, 2], "", "the datatype of x is ''"),
        ([1, 2], ["FP32"], "the datatype of x is"),
    ],
)
def test_lists_that_do_not_fit_are_refused(data: Any, name: str, text: str) -> None:
    with pytest.raises(InputError, match=text):
        from_list(data, name, (2,), "x")


@pytest.mark.parametrize("shape", [None, "22", 4, [2.0], [-1], [True], ["2"], {"a": 1}])
def test_what_is_no_shape_is_refused(shape: Any) -> None:
    with pytest.raises(InputError, match="the shape of x"):
        checked_shape(shape, "x")


def test_types_that_the_protocol_has_no_name_for_are_refused() -> None:
    assert datatype_of("tensor(bfloat16)", "x") == "BF16"
    for spelled in ("tensor(int4)", "seq(tensor(float))", None):
        with pytest.raises(UnsupportedError, match=r"x is .* no name for"):
            datatype_of(spelled, "x")
