"""Which specialisations a model has: keys of shapes and values, the bound, what they share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import clgraph
from clgraph.errors import InputError, ShapeError, UnknownValueError, UnsupportedError
from clgraph.graph.topology import VALUE_ELEMENTS

F32, I64 = TensorProto.FLOAT, TensorProto.INT64


def graph(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, tuple[int, Any]],
    output: str = "y",
    constants: dict[str, Any] | None = None,
    opset: int = 18,
) -> onnx.ModelProto:
    made = helper.make_graph(
        nodes,
        "case",
        [helper.make_tensor_value_info(n, t, shape) for n, (t, shape) in inputs.items()],
        [helper.make_empty_tensor_value_info(output)],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()],
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 9
    return model


def reference(model: onnx.ModelProto, feeds: dict[str, Any]) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return session.run(None, feeds)[0]


def reshaping() -> onnx.ModelProto:
    """The shape of a Reshape is an input."""
    return graph(
        [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Reshape", ["r", "shape"], ["y"])],
        {"x": (F32, ("n", 6)), "shape": (I64, ("k",))},
    )


CASES: dict[str, tuple[Callable[[], onnx.ModelProto], list[dict[str, Any]]]] = {
    "reshape": (reshaping, [{"shape": np.array(s)} for s in ((3, -1), (2, 2, 3), (-1,), (3, -1))]),
    "resize by scales": (
        lambda: graph(
            [helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="linear")],
            {"x": (F32, ("n", 6)), "scales": (F32, (2,))},
        ),
        [{"scales": np.array(s, np.float32)} for s in ((1, 2), (2, 1.5))],
    ),
    "slice by starts and ends": (
        lambda: graph(
            [helper.make_node("Slice", ["x", "starts", "ends", "axes"], ["y"])],
            {"x": (F32, ("n", 6)), "starts": (I64, (1,)), "ends": (I64, (1,))},
            constants={"axes": np.array([1])},
        ),
        [{"starts": np.array([a]), "ends": np.array([b])} for a, b in ((0, 3), (-2, 9), (4, 1))],
    ),
    "expand by a computed shape": (
        lambda: graph(
            [
                helper.make_node("Mul", ["n", "two"], ["m"]),
                helper.make_node("Concat", ["m", "six"], ["s"], axis=0),
                helper.make_node("Expand", ["x", "s"], ["y"]),
            ],
            {"x": (F32, (1, 6)), "n": (I64, (1,))},
            constants={"two": np.array([2]), "six": np.array([6])},
        ),
        [{"x": np.ones((1, 6), np.float32), "n": np.array([n])} for n in (1, 3)],
    ),
    "a value that decides sizes and is data too": (
        lambda: graph(
            [
                helper.make_node("Tile", ["x", "n"], ["t"]),
                helper.make_node("Cast", ["n"], ["f"], to=F32),
                helper.make_node("ReduceSum", ["f"], ["sum"], keepdims=0),
                helper.make_node("Mul", ["t", "sum"], ["y"]),
            ],
            {"x": (F32, (2, 6)), "n": (I64, (2,))},
        ),
        [{"n": np.array(n)} for n in ((1, 2), (3, 1))],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_inputs_that_decide_sizes_are_read_on_the_host(name: str) -> None:
    build, runs = CASES[name]
    source = build()
    model = clgraph.compile(source, device="host")
    for number, feeds in enumerate(runs):
        x = np.random.default_rng(number).standard_normal((2, 6)).astype(np.float32)
        feeds = {"x": x} | feeds
        expected = reference(source, feeds)
        np.testing.assert_allclose(model.run(feeds)["y"], expected, rtol=1e-6, atol=1e-6)


def test_equal_values_share_a_specialisation_whatever_the_data() -> None:
    model = clgraph.compile(reshaping(), device="host")
    programs = []
    for value in (3, 2, 3):
        model.run({"x": np.full((2, 6), value, np.float32), "shape": np.array([value, -1])})
        programs.append(model.program)
    assert programs[0] is programs[2]
    assert programs[0] is not programs[1]


def test_values_can_be_prepared_and_are_asked_for() -> None:
    model = clgraph.compile(reshaping(), device="host", shapes={"x": (2, 6), "shape": (2,)})
    assert not model.is_compiled
    with pytest.raises(UnknownValueError, match=r"value of input 'shape'.*values="):
        model.prepare({"x": (2, 6), "shape": (2,)})
    program = model.prepare({"x": (2, 6)}, values={"shape": [4, 3]})
    assert program.outputs[0][1].layout.shape == (4, 3)
    with pytest.raises(InputError, match="no input is called 'size'"):
        model.prepare({"x": (2, 6)}, values={"size": [4, 3]})
    with pytest.raises(ShapeError):
        model.run({"x": np.zeros((2, 6), np.float32), "shape": np.array([5, -1])})
    assert model.run({"x": np.zeros((2, 6), np.float32), "shape": np.array([4, 3])})["y"].shape == (4, 3)
    assert model.program is program


def test_a_large_tensor_does_not_decide_sizes() -> None:
    """Every value of it would be compiled."""
    source = graph(
        [
            helper.make_node("ReduceMax", ["x"], ["top"], keepdims=1),
            helper.make_node("Cast", ["top"], ["n"], to=I64),
            helper.make_node("Reshape", ["n", "one"], ["shape"]),
            helper.make_node("Expand", ["one_f", "shape"], ["y"]),
        ],
        {"x": (F32, (VALUE_ELEMENTS + 1,))},
        constants={"one": np.array([1]), "one_f": np.array([1], np.float32)},
    )
    from clgraph.frontend.onnx_loader import load_model

    with pytest.raises(UnsupportedError, match="must be known") as caught:
        load_model(source).build()
    assert isinstance(caught.value, UnknownValueError)
    assert caught.value.inputs == ()


def test_values_are_part_of_what_is_saved(tmp_path: Path) -> None:
    model = clgraph.compile(reshaping(), device="host")
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    for shape in ([3, 4], [12]):
        model.run({"x": x, "shape": np.array(shape)})
    model.save(tmp_path / "m.clg")
    loaded = clgraph.load(tmp_path / "m.clg", device="host")
    for shape in ([12], [3, 4]):
        assert loaded.run({"x": x, "shape": np.array(shape)})["y"].shape == tuple(shape)
    assert all("as saved" in note for note in loaded.notes)
    assert loaded.run({"x": x, "shape": np.array([4, 3])})["y"].shape == (4, 3)
    assert "no program" in loaded.notes[-1]
