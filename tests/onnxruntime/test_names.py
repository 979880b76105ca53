"""Every public name of ONNX Runtime's modules and classes is there, and its enumerations have the same members."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import onnxruntime
import pytest
from onnxruntime.capi import onnxruntime_inference_collection, onnxruntime_pybind11_state

import clgraph.onnxruntime as ours
from clgraph.onnxruntime import packages
from clgraph.onnxruntime.capi import onnxruntime_inference_collection as our_collection
from clgraph.onnxruntime.capi import onnxruntime_pybind11_state as our_state
from tests.support.ort_models import identity

LEFT_OUT = {
    "GetInitializerLocationFunc",  # types of annotations
    "GetInitializerLocationWrapperFunc",
    "SessionObjectInitializer",  # classes that programs have no objects of
    "SparseBlockSparseView",
    "import_capi_exception",  # what ONNX Runtime's modules need themselves
    "make_get_initializer_location_func_wrapper",
    "opkernel",
}
EMPTY: dict[str, tuple[Any, ...]] = {
    "InitialisedSession": (ours.SessionOptions(), identity(), False),
    "OrtArenaCfg": ({},),
    "RunOptions": (),
    "SessionOptions": (),
}
"""What classes are made of whose objects alone have the attributes."""
PAIRS = [
    (onnxruntime, ours),
    (onnxruntime_pybind11_state, our_state),
    (onnxruntime_inference_collection, our_collection),
]


def public(module: ModuleType) -> dict[str, Any]:
    """Return what programs may use of a module: what is ONNX Runtime's own, by name."""
    found = {n: getattr(module, n) for n in dir(module) if not n.startswith("_") and n not in LEFT_OUT}
    whose = {n: getattr(v, "__module__", "onnxruntime") or "onnxruntime" for n, v in found.items()}
    return {n: v for n, v in found.items() if whose[n].startswith("onnxruntime") and not inspect.ismodule(v)}


def attributes(kind: type) -> set[str]:
    """Return the names of what objects of a class have."""
    return {*dir(kind(*EMPTY[kind.__name__]) if kind.__name__ in EMPTY else kind)}


@pytest.mark.parametrize(("theirs", "own"), PAIRS, ids=lambda module: module.__name__.rpartition(".")[2])
def test_every_public_name_is_there(theirs: ModuleType, own: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLGRAPH_DEVICE", "host")
    names = public(theirs)
    assert not names.keys() - {*dir(own)}
    for name, kind in names.items():
        mine = getattr(own, name)
        if not inspect.isclass(kind) or issubclass(mine, (packages.Absent, Exception)):
            continue
        if hasattr(kind, "__members__"):
            assert {n: int(v) for n, v in mine.__members__.items()} == {n: int(v) for n, v in kind.__members__.items()}
        else:
            mine = ours.InferenceSession if mine is our_collection.Session else mine
            kind = onnxruntime.InferenceSession if mine is ours.InferenceSession else kind
            assert not {n for n in attributes(kind) if not n.startswith("_")} - attributes(mine), name
