"""The ways to call a model: by name, in order, by keyword; lists, numbers, arrays of other libraries; what it tells."""

from __future__ import annotations

import copy
import pickle
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import clgraph
from clgraph.core.dtype import DType
from clgraph.errors import InputError, UnsupportedError
from clgraph.model.feeds import literal
from tests.support.ort_models import identity, two_inputs

A, B = np.array([1, 2, 3], np.float32), np.array([10, 20, 30], np.float32)


@pytest.fixture(scope="module")
def model() -> clgraph.Model:
    return clgraph.compile(two_inputs(), device="host")


class Theirs:
    """An array of another library: torch's, as far as clgraph looks at it."""

    __module__ = "torch"

    def __init__(self, array: np.ndarray, requires_grad: bool = False) -> None:
        self._array, self.requires_grad = array, requires_grad

    def detach(self) -> Theirs:
        return Theirs(self._array)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        if self.requires_grad:
            raise RuntimeError("call detach first")
        return self._array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)


def test_feeds_come_by_name_in_order_and_by_keyword(model: clgraph.Model) -> None:
    want = model.run({"a": A, "b": B})
    calls = [
        model.run(A, B),
        model.run([A, B]),
        model.run((A, B)),
        model.run(a=A, b=B),
        model.run(A, b=B),
        model.run({"a": A}, b=B),
        model.run(A.tolist(), [10, 20, 30]),
        model.run_async(A, B).result(30),
    ]
    for results in calls:
        for name, array in want.items():
            np.testing.assert_array_equal(results[name], array)
    assert list(model.run({"a": A, "b": B}, ["difference"])) == ["difference"]
    assert list(model.run(A, B, outputs=["total"])) == ["total"]
    for results in (model(A, B), model([A, B]), model(a=A, b=B), model({"a": A, "b": B})):
        np.testing.assert_array_equal(results, tuple(want.values()))


def test_wrong_calls_say_what_is_wrong(model: clgraph.Model) -> None:
    for call, words in (
        (lambda: model.run(A), "input 'b' is missing; the inputs are 'a', 'b'"),
        (lambda: model.run(A, B, A), "3 arrays were given; the inputs are 'a', 'b'"),
        (lambda: model.run(A, B, a=A), "input 'a' is given twice"),
        (lambda: model.run(A, c=B), "input 'b' is missing, and no input is called 'c'; the inputs are 'a', 'b'"),
        (lambda: model.run(None, {"a": A, "b": B}), "feeds come first, the names of outputs behind them"),
        (lambda: model.run(["total"], {"a": A, "b": B}), "python -m clgraph.as_onnxruntime"),
        (lambda: model.run(A, B, c=B), "no input is called 'c'"),
    ):
        with pytest.raises(InputError, match=words):
            call()


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_model_that_is_pickled_or_copied_says_what_to_do(model: clgraph.Model, copied: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match=r"a Model cannot be pickled or copied: .* save\(path\) writes; .* clone\(\)"):
        copied(model)
    assert model.run(A, B)


def test_numbers_are_cast_where_nothing_is_lost() -> None:
    models = {
        dtype: clgraph.compile(identity(elem, None), device="host")
        for dtype, elem in (
            ("float32", TensorProto.FLOAT),
            ("float16", TensorProto.FLOAT16),
            ("int32", TensorProto.INT32),
            ("uint8", TensorProto.UINT8),
            ("bool", TensorProto.BOOL),
        )
    }
    kept = {
        "float32": [0.1, 1, True, [1, 2], [[0.5, 3]], 1 << 24, 1 << 70, range(3), np.float64(0.1), np.inf, []],
        "float16": [0.1, 65504, [1, 2.5]],
        "int32": [7, 7.0, True, [1, -2], np.int64(3)],
        "uint8": [255, [0.0, 1.0], True],
        "bool": [True, 1, 0.0, [0, 1]],
    }
    lost = {
        "float32": [(1 << 24) + 1, (1 << 70) + 1, 1e300, [0, -1e39]],
        "float16": [65520, [1e5]],
        "int32": [1.5, 1 << 31, 1 << 70, [0, np.nan], np.inf],
        "uint8": [-1, 256, [0.5]],
        "bool": [2, [0, 0.5]],
    }
    for dtype, model in models.items():
        for given in kept[dtype]:
            found = model(given)
            assert found.dtype == dtype
            np.testing.assert_array_equal(found, np.asarray(given).astype(dtype))
        for given in lost[dtype]:
            with pytest.raises(InputError, match=f"input 'x' holds .* (which|that) {dtype} cannot hold"):
                model(given)


