"""Which specialisations a model has: keys of shapes and values, the bound, what they share."""

from __future__ import annotations

import gc
import re
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import clgraph
from clgraph.errors import InputError, ShapeError, UnknownValueError, UnsupportedError
from clgraph.graph.primitive import Array
from clgraph.graph.topology import VALUE_ELEMENTS
from clgraph.network.loans import LEAST_BYTES
from clgraph.passes.packed_weights import PackedWeights, Recipe
from clgraph.runtime import memory
from clgraph.runtime.memory import Memory
from clgraph.specialisations import KEPT_SPECIALISATIONS
from tests.support.models import image, small_model

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


def convolutions(size: Any = "h") -> onnx.ModelProto:
    """Convolutions with normalizations, as matrices and as depthwise: all kinds of packed weights."""
    random = np.random.default_rng(0)
    channels = 48
    constants: dict[str, Any] = {
        "w0": random.standard_normal((channels, 3, 3, 3)),
        "w1": random.standard_normal((channels, channels, 3, 3)) / 20,
        "w2": random.standard_normal((channels, 1, 3, 3)) / 3,
        "w3": random.standard_normal((2 * channels, channels, 1, 1)) / 7,
        "scale": random.uniform(0.5, 1.5, channels),
        "shift": random.standard_normal(channels),
        "mean": random.standard_normal(channels),
        "var": random.uniform(0.5, 1.5, channels),
        "m": random.standard_normal((2 * channels, 40)) / 10,
    }
    node = helper.make_node
    return graph(
        [
            node("Conv", ["x", "w0"], ["c0"], pads=[1] * 4),
            node("BatchNormalization", ["c0", "scale", "shift", "mean", "var"], ["b0"]),
            node("Relu", ["b0"], ["r0"]),
            node("Conv", ["r0", "w1"], ["c1"], pads=[1] * 4),
            node("BatchNormalization", ["c1", "scale", "shift", "mean", "var"], ["b1"]),
            node("Conv", ["b1", "w2"], ["c2"], pads=[1] * 4, group=channels),
            node("Conv", ["c2", "w3"], ["c3"]),
            node("GlobalAveragePool", ["c3"], ["g"]),
            node("Flatten", ["g"], ["f"]),
            node("MatMul", ["f", "m"], ["y"]),
        ],
        {"x": (F32, ("n", 3, size, "w"))},
        constants={n: a.astype(np.float32) for n, a in constants.items()},
    )


def shapes_of(seed: int, count: int) -> list[tuple[int, ...]]:
    random = np.random.default_rng(seed)
    return [(int(random.integers(1, 3)), 3, *(int(d) for d in random.integers(1, 40, 2))) for _ in range(count)]


@pytest.mark.opencl
@pytest.mark.parametrize("device_class", ["cpu", "gpu"])
def test_no_constant_is_packed_twice(device: str, device_class: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Recipe] = []
    remember = PackedWeights.remember

    def noting(self: PackedWeights, recipe: Recipe | None, array: Array, **options: Any) -> Array:
        assert recipe is not None
        made.append(recipe)
        return remember(self, recipe, array, **options)

    monkeypatch.setattr(PackedWeights, "remember", noting)
    model = clgraph.compile(convolutions(), device=device, config={"device_class": device_class})
    twin = model.clone()
    for number, shape in enumerate(shapes_of(0, 3 * KEPT_SPECIALISATIONS)):
        (model, twin)[number % 2].prepare({"x": shape})
    assert len(made) >= (8 if device_class == "cpu" else 2)
    assert len(made) == len(set(made))


@pytest.mark.opencl
def test_large_constants_are_copied_to_a_device_once(device: str) -> None:
    model = clgraph.compile(convolutions(), device=device, config={"device_class": "gpu"})
    x = np.random.default_rng(0).standard_normal((1, 3, 9, 8)).astype(np.float32)
    expected = model.run({"x": x})["y"]
    twin = model.clone()
    for shape in shapes_of(1, 4):
        twin.prepare({"x": shape})
    np.testing.assert_array_equal(twin.run({"x": x})["y"], expected)
    copies = twin._specialisations._workspace.constants._copies
    assert copies is model._specialisations._workspace.constants._copies
    large = {
        id(v.constant) for v in model.program.constants if v.constant is not None and v.layout.nbytes >= LEAST_BYTES
    }
    assert large
    assert {number for _, number in copies} == large


