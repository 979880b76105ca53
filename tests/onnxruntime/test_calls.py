"""Every call of calls.txt comes out with clgraph as with ONNX Runtime: the same value, or an exception caught alike."""

from __future__ import annotations

import functools
import pathlib
import warnings
from enum import Enum
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.capi import onnxruntime_inference_collection, onnxruntime_pybind11_state

import clgraph.onnxruntime as ours
from clgraph.onnxruntime.capi import onnxruntime_inference_collection as our_collection
from clgraph.onnxruntime.capi import onnxruntime_pybind11_state as our_state
from tests.support.ort_models import identity, model_of, two_inputs

CALLS = pathlib.Path(__file__).with_name("calls.txt").read_text(encoding="utf-8").splitlines()
KINDS = [line.removeprefix("# ") for line in CALLS[2:] if line.startswith("#")]
THEIRS = (onnxruntime, onnxruntime_pybind11_state, onnxruntime_inference_collection)
OWN = (ours, our_state, our_collection)
NAMES: dict[str, Any] = {"np": np, "onnx": onnx, "helper": helper, "T": TensorProto, "ml_dtypes": ml_dtypes}
NAMES |= {"pathlib": pathlib, "identity": identity, "two_inputs": two_inputs, "model_of": model_of}
NAMES |= {"numpy_helper": numpy_helper, "value": helper.make_tensor_value_info}
NAMES |= {"weight": functools.partial(helper.make_tensor, "w", TensorProto.FLOAT)}


def added(w: onnx.TensorProto) -> onnx.ModelProto:
    """Return ``y = x + w``, where *x* has rows of three."""
    x, y = helper.make_tensor_value_info("x", 1, ["n", 3]), helper.make_tensor_value_info("y", 1, None)
    return model_of(helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [x], [y], [w]))


def beside(**where: str) -> onnx.TensorProto:
    """Return three numbers that lie beside the model."""
    entries = [onnx.StringStringEntryProto(key=key, value=text) for key, text in where.items()]
    external = onnx.TensorProto.EXTERNAL
    return onnx.TensorProto(name="w", data_type=1, dims=[3], data_location=external, external_data=entries)


NAMES |= {"added": added, "beside": beside}


def calls_of(kind: str) -> list[str]:
    """Return the calls below a heading."""
    begin = CALLS.index(f"# {kind}") + 1
    return CALLS[begin : begin + [*CALLS[begin:], ""].index("")]


def outcome(call: str, modules: tuple[Any, ...]) -> tuple[Any, bool]:
    """Return the value of the last statement, or the names of its exception's classes; and whether it has warned."""
    ort, state, collection = modules
    x = np.arange(6, dtype=np.float32).reshape(2, 3)

    def session(source: Any = None, options: Any = None, **further: Any) -> Any:
        source = identity() if source is None else source
        source = source.SerializeToString() if isinstance(source, onnx.ModelProto) else source
        return ort.InferenceSession(source, options, **{"providers": ["CPUExecutionProvider"], **further})

    names: dict[str, Any] = {
        **NAMES,
        "ort": ort,
        "state": state,
        "collection": collection,
        "session": session,
        "X": x,
        "model": lambda: onnx.ModelProto.FromString(identity()),
        "held": lambda: ort.OrtValue.ortvalue_from_numpy(x),
    }
    *before, last = call.split("; ")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            exec("\n".join(before), names)
            try:
                made = described(eval(last, names))
            except SyntaxError:
                made = exec(last, names)
        except Exception as error:
            return {kind.__name__ for kind in type(error).__mro__} - {"Exception", "BaseException", "object"}, False
    return made, bool(warned)


def described(value: Any) -> Any:
    """Return what can be compared of a value of either."""
    match value:
        case np.ndarray() | np.generic():
            return value.tolist(), value.dtype, value.shape
        case list() | tuple():
            return type(value), [described(item) for item in value]
        case dict():
            return {name: described(item) for name, item in value.items()}
        case onnxruntime.OrtValue() | ours.OrtValue():
            return described(value.numpy())
    if isinstance(value, None | bool | int | float | str) and not isinstance(value, Enum):
        return value
    return type(value).__name__, str(value).partition(" at 0x")[0].rpartition(".")[2]


@pytest.mark.parametrize("kind", KINDS)
def test_calls_come_out_as_with_onnxruntime(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLGRAPH_DEVICE", "host")
    different = []
    for call in calls_of(kind):
        (theirs, warned), (own, we_warned) = outcome(call, THEIRS), outcome(call, OWN)
        caught = isinstance(theirs, set) and isinstance(own, set) and (theirs & own or not theirs)
        if not caught and (own, we_warned) != (theirs, warned):
            different.append(f"{call}\n    {own}, with ONNX Runtime {theirs}")
    assert not different, "\n".join(different)
