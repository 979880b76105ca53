"""Runs that are fed like the one before: they skip what has been looked at, and nothing else differs."""

import os
import pickle
import threading
import weakref

import numpy as np
import pytest
from onnx import TensorProto, helper

import clgraph
import clgraph.onnxruntime as served
from clgraph.errors import (
    ClosedError,
    DeviceError,
    InputError,
    InternalError,
    ModelError,
    RunCancelledError,
    RunTimeoutError,
)
from clgraph.network.addresses import LEAST_BYTES
from clgraph.onnxruntime import statuses
from clgraph.runtime import process
from clgraph.runtime.at_exit import GATE
from tests.support.graphs import FLOAT
from tests.support.open_models import open_model, reshaping

pytestmark = pytest.mark.opencl


def small(count=3):
    """``y = x + bias``, ``z = -x``."""
    nodes = [helper.make_node("Add", ["x", "b"], ["y"]), helper.make_node("Neg", ["x"], ["z"])]
    made = open_model(nodes, {"x": (FLOAT, (2, count)), "b": (FLOAT, (count,))})
    made.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, None))
    return made


def quick_runs(model):
    quick = model._specialisations.latest.network.quick
    return None if quick is None else quick.runs


@pytest.fixture
def model(device):
    with clgraph.compile(small(), device=device) as made:
        yield made


X = np.float32([[1, -2, 3], [4, 5, -6]])
B = np.float32([10, 20, 30])


def right(results, x=X, b=B):
    assert list(results) == ["y", "z"]
    np.testing.assert_array_equal(results["y"], x + b)
    np.testing.assert_array_equal(results["z"], -x)
    return results


def test_arrays_that_were_pickled_are_as_quick(model):
    model.run({"x": X, "b": B})
    feeds = pickle.loads(pickle.dumps({"x": X, "b": B}))  # each with an element type of its own, as NumPy makes them
    assert feeds["x"].dtype is not X.dtype
    right(model.run_quickly(feeds))
    assert model.run_quickly({"x": X.astype(">f4"), "b": B}) is None


def test_the_second_run_is_quick_and_returns_arrays_of_its_own(model):
    first = right(model.run({"x": X, "b": B}))
    assert quick_runs(model) == 0
    second = right(model.run({"b": B, "x": X}))
    third = right(model.run({"x": -X, "b": 2 * B}), -X, 2 * B)
    assert quick_runs(model) == 2
    for one, other in ((first, second), (second, third), (first, third)):
        assert not np.may_share_memory(one["y"], other["y"])
    second["y"][:] = 0
    right(model.run({"x": X, "b": B}))
    assert model.profile({"x": X, "b": B}).copies == dict.fromkeys("xbyz", "copied")


def test_feeds_of_other_kinds_take_the_way_that_looks_at_them(model):
    model.run({"x": X, "b": B})
    for x, b in (
        (X.tolist(), B),
        (X.astype(">f4"), B),
        (model.run({"x": -X, "b": B}, tensors=True)["z"], B),
        (np.asfortranarray(X), B[::-1][::-1]),
        (np.repeat(X, 2, 1)[:, ::2], B),
    ):
        right(model.run({"x": x, "b": b}))
    right(model.run(X, B))
    right(model.run(x=X, b=B))
    with pytest.raises(InputError, match="float64"):
        model.run({"x": X.astype(np.float64), "b": B})
    with pytest.raises(InputError, match=r"\[3, 3\]"):
        model.run({"x": np.zeros((3, 3), np.float32), "b": B})
    with pytest.raises(InputError, match="'b' is missing, and no input is called 'c'"):
        model.run({"x": X, "c": B})
    with pytest.raises(InputError, match="no input is called 'c'"):
        model.run({"x": X, "b": B, "c": B})
    y = np.empty_like(X)
    assert model.run({"x": X, "b": B}, outputs={"y": y})["y"] is y
    assert list(model.run({"x": X, "b": B}, {"z": None})) == ["z"]
    right(model.run({"x": X, "b": B}))


def test_a_run_that_is_to_end_is_ended(model):
    model.run({"x": X, "b": B})
    ended = clgraph.Cancellation()
    ended.cancel()
    with pytest.raises(RunCancelledError):
        model.run({"x": X, "b": B}, cancellation=ended)
    with pytest.raises(RunTimeoutError):
        model.run({"x": X, "b": B}, timeout=0)
    right(model.run({"x": X, "b": B}))


