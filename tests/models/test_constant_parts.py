"""Graphs whose constants are too large to be computed while shapes are bound give what ONNX's reference gives.

All numbers are small integers, whose sums and products float32 holds: results are equal, not close.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import clgraph
from clgraph.ops.convolution import Convolution
from clgraph.ops.matmul import MatMul
from clgraph.ops.reshape import Reshape
from tests.support.graphs import BOOL, FLOAT, INT, graph, model
from tests.support.programs import Net

pytestmark = pytest.mark.opencl

node = helper.make_node
PRODUCT = node("MatMul", ["a", "b"], ["c"])


def whole(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)


A, B = whole(1, 256, 256), whole(2, 256, 256)
CLASSES = pytest.mark.parametrize("device_class", ["cpu", "gpu"])


def agree(nodes: list[Any], x: np.ndarray | None, device: str, device_class: str, **constants: Any) -> clgraph.Model:
    """Run *nodes*, which read ``x`` and make ``y``, on the device and by ONNX's reference."""
    inputs = [] if x is None else [("x", FLOAT, x.shape)]
    source = model(graph(nodes, inputs, [("y", FLOAT, None)], **constants))
    source.graph.output[0].CopyFrom(helper.make_empty_tensor_value_info("y"))
    feeds = {} if x is None else {"x": x}
    made = clgraph.compile(source, device, config={"device_class": device_class})
    (want,) = ReferenceEvaluator(source).run(None, feeds)
    for _ in range(2):
        np.testing.assert_array_equal(made.run(feeds)["y"], want)
    return made


@CLASSES
@pytest.mark.parametrize(
    ("shape", "x", "last"),
    [
        ([-1], None, node("Identity", ["d"], ["y"])),
        ([64, 1024], (64, 1024), node("Add", ["x", "d"], ["y"])),
        ([64, 1024], (8, 64), node("MatMul", ["x", "d"], ["y"])),
        ([64, 64, 4, 4], (1, 64, 10, 10), node("Conv", ["x", "d"], ["y"])),
        ([1, 64, 32, 32], (1, 64, 32, 32), node("Concat", ["x", "d"], ["y"], axis=1)),
    ],
)
def test_a_reshape_of_a_computed_constant_is_written(device, device_class, shape, x, last) -> None:
    nodes = [PRODUCT, node("Reshape", ["c", "s"], ["d"]), last]
    agree(nodes, None if x is None else whole(3, *x), device, device_class, a=A, b=B, s=np.int64(shape))


@CLASSES
def test_so_are_parts_of_one_and_transposes(device, device_class) -> None:
    nodes = [
        PRODUCT,
        node("Split", ["c", "sizes"], ["d", "e"], axis=1),
        node("Reshape", ["d", "s"], ["f"]),
        node("Transpose", ["f"], ["g"], perm=[0, 2, 1]),
        node("Add", ["x", "e"], ["h"]),
        node("Flatten", ["g"], ["i"], axis=2),
        node("Mul", ["h", "i"], ["y"]),
    ]
    sizes = {"sizes": np.int64([128, 128]), "s": np.int64([4, 128, 64])}
    agree(nodes, whole(3, 256, 128), device, device_class, a=A, b=B, **sizes)


@CLASSES
def test_a_concat_of_a_computed_constant_and_a_result_of_the_run_holds_both(device, device_class) -> None:
    nodes = [
        PRODUCT,
        node("Relu", ["x"], ["r"]),
        node("Concat", ["r", "c"], ["j"], axis=0),
        node("Neg", ["j"], ["y"]),
    ]
    made = agree(nodes, whole(3, 256, 256), device, device_class, a=A, b=B)
    assert not any(n.in_place for n in made.program)


def test_a_reshape_behind_a_constant_that_the_host_computes_is_written(device) -> None:
    nodes = [
        PRODUCT,
        node("Cast", ["c"], ["d"], to=11),
        node("Clip", ["d", "low", "high"], ["e"]),
        node("Reshape", ["e", "s"], ["y"]),
    ]
    agree(nodes, None, device, "cpu", a=A, b=B, s=np.int64([-1]), low=np.float64(-1), high=np.float64(0.5))


FILL = node("ConstantOfShape", ["shape"], ["f"], value=helper.make_tensor("v", FLOAT, [1], [2.0]))
SOURCES = {
    "fill": ([FILL], {"shape": np.int64([272, 272])}),
    "range": (
        [
            node("Range", ["zero", "end", "one"], ["r"]),
            node("Mod", ["r", "seven"], ["m"], fmod=1),
            node("Reshape", ["m", "shape"], ["f"]),
        ],
        {
            "shape": np.int64([272, 272]),
            "zero": np.float32(0),
            "end": np.float32(272 * 272),
            "one": np.float32(1),
            "seven": np.float32(7),
        },
    ),
    "nothing to add up": (
        [node("ReduceSum", ["none", "axes"], ["f"], keepdims=0)],
        {"none": np.zeros((0, 272, 272), np.float32), "axes": np.int64([0])},
    ),
}


