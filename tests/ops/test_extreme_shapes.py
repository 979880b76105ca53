"""Scalars, tensors without elements and tensors of eight axes through every operator, on a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import clgraph
from clgraph.errors import ShapeError
from tests.support.extreme_shapes import Case, cases
from tests.support.onnx_case import one_node, onnxruntime_outputs

pytestmark = pytest.mark.opencl

CASES = cases()

SAMPLE = 5
"""Of an operator's cases, each so many-th is in the default run."""


def agree(case: Case, device: str, constants: bool = False) -> bool:
    """Assert that a model of the node gives what ONNX Runtime gives; return whether that runs it.

    With *constants* all inputs are constants of the model.

    What ONNX Runtime refuses is not a model by its shapes here as well, or gives what ONNX's own reference gives.
    """
    model, feeds = one_node(
        case.op, case.inputs, opset=case.opset, constant=case.constant, outputs=case.outputs, **case.attributes
    )
    wanted = _onnxruntime(model, feeds)
    try:
        found = clgraph.compile(model, device).run(feeds)
    except ShapeError:
        assert wanted is None, str(case)
        return False
    for mine, theirs in zip(found.values(), _reference(model, feeds) if wanted is None else wanted, strict=True):
        assert (mine.shape, mine.dtype) == (np.shape(theirs), theirs.dtype), str(case)
        # Elementwise functions are good to a few ulps; the products here add at most 54 numbers below 6 in size.
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5, err_msg=str(case))
    return wanted is not None


def _onnxruntime(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> list[Any] | None:
    try:
        return onnxruntime_outputs(model, feeds)
    except Exception:  # ONNX Runtime raises its own, one for each reason
        return None


def _reference(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> list[Any]:
    """Return what ONNX's reference gives; it raises where it does not take the shapes either."""
    return ReferenceEvaluator(model).run(None, dict(feeds))


@pytest.mark.parametrize("op", CASES)
def test_extreme_shapes_agree_with_onnxruntime(op: str, device: str) -> None:
    for case in CASES[op][len(op) % SAMPLE :: SAMPLE]:
        agree(case, device)


@pytest.mark.parametrize("op", CASES)
def test_references_agree_with_onnxruntime_on_extreme_shapes(op: str) -> None:
    for case in CASES[op][len(op) % SAMPLE :: SAMPLE]:
        agree(case, "host")


@pytest.mark.slow
@pytest.mark.parametrize("op", CASES)
def test_all_references_agree_with_onnxruntime_on_extreme_shapes(op: str) -> None:
    for case in CASES[op]:
        agree(case, "host")


@pytest.mark.slow
@pytest.mark.parametrize("op", CASES)
def test_all_extreme_shapes_agree_with_onnxruntime(op: str, device: str) -> None:
    ran = [agree(case, device) for case in CASES[op]]
    assert any(ran)