def test_a_closed_model_and_a_forked_process_are_refused(device, monkeypatch):
    model = clgraph.compile(small(), device=device)
    for _ in range(2):
        right(model.run({"x": X, "b": B}))
    with monkeypatch.context() as patch:
        patch.setattr(process._OWNER, "left", True)
        with pytest.raises(DeviceError, match="forked"):
            model.run({"x": X, "b": B})
    network = weakref.ref(model._specialisations.latest.network)
    model.close()
    assert network() is None
    with pytest.raises(ClosedError):
        model.run({"x": X, "b": B})


def test_what_fails_in_it_is_what_fails_in_any_run(model):
    session = served.InferenceSession(small().SerializeToString())
    session.run(None, {"x": X, "b": B})
    for broken, way in ((model, model.run), (session.model, lambda feeds: session.run(None, feeds))):
        broken.run({"x": X, "b": B})
        network = broken._specialisations.latest.network
        failure, steps = network.bound.failures[0], network.quick._steps
        network.quick._steps = (lambda made=failure: (_ for _ in ()).throw(made("refused")),)
        expected = DeviceError if broken is model else statuses.RuntimeException
        with pytest.raises(expected, match="the device failed while running: refused"):
            way({"x": X, "b": B})
        network.quick._steps = (lambda: 1 // 0,)
        expected = InternalError if broken is model else statuses.RuntimeException
        with pytest.raises(expected, match="a run of the model failed: ZeroDivisionError"):
            way({"x": X, "b": B})
        network.quick._steps = (lambda: (_ for _ in ()).throw(KeyboardInterrupt()),)
        with pytest.raises(KeyboardInterrupt):
            way({"x": X, "b": B})
        network.quick._steps = steps
        right(broken.run({"x": X, "b": B}))
    session.model.close()


def test_workers_that_waited_in_vain_are_reported(model):
    model.run({"x": X, "b": B})
    quick = model._specialisations.latest.network.quick
    if not quick._words:
        pytest.skip("its steps are not joined")
    steps = quick._steps
    quick._steps = (*steps, lambda: quick._words[0].__setitem__(0, 1))
    with pytest.raises(DeviceError, match="waited in vain"):
        model.run({"x": X, "b": B})
    quick._steps = steps
    right(model.run({"x": X, "b": B}))


def test_shapes_that_change_and_values_that_decide_sizes_are_looked_at(device):
    with clgraph.compile(open_model([helper.make_node("Neg", ["x"], ["y"])], {"x": (FLOAT, ("n",))})) as model:
        for count in (3, 3, 5, 5, 3, 3, 0, 0):
            x = np.arange(count, dtype=np.float32)
            np.testing.assert_array_equal(model.run({"x": x})["y"], -x)
            assert model.program.inputs[0].layout.shape == (count,)
    with clgraph.compile(reshaping(), device=device) as model:
        x = np.arange(12, dtype=np.float32).reshape(2, 6)
        for shape in ((3, 4), (3, 4), (4, 3), (4, 3), (2, 6)):
            assert model.run({"x": x, "shape": np.int64(shape)})["y"].shape == shape
        given = np.int64([6, 2])
        for _ in range(3):
            assert model.run({"x": x, "shape": given})["y"].shape == (6, 2)
        before = quick_runs(model)
        given[:] = 3, 4  # the same array
        for shape in ((3, 4), (3, 4), (12, 1), (3, 4)):
            given[:] = shape
            np.testing.assert_array_equal(model.run({"x": x, "shape": given})["y"], x.reshape(shape))
        assert before in (None, 2)


def test_values_that_decide_sizes_are_those_of_before_the_run(device):
    memory = np.int64([4, 3, 0, 0, 0, 0])
    y = memory.view(np.float32).reshape(4, 3)  # over the feed of the shape, which the result makes another one
    x = np.int64([3, 4, 0, 0, 0, 0]).view(np.float32).reshape(2, 6)
    with clgraph.compile(reshaping(), device=device) as model:
        model.run({"x": x, "shape": memory[:2]}, outputs={"y": y})
        if memory[:2].tolist() != [3, 4]:
            pytest.skip("the device flushes numbers that small")
        for _ in range(2):
            assert model.run({"x": x, "shape": np.int64([3, 4])})["y"].shape == (3, 4)


def test_a_network_of_the_host_alone_is_run_quickly(device):
    numbers = {"coefficients": [1.0, 2.0, 3.0], "rho": [0.5], "n_supports": 0, "one_class": 1}
    node = helper.make_node("SVMRegressor", ["x"], ["y"], domain="ai.onnx.ml", **numbers)
    graph = helper.make_graph(
        [node],
        "host",
        [helper.make_tensor_value_info("x", FLOAT, (2, 3))],
        [helper.make_tensor_value_info("y", FLOAT, (2, 1))],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    with clgraph.compile(helper.make_model(graph, opset_imports=opsets), device=device) as model:
        for count in range(4):
            x = X * count
            np.testing.assert_array_equal(model.run({"x": x})["y"], np.sign(x @ np.float32([[1], [2], [3]]) + 0.5))
        network = model._specialisations.latest.network
        assert quick_runs(model) == (None if network.bound.engines else 3)
        assert not network.bound.host.arrays
        model.run({"x": np.asfortranarray(X)})


def test_strings_are_looked_at_in_every_run(device):
    made = open_model(
        [helper.make_node("Equal", ["a", "b"], ["y"])],
        {"a": (TensorProto.STRING, (2,)), "b": (TensorProto.STRING, (2,))},
    )
    made.opset_import[0].version = 19
    made.graph.output[0].type.tensor_type.elem_type = TensorProto.BOOL
    with clgraph.compile(made, device=device) as model:
        for a, b in ((["p", "q"], ["p", "r"]), (["", "é"], ["x", "é"]), (["p", "p"], ["p", "p"])):
            found = model.run({"a": np.array(a, object), "b": np.array(b, object)})["y"]
            assert found.tolist() == [one == other for one, other in zip(a, b, strict=True)]
        with pytest.raises(InputError, match=r"'b' is .* give it as an array of str, not of int"):
            model.run({"a": np.array(["p", "q"], object), "b": np.array(["p", 1], object)})


@pytest.mark.parametrize("large", [True, False])
def test_a_model_whose_constants_lie_in_a_file_runs_quickly_and_looks_at_the_file(large, device, tmp_path):
    count = LEAST_BYTES // 4 if large else 3
    x, b = np.float32(np.random.default_rng(1).uniform(-1, 1, (2, 1, count)))
    nodes = [helper.make_node("Identity", ["b"], ["z"]), helper.make_node("Add", ["x", "b"], ["y"])]
    made = open_model(nodes, {"x": (FLOAT, (1, count))}, {"b": b})
    made.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, None))
    clgraph.compile(made, device=device).save(tmp_path / "m.clg")
    with clgraph.load(tmp_path / "m.clg", device=device) as model:
        for _ in range(4):
            np.testing.assert_array_equal(model.run({"x": x})["y"], x + b)
        assert quick_runs(model) == 3
        assert model._specialisations.latest.network._workspace.constants.near._runs == (4 if large else 0)
        # Of a page that the file still has something of all bytes can be read: what is wrong fails, and is not killed.
        os.truncate(tmp_path / "m.clg", (tmp_path / "m.clg").stat().st_size - 1 if large else 100)
        if large:
            with pytest.raises(ModelError, match="was cut"):
                model.run({"x": x})
        else:  # small constants were copied, and what is left of the file is no matter
            results = model.run({"x": x})
            np.testing.assert_array_equal(results["y"], x + b)
            np.testing.assert_array_equal(results["z"], b)