@CLASSES
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    "reading",
    [
        [node("Identity", ["f"], ["y"])],
        [node("Mul", ["x", "f"], ["y"])],
        [node("MatMul", ["x", "f"], ["d"]), node("Add", ["d", "f"], ["y"])],
        [node("Relu", ["f"], ["d"]), node("Concat", ["x", "d"], ["y"], axis=0)],
        [node("Transpose", ["f"], ["d"]), node("Sub", ["d", "x"], ["y"])],
    ],
)
def test_large_nodes_without_inputs_are_read_by_anything(device, device_class, source, reading) -> None:
    made, constants = SOURCES[source]
    agree([*made, *reading], whole(3, 272, 272), device, device_class, **constants)


def _branch(op_type: str, read: str) -> Any:
    return graph([node(op_type, [read], [f"{op_type}_y"])], [], [(f"{op_type}_y", FLOAT, None)])


@pytest.mark.parametrize("sign", [1, -1])
def test_a_condition_of_large_constants_leaves_no_if(device, sign) -> None:
    nodes = [
        node("Relu", ["c"], ["r"]),
        node("ReduceSum", ["r"], ["s"], keepdims=0),
        node("Greater", ["s", "zero"], ["q"]),
        node("If", ["q"], ["y"], then_branch=_branch("Neg", "x"), else_branch=_branch("Relu", "x")),
    ]
    constants = {"c": np.full(10000, sign, np.float32), "zero": np.float32(0)}
    made = agree(nodes, whole(3, 4, 5), device, "cpu", **constants)
    assert [n.primitive.kind for n in made.program] == ["activation"]


def test_a_loop_over_large_constants_alone_runs_once(device) -> None:
    body = graph(
        [node("Add", ["v", "b"], ["w"]), node("Identity", ["c"], ["d"])],
        [("i", INT, []), ("c", BOOL, []), ("v", FLOAT, None)],
        [("d", BOOL, []), ("w", FLOAT, None)],
    )
    nodes = [
        node("Relu", ["a0"], ["a"]),
        node("Relu", ["b0"], ["b"]),
        node("Loop", ["k", "", "a"], ["e"], body=body),
        node("Add", ["x", "e"], ["y"]),
    ]
    constants = {"a0": whole(1, 100, 100), "b0": np.full((100, 100), 2, np.float32), "k": np.int64(3)}
    source = model(graph(nodes, [("x", FLOAT, [100, 100])], [("y", FLOAT, None)], **constants))
    made, x = clgraph.compile(source, device), whole(3, 100, 100)
    np.testing.assert_array_equal(made.run({"x": x})["y"], x + np.maximum(constants["a0"], 0) + 6)
    assert len(made.program) == 1


def test_a_convolution_with_computed_weights_runs_by_the_kernel_of_one_with_constant_ones(device: str) -> None:
    x = np.random.default_rng(9).standard_normal((1, 32, 14, 14)).astype(np.float32)
    convolution = Convolution((1, 1), (1, 1), ((1, 1), (1, 1)))

    def compiled(computed: bool, disabled: list[str]) -> clgraph.Model:
        net = Net()
        image = net.input("x", x.shape)
        if computed:
            product = net.add("ab", MatMul(), net.data("a", 64, 40), net.data("b", 40, 288))
            weights = net.add("w", Reshape((64, 32, 3, 3)), product)
        else:
            weights = net.data("w", 64, 32, 3, 3)
        net.add("y", convolution, image, weights)
        net.output("y")
        return clgraph.compile(net, device=device, config={"disable_passes": disabled})

    early, late = compiled(True, []), compiled(True, ["compute_constants"])
    # Sums of 288 products, in another order, of numbers to 4 and weights that are sums of 40 products.
    np.testing.assert_allclose(early(x), late(x), atol=2 * 289 * 2.0**-24 * 288 * 4 * 40)
    assert early.explain()["y"].implementation == compiled(False, []).explain()["y"].implementation


@pytest.mark.parametrize("constant", [False, True], ids=["fed", "constant"])
@pytest.mark.parametrize(("operator", "weights"), [("Conv", (4, 2, 3, 3)), ("ConvTranspose", (2, 4, 3, 3))])
def test_a_convolution_of_no_pictures_makes_none(device: str, operator: str, weights: Any, constant: bool) -> None:
    x, w = np.zeros((0, 2, 6, 6), np.float32), whole(3, *weights)
    source = model(
        graph(
            [node(operator, ["x", "w"], ["y"])],
            [] if constant else [("x", FLOAT, x.shape)],
            [("y", FLOAT, None)],
            w=w,
            **({"x": x} if constant else {}),
        )
    )
    found = clgraph.compile(source, device).run({} if constant else {"x": x})["y"]
    assert found.shape == ((0, 4, 4, 4) if operator == "Conv" else (0, 4, 8, 8))
