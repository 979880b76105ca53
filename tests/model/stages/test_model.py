"""Models in stages as a user meets them: other counts each run, outputs of one's own, reports, clones, refusals."""

import gc
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import clgraph
from clgraph.compilation.compiler import Compiler
from clgraph.debugging.compare import compare
from clgraph.errors import ClosedError, InputError, UnsupportedError
from clgraph.graph.topology import Topology
from clgraph.model.stages.handing import maps_of_a_run, nobody_elses
from clgraph.model.stages.model import StagedModel
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.matmul import MatMul
from clgraph.ops.non_zero import NonZero
from clgraph.ops.string_cast import StringCast
from clgraph.ops.transpose import Transpose
from clgraph.settings import settings
from tests.model.stages.test_control_flow import BY_DATA, conditional
from tests.support.graphs import agrees
from tests.support.models import image
from tests.support.oracle import expected
from tests.support.zoo_detection import detector

pytestmark = pytest.mark.opencl


def places() -> Topology:
    t = Topology()
    x = t.input("x", (4, 5))
    r = t.add("relu", Activation("relu"), x)
    found = t.add("places", NonZero(), r)
    t.output("y", t.add("double", Eltwise("add"), found, found))
    t.output("r", r)
    t.output("same", x)
    return t


def resident() -> float:
    """Return the memory of the process in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def want(x):
    return 2 * np.array(np.nonzero(np.maximum(x, 0)), np.int64)


def test_another_count_each_run(device, rng):
    model = clgraph.compile(places(), device=device)
    for scale in (1.0, 0.0, -1.0, 2.0):
        x = (scale * rng.standard_normal((4, 5))).astype(np.float32)
        np.testing.assert_array_equal(model.run({"x": x})["y"], want(x))


def test_runs_fed_like_the_one_before_skip_what_has_been_looked_at_and_others_do_not(device, rng):
    topology = Topology()
    topology.output("y", topology.add("places", NonZero(), topology.input("x", (4, None))))
    with clgraph.compile(topology, device=device) as model:
        x, wide = (rng.standard_normal((4, n)).astype(np.float32) for n in (5, 6))
        assert model.run_quickly({"x": x}) is None
        first = model.run({"x": x})["y"]
        second, third = model.run_quickly({"x": x})["y"], model.run_quickly({"x": np.zeros_like(x)})["y"]
        np.testing.assert_array_equal(first, np.nonzero(x))
        np.testing.assert_array_equal(second, first)
        assert third.shape == (2, 0)
        assert not np.may_share_memory(first, second)
        for other in ({"x": wide}, {"x": x.tolist()}, {"x": x.astype(np.float64)}, {"x": x, "z": x}, {}, [x]):
            assert model.run_quickly(other) is None
        np.testing.assert_array_equal(model.run({"x": wide})["y"], np.nonzero(wide))
        with pytest.raises(InputError, match="float64"):
            model.run({"x": x.astype(np.float64)})
    with pytest.raises(ClosedError):
        model.run({"x": wide})


def test_what_no_output_needs_is_left_out_whatever_its_shape_depends_on(device, rng):
    x = rng.standard_normal((4, 5)).astype(np.float32)
    model = clgraph.compile(places(), device=device, outputs=["r"])
    assert not isinstance(model, StagedModel)
    np.testing.assert_array_equal(model.run({"x": x})["r"], np.maximum(x, 0))


def test_outputs_are_the_callers_own(device, rng):
    model = clgraph.compile(places(), device=device)
    x = rng.standard_normal((4, 5)).astype(np.float32)
    first = model.run({"x": x})
    assert not any(np.may_share_memory(first["same"], a) for a in (x, first["r"]))
    kept = {name: a.copy() for name, a in first.items()}
    model.run({"x": -x})
    for name, array in first.items():
        np.testing.assert_array_equal(array, kept[name])


def test_outputs_go_where_they_are_wanted(device, rng):
    model = clgraph.compile(places(), device=device)
    x = np.ones((4, 5), np.float32)
    target, tensor = np.empty((2, 20), np.int64), clgraph.Tensor.empty((4, 5), device=device)
    results = model.run({"x": x}, {"y": target, "r": tensor})
    assert results["y"] is target
    assert results["r"] is tensor
    assert set(results) == {"y", "r"}
    np.testing.assert_array_equal(target, want(x))
    np.testing.assert_array_equal(tensor.numpy(), x)
    assert isinstance(model.run({"x": x}, ["y"], tensors=True)["y"], clgraph.Tensor)


def test_clones_and_futures_run_on_their_own(device, rng):
    model = clgraph.compile(places(), device=device)
    arrays = [rng.standard_normal((4, 5)).astype(np.float32) for _ in range(6)]
    twin = model.clone()
    futures = [m.run_async({"x": x}) for x in arrays for m in (model, twin)]
    for i, future in enumerate(futures):
        np.testing.assert_array_equal(future.result()["y"], want(arrays[i // 2]))
    twin.close()
    np.testing.assert_array_equal(model.run({"x": arrays[0]})["y"], want(arrays[0]))


def test_reports_name_every_layer_and_where_it_runs(device, rng):
    model = clgraph.compile(places(), device=device)
    model.run({"x": np.ones((4, 5), np.float32)})
    report = model.explain()
    assert report["relu"].placement == device
    assert report["places"].placement == report["double"].placement == "host"
    assert "decides shapes" in report.notes["stages"]
    assert [note.split(":")[0] for note in model.notes] == ["stage 0", "stage 1", "stage 2"]
    profile = model.profile({"x": np.ones((4, 5), np.float32)})
    assert set(profile.by_node()) == {"relu", "places", "double"}


def test_a_large_piece_is_compiled_and_a_small_one_of_it_is_not(device, rng, monkeypatch):
    monkeypatch.setattr("clgraph.model.stages.host_piece.HOST_OPERATIONS", 500.0)
    t = Topology()
    x = t.input("x", (40,))
    found = t.add("found", NonZero(), x)
    y = t.add("product", MatMul(), t.add("turned", Transpose((1, 0)), t.add("float", Activation("abs"), found)), found)
    t.output("y", y)
    model = clgraph.compile(t, device=device)
    for count in (3, 40, 7, 39):
        x = np.zeros(40, np.float32)
        x[:count] = 1
        row = np.arange(count)
        np.testing.assert_array_equal(model.run({"x": x})["y"], np.outer(row, row))
        assert ("compiled" if count > 10 else "on the host by references") in model.notes[-1]


def test_strict_refuses_what_only_the_host_computes(device):
    with pytest.raises(UnsupportedError, match=r"'places' \(non_zero\)"):
        clgraph.compile(places(), device=device, config={"strict": True})


def test_wrong_feeds_are_refused(device):
    model = clgraph.compile(places(), device=device)
    for feeds in ({}, {"x": np.ones((4, 6), np.float32)}, {"x": np.ones((4, 5))}, {"x": 1.0, "y": 2.0}):
        with pytest.raises(InputError):
            model.run(feeds)
    with pytest.raises(InputError, match="y"):
        model.run({"x": np.ones((4, 5), np.float32)}, ["z"])


def test_a_detector_finds_what_onnxruntime_finds(device):
    source = detector(64, 0.125, 5)
    model = clgraph.compile(source, device=device)
    counts = []
    for threshold in (0.0, 0.4, 0.5, 0.55, 1.0):
        feeds = {"images": image((1, 3, 64, 64)), "threshold": np.array([threshold], np.float32)}
        (got,), (there,) = model.run(feeds).values(), expected(source, feeds).values()
        assert got.shape == there.shape
        # Boxes are tens of pixels from sums of hundreds of products: relative 1e-5 is ten times their rounding.
        np.testing.assert_allclose(got, there, rtol=1e-4, atol=1e-3)
        counts.append(len(got))
    assert counts[0] > counts[2] > counts[-1] == 0


def test_memory_stays_flat_over_many_counts(device, rng):
    model = clgraph.compile(places(), device=device)

    def run(times: int) -> None:
        for i in range(times):
            x = np.full((4, 5), -1, np.float32)
            x.ravel()[: i % 21] = 1
            assert model.run({"x": x})["y"].shape == (2, i % 21)

    run(200)
    gc.collect()
    before = resident()
    run(800)
    gc.collect()
    assert resident() - before < 8


@pytest.mark.parametrize("where", ["device", "host"])
def test_a_saved_model_has_its_stages_and_bodies(where, device, rng, tmp_path):
    source = conditional(BY_DATA, zero=np.float32(0))
    path = tmp_path / "model.clg"
    clgraph.compile(source, device=device).save(path)
    loaded = clgraph.load(path, device=device if where == "device" else "host")
    for sign in (1, -1):
        x = sign * np.abs(rng.standard_normal((2, 3))).astype(np.float32)
        agrees(loaded, source, {"x": x})


def test_compare_walks_the_compiled_stages(device, rng):
    options = settings().with_(device=device)
    found = compare(places(), {"x": rng.standard_normal((4, 5)).astype(np.float32)}, options)
    assert found.agrees
    assert [n.node for n in found.nodes] == ["relu"]
    assert {o.name for o in found.outputs} == {"y", "r", "same"}
    torn = compare(
        places(),
        {"x": np.ones((4, 5), np.float32)},
        options,
        expected={"y": want(np.zeros((4, 5))), "r": np.ones((4, 5), np.float32), "same": np.ones((4, 5), np.float32)},
    )
    assert not torn.agrees


def test_what_stages_are_given_is_recorded_of_feeds_that_override_initialisers(device):
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[3] x, float[3] w) => (int64[1, found] y) <float[3] w = {1.0, 2.0, 3.0}> { s = Add(x, w) y = NonZero(s) }"""
    model = clgraph.compile(onnx.parser.parse_model(text), device=device)
    assert isinstance(model, StagedModel)
    x = np.array([-1, 1, 1], np.float32)
    np.testing.assert_array_equal(model.record({"x": x})[0]["y"], [[1, 2]])
    found, _ = model.record({"x": x, "w": np.array([1, -1, -1], np.float32)})
    assert found["y"].shape == (1, 0)


