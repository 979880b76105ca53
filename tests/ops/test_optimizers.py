"""Steps of training, against onnx's reference evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import clgraph
from clgraph.errors import ShapeError, UnsupportedError

DOMAIN = "ai.onnx.preview.training"
STATES = {"Adagrad": 1, "Adam": 2, "Momentum": 1}
SHAPES = ((3, 2), (5,))


def step(op_type: str, count: int, dtype: Any = np.float32, shapes=SHAPES, **attributes: Any):
    """Return a model of one step for tensors of two shapes, and its feeds."""
    rng = np.random.default_rng(3)
    feeds = {"rate": np.asarray(0.1, dtype), "count": np.asarray(count, np.int64)}
    for kind in ("x", "g", "v", "h")[: 2 + STATES[op_type]]:
        feeds |= {f"{kind}{i}": abs(rng.standard_normal(s)).astype(dtype) for i, s in enumerate(shapes)}
    results = [f"new_{name}" for name in feeds if name[0] in "xvh"]
    node = helper.make_node(op_type, list(feeds), results, domain=DOMAIN, **attributes)
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in feeds.items()
    ]
    graph = helper.make_graph([node], "step", infos, [onnx.ValueInfoProto(name=n) for n in results])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(DOMAIN, 1), helper.make_opsetid("", 18)]), feeds


@pytest.mark.parametrize("count", [0, 3])
@pytest.mark.parametrize(
    ("op_type", "more"),
    [
        ("Adagrad", {"norm_coefficient": 0.5, "epsilon": 1e-3, "decay_factor": 0.25}),
        ("Adagrad", {"epsilon": 1e-3}),
        ("Adam", {"alpha": 0.75, "beta": 0.5, "norm_coefficient": 0.25, "norm_coefficient_post": 0.125}),
        ("Adam", {}),
        ("Momentum", {"alpha": 0.75, "beta": 0.5, "norm_coefficient": 0.25, "mode": "standard"}),
        ("Momentum", {"alpha": 0.75, "beta": 0.5, "norm_coefficient": 0.0, "mode": "nesterov"}),
    ],
)
def test_tensors_and_states_are_updated_as_onnx_says(op_type, more, count):
    model, feeds = step(op_type, count, **more)
    wanted = ReferenceEvaluator(model).run(None, feeds)
    found = clgraph.compile(model, "host").run(feeds)
    for (name, mine), theirs in zip(found.items(), wanted, strict=True):
        # A dozen operations of one rounding each, and 1 - 0.999^3 cancels all but 9 bits: 2^9 ulps.
        np.testing.assert_allclose(mine, theirs, rtol=2**9 * 2**-23, atol=1e-6, err_msg=name)
        assert mine.dtype == np.float32


def test_doubles_are_updated_as_doubles():
    model, feeds = step("Momentum", 1, np.float64, alpha=0.75, beta=0.5, norm_coefficient=0.25, mode="standard")
    x, v = clgraph.compile(model, "host").run(feeds)["new_x0"], feeds["g0"] + 0.25 * feeds["x0"]
    v = 0.75 * feeds["v0"] + 0.5 * v
    np.testing.assert_allclose(x, feeds["x0"] - 0.1 * v, rtol=1e-14)


def test_what_is_no_step_is_refused():
    with pytest.raises(UnsupportedError, match="mode 'other' is neither"):
        clgraph.compile(step("Momentum", 1, alpha=1.0, beta=1.0, norm_coefficient=0.0, mode="other")[0], "host")
    model, _ = step("Adagrad", 1)
    model.graph.input[4].type.tensor_type.shape.dim[0].dim_value = 4
    with pytest.raises(ShapeError, match="have one shape"):
        clgraph.compile(model, "host")