@pytest.mark.opencl
def test_sizes_in_turn_give_what_models_of_one_size_give(device: str) -> None:
    source = convolutions()
    model = clgraph.compile(source, device=device)
    for batch in (1, 8, 3, 8, 1):
        x = np.random.default_rng(batch).standard_normal((batch, 3, 20, 30)).astype(np.float32)
        alone = clgraph.compile(source, device=device, shapes={"x": x.shape})
        np.testing.assert_array_equal(model.run({"x": x})["y"], alone.run({"x": x})["y"])


@pytest.mark.opencl
def test_evicted_specialisations_give_back_their_memory_at_once(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without waiting for Python's collector of cycles; what is alive belongs to the specialisations that are kept."""
    alive: weakref.WeakSet[Memory] = weakref.WeakSet()
    allocate = memory.allocate

    def noting(*arguments: Any) -> Memory:
        made = allocate(*arguments)
        alive.add(made)
        return made

    monkeypatch.setattr(memory, "allocate", noting)
    model = clgraph.compile(convolutions(), device=device)
    gc.collect()
    gc.disable()
    try:
        counts = []
        for shape in shapes_of(2, 3 * KEPT_SPECIALISATIONS):
            x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
            model.run({"x": x})
            counts.append(len(alive) / len(model._specialisations.kept))
        each = max(counts[:KEPT_SPECIALISATIONS])
        assert max(counts) <= each
        model.close()
        assert not [m for m in alive if m.nbytes >= LEAST_BYTES]
    finally:
        gc.enable()


@pytest.mark.opencl
def test_networks_of_one_model_share_their_arena_and_clones_have_one_of_their_own(device: str) -> None:
    model = clgraph.compile(convolutions(), device=device)
    model.prepare({"x": (1, 3, 30, 30)})
    twin = model.clone()
    model.prepare({"x": (1, 3, 29, 29)})

    def arenas(of: clgraph.Model) -> set[int]:
        networks = [s.network for s in of._specialisations.kept.values()]
        return {id(p.banks[0]) for n in networks if n is not None for p in n._places.values()}

    assert len(arenas(model)) == 1
    assert arenas(model).isdisjoint(arenas(twin))


@pytest.mark.opencl
def test_networks_that_share_memory_do_not_run_at_the_same_time(device: str) -> None:
    model = clgraph.compile(convolutions(), device=device)
    inputs = [np.random.default_rng(i).standard_normal((1, 3, 40 - i, 40)).astype(np.float32) for i in range(2)]
    wanted = [model.run({"x": x})["y"] for x in inputs]
    networks = [s.network for s in model._specialisations.kept.values()]

    def runs_alike(i: int) -> bool:
        network = networks[i % 2]
        assert network is not None
        return all(np.array_equal(network.run({"x": inputs[i % 2]})["y"], wanted[i % 2]) for _ in range(20))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(runs_alike, range(4)))


def test_given_shapes_are_fixed_and_reshape_gives_others() -> None:
    model = clgraph.compile(convolutions(), device="host", shapes={"x": ("batch", 3, 8, 9)})
    assert model.inputs[0].shape == ("batch", 3, 8, 9)
    assert not model.is_compiled
    assert model.run({"x": np.ones((2, 3, 8, 9), np.float32)})["y"].shape == (2, 40)
    with pytest.raises(InputError, match=r"input 'x' has shape \[batch, 3, 8, 9\]"):
        model.run({"x": np.ones((2, 3, 9, 9), np.float32)})
    other = model.reshape({"x": (1, 3, 9, 9)})
    assert other.is_compiled
    assert other.outputs[0].shape == (1, 40)
    assert model.inputs[0].shape == ("batch", 3, 8, 9)
    assert other.reshape({"x": (None, 3, None, "w")}).inputs[0].shape == (None, 3, None, "w")
    with pytest.raises(ShapeError, match="node"):
        other.reshape({"x": (1, 4, 9, 9)})