def test_values_stay_on_a_device_with_memory_of_its_own(device, rng):
    """PoCL stands in for it: the stages only see that results come as tensors."""
    compiler = Compiler(settings().with_(device=device))
    info = replace(compiler.context.default, features=compiler.context.default.features - {"host_memory"})
    model = StagedModel(places(), info, compiler.specialise)
    assert all(piece.tensors for piece in model._runner.pieces)
    x = rng.standard_normal((4, 5)).astype(np.float32)
    results = model.run({"x": clgraph.Tensor(x, device)}, tensors=True)
    assert all(isinstance(a, clgraph.Tensor) for a in results.values())
    np.testing.assert_array_equal(results["y"].numpy(), want(x))
    np.testing.assert_array_equal(model.run({"x": x})["r"], np.maximum(x, 0))


def test_what_the_host_makes_is_copied_only_where_somebody_else_has_it():
    made, given = np.arange(4), np.arange(4)
    results = {"made": made, "given": given, "view": np.arange(4)[1:]}
    del made
    assert [nobody_elses(results, name) for name in results] == [True, False, False]
    results["made"].flags.writeable = False
    assert not nobody_elses(results, "made")


def test_a_result_that_was_given_its_shape_last_is_not_copied():
    kept = np.arange(4)
    results = {
        "shaped": np.arange(4).reshape(2, 2),
        "part": np.arange(5)[:4].reshape(2, 2),
        "kept": kept.reshape(2, 2),
        "one of two": (twice := np.arange(4)).reshape(2, 2),
        "other of two": twice.reshape(4, 1),
        "bytes": np.frombuffer(b"four", np.uint8).reshape(2, 2),
    }
    del twice
    assert [nobody_elses(results, name) for name in results] == [True, False, False, False, False, False]


def test_what_only_the_host_computes_runs_without_asking_who_does(device, monkeypatch):
    t = Topology()
    t.output("y", t.add("text", StringCast(), t.input("x", (2, 2), np.int64)))
    with clgraph.compile(t, device=device) as model:
        assert not model._runner._warns
        monkeypatch.setattr(type(model._runner.pieces[0]), "run", None)
        for _ in range(3):
            assert model.run({"x": np.array([[1, -2], [3, 1 << 40]])})["y"].tolist() == [
                ["1", "-2"],
                ["3", str(1 << 40)],
            ]


def test_maps_are_copied_only_where_somebody_else_has_them():
    def made():
        return tuple([{"a": i} for i in range(3)])

    held, kept = made(), made()
    results = {"alone": made(), "held": held, "twice": made(), "element": kept[:2], "texts": ("a",)}
    results["again"] = results["twice"]
    wanted = dict.fromkeys(results) | {"alone": [*made()]}
    assert {name: maps_of_a_run(results, name) for name in results} == wanted