def test_a_model_of_constants_alone_is_run_quickly(device):
    made = open_model([helper.make_node("Neg", ["b"], ["y"])], {}, {"b": B})
    with clgraph.compile(made, device=device) as model:
        for _ in range(3):
            np.testing.assert_array_equal(model.run({})["y"], -B)
        assert quick_runs(model) == 2


def test_what_might_be_a_cache_and_is_none_is_run_quickly(device):
    made = open_model(
        [helper.make_node("Concat", ["x", "b"], ["y"], axis=0)], {"x": (FLOAT, (2, 3)), "b": (FLOAT, (2, 3))}
    )
    with clgraph.compile(made, device=device) as model:
        for _ in range(2):
            np.testing.assert_array_equal(model.run({"x": X, "b": -X})["y"], np.concatenate([X, -X]))
        assert quick_runs(model) == 1


def test_large_arrays_are_used_where_they_lie(device):
    made = open_model([helper.make_node("Neg", ["x"], ["y"])], {"x": (FLOAT, (128, 256))})
    with clgraph.compile(made, device=device) as model:
        x = np.random.default_rng(0).standard_normal((128, 512)).astype(np.float32)
        given = np.ascontiguousarray(x[:, ::2])
        for y in [model.run({"x": feed})["y"] for feed in (given, given, x[:, ::2], given)]:
            np.testing.assert_array_equal(y, -given)
        if quick_runs(model) is not None:
            assert quick_runs(model) == 2
            assert model._specialisations.latest.network.copies == {
                "x": "read in place",
                "y": "written in place",
            }