def test_reshape_replaces_sizes_that_a_model_declares() -> None:
    model = clgraph.compile(small_model(size=10), device="host")
    x = image((1, 3, 6, 5))
    twin = model.reshape({"x": x.shape})
    assert twin.outputs[0].shape == (1, 8, 3, 2)
    expected = clgraph.compile(small_model(size="n"), device="host").run({"x": x})["y"]
    np.testing.assert_array_equal(twin.run({"x": x})["y"], expected)
    opened = model.reshape({"x": (1, 3, None, "w")})
    assert opened.outputs[0].shape is None
    np.testing.assert_array_equal(opened.run({"x": x})["y"], expected)


@pytest.mark.parametrize(
    ("shapes", "what"),
    [
        ({"y": (1,)}, "no input is called 'y'"),
        ({"x": (1, 3, 8)}, "number of axes"),
        ({"x": (1, 3, -1, 8)}, "negative"),
        ({"x": (1, 3, 1.5, 8)}, "sizes, names and None"),
        ({"x": 3}, "sizes, names and None"),
    ],
)
def test_shapes_that_mean_nothing_are_refused(shapes: dict[str, Any], what: str) -> None:
    with pytest.raises(InputError, match=what):
        clgraph.compile(convolutions(), device="host", shapes=shapes)
    with pytest.raises(InputError, match=what):
        clgraph.compile(convolutions(), device="host").reshape(shapes)


def test_compile_does_not_contradict_declared_sizes() -> None:
    with pytest.raises(InputError, match=r"does not fit.*reshape"):
        clgraph.compile(convolutions(), device="host", shapes={"x": (1, 4, 8, 8)})
    model = clgraph.compile(convolutions(), device="host", shapes={"x": (None, None, 8, 8)})
    assert model.inputs[0].shape == (None, 3, 8, 8)


def test_the_specialisations_say_what_they_hold_for_and_how_they_came_about(tmp_path: Path) -> None:
    model = clgraph.compile(reshaping(), device="host")
    x = np.zeros((2, 6), np.float32)
    for shape in ([3, 4], [12, 1]):
        model.run({"x": x, "shape": np.array(shape)})
    first, second = model.specialisations
    assert re.fullmatch(r"x \[2, 6\], shape \[2\], shape = \[3, 4\]: \d+ passes in \d+ ms", first)
    assert "shape = [12,  1]" in second
    assert model.explain().notes["specialisations"] == f"{first}\n{second}"
    model.save(tmp_path / "m.clg")
    loaded = clgraph.load(tmp_path / "m.clg", device="host")
    loaded.run({"x": x, "shape": np.array([2, 6])})
    assert "as saved" in loaded.specialisations[0]
    assert "compiled anew" in loaded.specialisations[1]


def test_inputs_of_unknown_rank_take_arrays_of_any() -> None:
    """Neither the input nor the output declares a shape; what depends on the rank is bound with it."""
    source = graph(
        [
            helper.make_node("Shape", ["x"], ["s"]),
            helper.make_node("Size", ["s"], ["rank"]),
            helper.make_node("Cast", ["rank"], ["f"], to=F32),
            helper.make_node("Mul", ["x", "f"], ["m"]),
            helper.make_node("ReduceSum", ["m"], ["y"], keepdims=1),
        ],
        {"x": (F32, None)},
    )
    model = clgraph.compile(source, device="host")
    assert (model.inputs[0].shape, model.outputs[0].shape) == (None, None)
    for shape in ((), (3,), (2, 3), (1, 2, 1, 3), (0, 2)):
        x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        (found,) = model.run({"x": x}).values()
        assert found.shape == (1,) * len(shape)
        np.testing.assert_allclose(found, len(shape) * x.sum(keepdims=True), rtol=1e-5, atol=1e-6)
    assert clgraph.compile(source, device="host", shapes={"x": (2, "n")}).inputs[0].shape == (2, "n")


def test_a_repeated_name_of_a_size_is_no_constraint_and_outputs_are_as_declared() -> None:
    source = graph([helper.make_node("Transpose", ["x"], ["y"])], {"x": (F32, ("n", "n"))})
    source.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", F32, ("columns", "?")))
    model = clgraph.compile(source, device="host")
    assert model.inputs[0].shape == ("n", "n")
    assert model.run({"x": np.zeros((2, 3), np.float32)})["y"].shape == (3, 2)
    assert model.outputs[0].shape == ("columns", "?")
    assert clgraph.compile(source, device="host", shapes={"x": (2, 3)}).outputs[0].shape == (3, 2)
