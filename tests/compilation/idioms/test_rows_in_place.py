"""Rows that a mask chooses and that are put back in their places need no stages, and are what ONNX Runtime makes."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest

import clgraph
from clgraph.compilation.idioms.rows_in_place import with_rows_in_place
from clgraph.frontend.onnx_loader import load_onnx
from clgraph.model.stages.model import StagedModel
from tests.support.oracle import expected, worst_error

SHARE = "s = Softmax <axis = -1> (rows)\nt = Mul (s, rows)"
"""Of each row alone."""

OVER_ROWS = "s = ReduceSum <keepdims = 1> (rows, first)\nt = Div (rows, s)"
COUNTED = "n = Shape (rows)\nn0 = Gather (n, place)\nc = Cast <to = 1> (n0)\nt = Div (rows, c)"
"""What every row gets depends on the others, or on how many there are."""


def masked(
    inner: str = SHARE, found: str = "mask", back: str = "mask", more: str = "", reduction: str = "none"
) -> onnx.ModelProto:
    """Return ``x[mask] = f(x[mask])`` of a tensor [b][s][6], as PyTorch's exporters write it."""
    # PyTorch puts rows back by the places of an expanded mask, and cuts the rows to as many as it finds there.
    return onnx.parser.parse_model(f"""
        <ir_version: 8, opset_import: ["" : 18]>
        masked (float[b, s, 6] x, float[b, s] gate) => (float[b, s, 6] y{", int64[r, n] at" if more else ""})
        <int64[1] first = {{0}}, int64 place = {{0}}, float zero = {{0}}, float one = {{1}}, int64[1] nought = {{0}}>
        {{
            mask = Greater (gate, zero)
            other = Greater (gate, one)
            z = Shape (gate)
            wide = Expand ({back}, z)
            at = NonZero ({found})
            turned = Transpose <perm = [1, 0]> (at)
            rows = GatherND (x, turned)
            {inner}
            there = NonZero (wide)
            back = Transpose <perm = [1, 0]> (there)
            m = Shape (back)
            m0 = Gather (m, first)
            u = Slice (t, nought, m0, nought)
            y = ScatterND <reduction = "{reduction}"> (x, back, u)
        }}""")


def feeds(gate: float = 0.0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(1)
    x, noise = random.standard_normal((2, 5, 6)), random.standard_normal((2, 5))
    return {"x": x.astype(np.float32), "gate": (noise + gate).astype(np.float32)}


@pytest.mark.opencl
@pytest.mark.parametrize("gate", [0.0, 9.0, -9.0], ids=["some", "all", "none"])
def test_rows_that_a_mask_chooses_are_put_back_without_stages(gate: float) -> None:
    model = clgraph.compile(masked())
    assert not isinstance(model, StagedModel)
    inputs = feeds(gate)
    # Sums of six, two exponentials of 4 ulp each, a quotient and a product.
    assert worst_error(model.run(inputs), expected(masked(), inputs)) <= (6 + 2 * 4 + 2) * 2.0**-24


@pytest.mark.parametrize(
    "model",
    [
        masked(OVER_ROWS),
        masked(COUNTED),
        masked(back="other"),
        masked(more="at"),
        masked(reduction="add"),
    ],
    ids=["sums", "counts", "two masks", "read", "added"],
)
def test_rows_stay_chosen_where_something_depends_on_which(model: onnx.ModelProto) -> None:
    topology = load_onnx(model)
    assert with_rows_in_place(topology) is topology


def test_large_weights_are_multiplied_by_the_rows_that_were_chosen() -> None:
    model = masked("hidden = MatMul (rows, w)\nt = MatMul (hidden, v)")
    for name in "wv":
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.eye(6, dtype=np.float32), name))
    topology = load_onnx(model)
    assert with_rows_in_place(topology) is not topology
    topology.constants["w"] = np.zeros((6, 1 << 18), np.float32)
    topology.constants["v"] = np.zeros((1 << 18, 6), np.float32)
    assert with_rows_in_place(topology) is topology
