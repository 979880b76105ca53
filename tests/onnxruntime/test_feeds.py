"""Feeds: clgraph takes what onnxruntime takes, with the same results, and refuses the rest with its exceptions."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto

import clgraph.onnxruntime as ours
from tests.support.ort_models import identity

X = np.arange(6, dtype=np.float32).reshape(2, 3)

CALLS: dict[str, tuple[Any, Any]] = {
    "an array": (None, {"x": X}),
    "a list": (None, {"x": [[1, 2, 3]]}),
    "a list of doubles": (None, {"x": [[1.5, 2, 3]]}),
    "a list of texts": (None, {"x": [["a", "b", "c"]]}),
    "a view": (None, {"x": np.asfortranarray(X)}),
    "another type": (None, {"x": X.astype(np.float64)}),
    "whole numbers": (None, {"x": X.astype(np.int32)}),
    "another rank": (None, {"x": X[0]}),
    "another size": (None, {"x": X[:, :2]}),
    "a text": (None, {"x": "a"}),
    "bytes": (None, {"x": b"a"}),
    "nothing": (None, {}),
    "an unknown name": (None, {"x": X, "z": X}),
    "no dictionary": (None, [X]),
    "all outputs": ([], {"x": X}),
    "an output twice": (["y", "y"], {"x": X}),
    "outputs in a tuple": (("y",), {"x": X}),
    "an unknown output": (["z"], {"x": X}),
    "a text of outputs": ("y", {"x": X}),
}


def outcome(session: Any, outputs: Any, feeds: Any) -> Any:
    """Return the results, or the names of the classes of the exception that a program could catch."""
    try:
        return [np.asarray(result).tolist() for result in session.run(outputs, feeds)]
    except Exception as error:
        return {kind.__name__ for kind in type(error).__mro__}


@pytest.fixture(scope="module")
def sessions() -> tuple[Any, Any]:
    provider = [("ClgraphExecutionProvider", {"device": "host"})]
    return (
        onnxruntime.InferenceSession(identity(), providers=["CPUExecutionProvider"]),
        ours.InferenceSession(identity(), providers=provider),
    )


@pytest.mark.parametrize("what", CALLS)
def test_a_call_comes_out_as_with_onnxruntime(sessions: tuple[Any, Any], what: str) -> None:
    theirs, own = (outcome(session, *CALLS[what]) for session in sessions)
    if what == "no dictionary":  # theirs is whatever a list does not have
        theirs = {"TypeError"}
    if isinstance(theirs, set):
        assert theirs & own - {"Exception", "BaseException", "object"}, own
    else:
        assert own == theirs


def test_words_that_programs_look_for_are_in_the_messages(sessions: tuple[Any, Any]) -> None:
    for feeds, words in (
        ({}, r"Required inputs \(\['x'\]\) are missing"),
        ({"x": X[0]}, "INVALID_ARGUMENT : Invalid rank for input: x Got: 1 Expected: 2"),
        ({"x": X[:, :2]}, "Got invalid dimensions for input: x"),
        ({"x": X > 0}, r"Unexpected input data type. Actual: \(tensor\(bool\)\) , expected: \(tensor\(float\)\)"),
    ):
        for session in sessions:
            with pytest.raises(Exception, match=words):
                session.run(None, feeds)


def test_lists_and_numbers_take_the_type_of_the_input() -> None:
    for elem, dtype in (
        (TensorProto.INT64, np.int64),
        (TensorProto.BOOL, np.bool_),
        (TensorProto.FLOAT16, np.float16),
        (TensorProto.UINT8, np.uint8),
    ):
        session = ours.InferenceSession(
            identity(elem, ()), providers=[("ClgraphExecutionProvider", {"device": "host"})]
        )
        for given in (1, 1.5, True, [1.5], np.array([1], dtype)):
            (found,) = session.run(None, {"x": given})
            assert found.dtype == dtype
            assert found.shape == np.shape(given)
            assert found.item() == np.asarray(given, dtype).item()


def test_what_is_declared_a_scalar_keeps_the_axes_that_it_is_fed_with() -> None:
    source = identity(TensorProto.FLOAT, ())
    theirs = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
    own = ours.InferenceSession(source, providers=[("ClgraphExecutionProvider", {"device": "host"})])
    for shape in ((), (1,), (2, 1), (), (0,), (3,)):
        fed = {"x": np.full(shape, 2.5, np.float32)}
        (found,), (wanted,) = own.run(None, fed), theirs.run(None, fed)
        assert found.shape == wanted.shape == shape
        np.testing.assert_array_equal(found, wanted)


def test_values_of_both_kinds_are_taken_and_returned(sessions: tuple[Any, Any]) -> None:
    session = sessions[1]
    value = ours.OrtValue.ortvalue_from_numpy(X)
    np.testing.assert_array_equal(session.run(None, {"x": value})[0], X)
    (result,) = session.run_with_ort_values(None, {"x": value})
    np.testing.assert_array_equal(result.numpy(), X)
    assert (result.data_type(), result.shape(), result.device_name()) == ("tensor(float)", [2, 3], "cpu")


@pytest.mark.parametrize(
    "fed", [X.astype(np.float64), X[0], X[:, :2], None, {"a": 1}, 5, range(3), "a", X.astype("c8")]
)
def test_refusals_name_the_input(fed: Any) -> None:
    session = ours.InferenceSession(identity(), providers=[("ClgraphExecutionProvider", {"device": "host"})])
    with pytest.raises(Exception, match=r"input: x|input 'x'"):
        session.run(None, {"x": fed})
