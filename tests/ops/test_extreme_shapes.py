"""Scalars, tensors without elements and tensors of eight axes through every operator, on a device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clgraph
from clgraph.errors import ClgraphError
from tests.support.extreme_shapes import Case, cases
from tests.support.onnx_case import one_node, onnxruntime_outputs

pytestmark = pytest.mark.opencl

CASES = cases()

SAMPLE = 5
"""Of an operator's cases, each so many-th is in the default run."""


def agree(case: Case, device: str) -> bool:
    """Assert that a model of the node gives what ONNX Runtime gives; return whether that runs it."""
    model, feeds = one_node(
        case.op, case.inputs, opset=case.opset, constant=case.constant, outputs=case.outputs, **case.attributes
    )
    try:
        wanted: list[Any] | None = onnxruntime_outputs(model, feeds)
    except Exception:  # ONNX Runtime raises its own, one for each reason
        wanted = None
    if wanted is None:
        try:
            clgraph.compile(model, device).run(feeds)
        except ClgraphError:
            return False
        return False
    found = clgraph.compile(model, device).run(feeds)
    for mine, theirs in zip(found.values(), wanted, strict=True):
        assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype), str(case)
        # Elementwise functions are good to a few ulps; the products here add at most 54 numbers below 6 in size.
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5, err_msg=str(case))
    return True


@pytest.mark.parametrize("op", CASES)
def test_extreme_shapes_agree_with_onnxruntime(op: str, device: str) -> None:
    for case in CASES[op][len(op) % SAMPLE :: SAMPLE]:
        agree(case, device)


@pytest.mark.slow
@pytest.mark.parametrize("op", CASES)
def test_all_extreme_shapes_agree_with_onnxruntime(op: str, device: str) -> None:
    ran = [agree(case, device) for case in CASES[op]]
    assert any(ran)