def test_threads_take_turns_and_daemons_among_them(model):
    model.run({"x": X, "b": B})
    wrong = []

    def work(number):
        x = X * number
        for _ in range(50):
            results = model.run({"x": x, "b": B})
            if not ((results["y"] == x + B).all() and (results["z"] == -x).all()):
                wrong.append(number)

    for daemon in (False, True):
        before = quick_runs(model)
        threads = [threading.Thread(target=work, args=(n,), daemon=daemon) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
        assert quick_runs(model) == before + 150


def test_a_daemon_runs_quickly_behind_the_gate_of_drivers(model):
    model.run({"x": X, "b": B})
    latest, quick, deciding = model._quick
    inside = []

    def seen(feeds):
        inside.append(threading.get_ident() in GATE._inside)
        return quick(feeds)

    model._quick = latest, seen, deciding
    for daemon in (False, True):
        thread = threading.Thread(target=model.run, args=({"x": X, "b": B},), daemon=daemon)
        thread.start()
        thread.join()
    assert inside == [False, True]
    assert not GATE._inside


def test_a_clone_runs_quickly_of_itself(model):
    right(model.run({"x": X, "b": B}))
    with model.clone() as clone:
        for _ in range(2):
            right(clone.run({"x": X, "b": B}))
        assert (quick_runs(model), quick_runs(clone)) == (0, 1)


def test_a_session_returns_what_is_asked_for():
    session = served.InferenceSession(small().SerializeToString())
    for _ in range(2):
        for names, wanted in ((None, "yz"), (["y", "z"], "yz"), (["z", "y"], "zy"), (["z"], "z"), ([], "yz")):
            found = session.run(names, {"x": X, "b": B})
            for name, array in zip(wanted, found, strict=True):
                np.testing.assert_array_equal(array, X + B if name == "y" else -X)
        with pytest.raises(statuses.InvalidArgument, match="Unexpected input data type"):
            session.run(None, {"x": X.astype(np.float64), "b": B})
        with pytest.raises(ValueError, match="missing from input feed"):
            session.run(None, {"x": X})
    session.model.close()


def test_shapes_that_have_a_program_run_as_if_they_had_come_before(device):
    nodes = [helper.make_node("Reshape", ["x", "to"], ["r"]), helper.make_node("Neg", ["r"], ["y"])]
    source = open_model(nodes, {"x": (FLOAT, ("n", 6)), "to": (TensorProto.INT64, (2,))})
    with clgraph.compile(source, device=device) as made:
        order = [(n, to) for n in (2, 4) for to in ((-1, 3), (3, -1))]
        for n, to in order:
            feeds = {"x": np.full((n, 6), n, np.float32), "to": np.array(to)}
            assert made.run_again(feeds) is None
            made.run(feeds)
        for n, to in order[::-1] * 2:
            feeds = {"x": np.arange(6.0 * n, dtype=np.float32).reshape(n, 6), "to": np.array(to)}
            np.testing.assert_array_equal(made.run_again(feeds)["y"], -feeds["x"].reshape(to))
            assert quick_runs(made) > 0
        feeds["x"] = feeds["x"].tolist()
        assert made.run_again(feeds) is None
    assert made.run_again({"x": np.zeros((2, 6), np.float32), "to": np.array((3, -1))}) is None