def test_arrays_of_other_libraries_are_read_and_written(model: clgraph.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    made = types.SimpleNamespace(from_numpy=lambda array: Theirs(array))
    monkeypatch.setitem(sys.modules, "torch", made)
    place = Theirs(np.zeros(3, np.float32))
    results = model.run(Theirs(A, requires_grad=True), Theirs(B), outputs={"total": place, "difference": None})
    assert results["total"] is place
    np.testing.assert_array_equal(place._array, A + B)
    np.testing.assert_array_equal(results["difference"], A - B)
    total, difference = model(Theirs(A), Theirs(B))
    assert (type(total), type(difference)) == (Theirs, Theirs)
    assert type(model(Theirs(A), B)[0]) is np.ndarray
    copies = Theirs(A)
    copies.__class__ = type("Copying", (Theirs,), {"__array__": lambda self, *_, **__: self._array.copy()})
    with pytest.raises(InputError, match="whose memory NumPy cannot share"):
        model.run(A, B, outputs={"total": copies})


class Guarded(np.ndarray):
    """An array that is written to in a way of its own."""

    def __setitem__(self, key: Any, value: Any) -> None:
        raise AssertionError("written as an array of the derived class")


@pytest.mark.parametrize("size", [3, 1 << 15])
def test_results_go_into_views_that_interleave_and_into_derived_classes(size: int) -> None:
    model = clgraph.compile(two_inputs(size), device="host")
    a, b = np.arange(size, dtype=np.float32), np.ones(size, np.float32)
    both, guarded = np.zeros((size, 2), np.float32), np.zeros(size, np.float32).view(Guarded)
    model.run(a, b, outputs={"total": both[:, 0], "difference": both[:, 1]})
    np.testing.assert_array_equal(both, np.stack([a + b, a - b], 1))
    assert model.run(a, b, outputs={"total": guarded})["total"] is guarded
    np.testing.assert_array_equal(np.asarray(guarded), a + b)
    backwards = np.zeros((2, size), np.float32)[::-1, ::-1]
    model.run(a, b, outputs={"total": backwards[0], "difference": backwards[1]})
    np.testing.assert_array_equal(backwards, [a + b, a - b])


def test_a_wrong_type_is_told_in_the_words_of_the_library(
    model: clgraph.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Table:
        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            return np.array([1.0, None, "x"], object)

        def to_numpy(self) -> None: ...

    class Derived(Theirs):
        __module__ = "somebody"

    known = types.SimpleNamespace(from_numpy=Theirs, float32="float32", Tensor=Theirs)
    monkeypatch.setitem(sys.modules, "torch", known)
    with pytest.raises(InputError, match=r"float64; the model requires float32: \.to\(torch\.float32\) converts it"):
        model(Theirs(A.astype("f8")), B)
    with pytest.raises(InputError, match=r"a Table of objects; .*: \.to_numpy\('float32'\) converts it"):
        model(Table(), B)
    total, _ = model(Derived(A, requires_grad=True), Derived(B))
    np.testing.assert_array_equal(np.asarray(total), A + B)


def test_a_model_tells_what_its_file_says(tmp_path: Path) -> None:
    proto = two_inputs()
    proto.producer_name, proto.producer_version, proto.domain, proto.model_version = "pen", "2", "org.example", 3
    proto.doc_string, proto.graph.doc_string = "adds", "a graph"
    helper.set_model_props(proto, {"classes": "cat,dog"})
    model = clgraph.compile(proto, device="host")
    model.save(tmp_path / "saved.clg")
    for found in (model, clgraph.load(tmp_path / "saved.clg", device="host")):
        about = found.about
        assert (about.producer, about.producer_version, about.domain, about.version) == ("pen", "2", "org.example", 3)
        assert (about.graph, about.doc, about.graph_doc, about.ir_version) == ("two", "adds", "a graph", 8)
        assert about.opsets == (("", 17),)
        assert dict(found.metadata) == {"classes": "cat,dog"}
        assert (found.input_names, found.output_names) == (("a", "b"), ("total", "difference"))
        assert found.input_types == dict.fromkeys("ab", "tensor(float)")
        assert found.input_shapes == dict.fromkeys("ab", (3,))


def test_compile_and_load_do_what_is_meant_with_each_others_files(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(two_inputs().SerializeToString())
    clgraph.compile(tmp_path / "model.onnx", device="host").save(tmp_path / "saved.clg")
    (tmp_path / "junk").write_bytes(b"junk")
    for model in (
        clgraph.load(tmp_path / "model.onnx", device="host"),
        clgraph.compile(tmp_path / "saved.clg", device="host"),
        clgraph.compile(str(tmp_path / "saved.clg"), device="host", outputs=["total"]),
    ):
        np.testing.assert_array_equal(model.run(A, B)["total"], A + B)
    assert clgraph.compile(tmp_path / "saved.clg", device="host", outputs=["total"]).output_names == ("total",)
    opened = clgraph.compile(tmp_path / "saved.clg", device="host", shapes={"a": (3,), "b": (3,)})
    np.testing.assert_array_equal(opened(A, B)[0], A + B)
    for call in (clgraph.compile, clgraph.load):
        with pytest.raises(clgraph.errors.ModelError):
            call(tmp_path / "junk", device="host")


def test_overridable_initialisers_are_fed_or_not(tmp_path: Path) -> None:
    from tests.onnxruntime.test_sessions import overridable

    model = clgraph.compile(overridable(), device="host")
    x, w = np.arange(4, dtype=np.float32), np.full(4, 7, np.float32)
    assert [s.name for s in model.overridable] == ["w", "s"]
    model.save(tmp_path / "saved.clg")
    for found in (model, clgraph.load(tmp_path / "saved.clg", device="host")):
        np.testing.assert_array_equal(found(x), (x + 2).reshape(2, 2))
        np.testing.assert_array_equal(found(x, w=w), (x + w).reshape(2, 2))
        np.testing.assert_array_equal(found(x, s=np.array([4, 1])), (x + 2).reshape(4, 1))
        np.testing.assert_array_equal(found(x), (x + 2).reshape(2, 2))
        assert found.profile({"x": x, "w": w}).commands
        told: dict[Any, Any] = {}
        watcher = types.SimpleNamespace(before=told.setdefault, after=told.setdefault)
        np.testing.assert_array_equal(found.watch({"x": x, "w": w}, watcher)["y"], (x + w).reshape(2, 2))
        assert told


def test_an_initialiser_whose_elements_decide_shapes_can_be_fed(tmp_path: Path) -> None:
    """As ndonnx asks for the values of what it builds: with its own value the model needs no stages, fed it does."""
    from tests.onnxruntime.test_sessions import model_of

    x, chosen = np.arange(4, dtype=np.float32), np.array([True, False, True, True])
    values = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [4]),
        helper.make_tensor_value_info("c", TensorProto.BOOL, [4]),
    ]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    initial = [numpy_helper.from_array(x, "x"), numpy_helper.from_array(~chosen, "c")]
    graph = helper.make_graph([helper.make_node("Compress", ["x", "c"], ["y"])], "g", values, [result], initial)
    model = clgraph.compile(model_of(graph), device="host")
    model.save(tmp_path / "saved.clg")
    for found in (model, model.clone(), clgraph.load(tmp_path / "saved.clg", device="host")):
        np.testing.assert_array_equal(found(), [1])
        np.testing.assert_array_equal(found(c=chosen), [0, 2, 3])
        np.testing.assert_array_equal(found(x=x + 1, c=chosen), [1, 3, 4])
        np.testing.assert_array_equal(found(), [1])


def test_a_value_that_decided_what_was_compiled_is_fed_only_to_a_model_that_is_compiled_for_it() -> None:
    from tests.onnxruntime.test_sessions import model_of

    values = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [3]),
        helper.make_tensor_value_info("high", TensorProto.FLOAT, []),
    ]
    nodes = [helper.make_node("Clip", ["x", "", "high"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "clip",
        values,
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])],
        [helper.make_tensor("high", TensorProto.FLOAT, [], [2.0])],
    )
    model = clgraph.compile(model_of(graph), device="host")
    np.testing.assert_array_equal(model(A), [1, 2, 2])
    with pytest.raises(UnsupportedError, match=r"'high'.*shapes=\{'high'"):
        model(A, high=1.0)
    fed = clgraph.compile(model_of(graph), device="host", shapes={"high": ()})
    np.testing.assert_array_equal(fed(A, 1.0), [1, 1, 1])


