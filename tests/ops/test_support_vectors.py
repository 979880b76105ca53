"""Support vector machines: what is done once when a model is read, and kernels of products that are zeros."""

import numpy as np
import pytest
from onnx import helper

import clgraph
from clgraph.core.dtype import DType
from clgraph.frontend.onnx_loader import load_onnx
from clgraph.ops.support_vectors import KernelFunction
from tests.support.onnx_case import onnxruntime_outputs

FLOAT = 1


@pytest.mark.parametrize("operator", ["SVMClassifier", "SVMRegressor"])
def test_tables_are_as_wide_as_the_host_computes_with(operator):
    """A run would convert them else, which takes longer than a few rows do."""
    common = {"support_vectors": [1.0, 2.0, 3.0, 4.0], "kernel_type": "RBF", "kernel_params": [0.5, 0.0, 3.0]}
    own = {"n_supports": 2} if operator == "SVMRegressor" else {"vectors_per_class": [1, 1], "classlabels_ints": [3, 4]}
    outputs = ["y"] if operator == "SVMRegressor" else ["label", "y"]
    given = {**common, **own, "coefficients": [0.5, -0.5], "rho": [0.25]}
    node = helper.make_node(operator, ["x"], outputs, domain="ai.onnx.ml", **given)
    x = helper.make_tensor_value_info("x", FLOAT, ["n", 2])
    y = helper.make_tensor_value_info("y", FLOAT, None)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    topology = load_onnx(helper.make_model(helper.make_graph([node], "g", [x], [y]), opset_imports=opsets))
    (layer,) = (layer for layer in topology.layers if layer.primitive.kind.startswith("support_vector"))
    *wide, few = (topology.constants[name].dtype for name in layer.inputs[1:])
    assert set(wide) == {DType.F64.numpy}
    assert few == DType.F32.numpy  # which only devices read


@pytest.mark.opencl
@pytest.mark.parametrize("one_class", [0, 1])
@pytest.mark.parametrize(
    ("count", "function", "degree"),
    [(0, "LINEAR", 0.0), (5, "LINEAR", 0.0), (5, "SIGMOID", 0.0), *((5, "POLY", d) for d in (1.0, 2.0, 3.0, 4.0))],
)
def test_a_regressor_of_products_is_computed_by_the_device(count, function, degree, one_class, device, rng):
    gamma, coefficient, features = 0.3, 0.5, 3
    table = {"support_vectors": rng.standard_normal(count * features), "coefficients": rng.standard_normal(count or 3)}
    numbers = {name: np.float32(array).tolist() for name, array in table.items() if len(array)}
    numbers |= {"rho": [0.25], "n_supports": count, "kernel_type": function}
    numbers["kernel_params"] = [gamma, coefficient, degree]
    node = helper.make_node("SVMRegressor", ["x"], ["y"], domain="ai.onnx.ml", one_class=one_class, **numbers)
    declared = [helper.make_tensor_value_info(name, FLOAT, ["n", size]) for name, size in (("x", 3), ("y", 1))]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    graph = helper.make_graph([node], "g", declared[:1], declared[1:])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    kinds = {layer.primitive.kind for layer in load_onnx(model).layers}
    assert kinds == {"support_vector_regressor" if one_class else "support_vector_products"}
    x = rng.standard_normal((9, features)).astype(np.float32)
    (wanted,) = onnxruntime_outputs(model, {"x": x})
    with clgraph.compile(model, device=device) as compiled:
        found = compiled.run({"x": x})["y"]
    v = np.float32(table["support_vectors"]).reshape(count, features) if count else np.eye(3, dtype=np.float32)
    size = np.abs(x) @ np.abs(v).T
    if function != "LINEAR":
        size = gamma * size + coefficient
    power = degree if function == "POLY" else 1.0
    # Roundings of a product, then of the function (16 of a power by exp2 and log2), then of the sum; in both of them.
    roundings = 2 * (power * (features + 3) + 16 + max(count, 1) + 2)
    largest = size**power @ np.abs(np.float32(table["coefficients"])) + 0.25
    assert (np.abs(found - wanted)[:, 0] <= roundings * 2.0**-24 * largest).all()


@pytest.mark.parametrize("degree", [-1.0, 1.0, 2.0, 3.0, 5.0])
def test_powers_of_products_are_numpys_also_of_zeros(degree):
    x, y = np.array([[0.0, -0.0], [-2.0, 0.5]]), np.array([[-1.0, 0.0], [3.0, 1.0]])
    for gamma, coefficient in ((2.0, 0.0), (-2.0, 0.0), (2.0, 0.5)):
        with np.errstate(divide="ignore"):
            got = KernelFunction("POLY", gamma, coefficient, degree).of(x, y)
            wanted = (gamma * (x @ y.T) + coefficient) ** degree
        np.testing.assert_allclose(got, wanted, rtol=4 * 2.0**-52)