@pytest.mark.opencl
def test_a_run_of_a_small_model_makes_few_calls_of_python() -> None:
    """What a run costs beside its kernels: a call takes 0.1-0.3 us, and a small model computes for 10."""
    model = clgraph.compile(two_inputs(), device="pocl")
    feeds = {"a": A, "b": B}
    model.run(feeds)
    called: list[str] = []
    sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_name) if event == "call" else None)
    try:
        model.run(feeds)
    finally:
        sys.setprofile(None)
    # One for each of: inputs and results, three times; engines, subgraphs and their steps; gates and locks on the way.
    assert len(called) <= 64, called


@pytest.mark.parametrize(
    ("dtype", "kept", "lost"),
    [
        (DType.BF16, [0.3, 1, [1.5, 256], np.inf], [257, 3.4e38, [1e39]]),
        (DType.F8E4M3FN, [0.3, [1, -448], np.nan], [17, 1000.0]),
        (DType.F8E5M2, [0.3, [1, 57344], np.inf], [17, 1e5]),
        (DType.F8E8M0, [0.5, 64], [0.0, -1, 17]),
        (DType.F4E2M1, [0.5, [6, -1.5]], [0.3, 8, 1e30, np.nan, np.inf]),
        (DType.I4, [-8, [7.0, 1]], [8, -9, 0.5]),
        (DType.U2, [3, True], [4, -1]),
    ],
)
def test_numbers_are_cast_to_narrow_types_where_nothing_is_lost(dtype: DType, kept: Any, lost: Any) -> None:
    for given in kept:
        found = literal(given, dtype.numpy, "input 'x'")
        assert found.dtype == dtype.numpy
        wanted = np.asarray(given).astype(dtype.numpy)
        np.testing.assert_array_equal(found.astype(np.float32), wanted.astype(np.float32))
    for given in lost:
        with pytest.raises(InputError, match=f"input 'x' holds .* which {dtype.numpy.name} cannot hold"):
            literal(given, dtype.numpy, "input 'x'")
