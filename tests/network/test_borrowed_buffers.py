"""Inputs and constants that are read where they are."""

import gc
import mmap
import weakref

import numpy as np
import pytest

import clgraph
from clgraph.core.aligned import aligned
from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import InputError
from clgraph.graph.node import Value
from clgraph.graph.program import Program
from clgraph.network.addresses import LEAST_BORROWED
from clgraph.network.borrowed_buffers import KNOWN
from clgraph.network.borrowing import writable_in_place
from clgraph.network.network import Network
from clgraph.ops.activation import Activation
from clgraph.ops.concat import Concat
from clgraph.ops.convolution import Convolution
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.gather import Gather
from clgraph.ops.layer_normalization import LayerNormalization
from clgraph.ops.matmul import MatMul
from clgraph.ops.reshape import Reshape
from clgraph.ops.reverse_sequence import ReverseSequence
from clgraph.ops.slice import Slice
from clgraph.ops.softmax import Softmax
from clgraph.ops.transpose import Transpose
from clgraph.runtime.engine import Engine
from tests.support.tiny import Scale, ScaleTile, linked, planned

pytestmark = pytest.mark.opencl
RNG = np.random.default_rng(9)
SHAPE = (1, 3, 95, 97)
COUNT = 3 * 95 * 97


def topology(second_reader=False):
    """A first layer on a picture; its input is read by tile functions that take any alignment, or also by others."""
    made = clgraph.Topology()
    x = made.input("x", SHAPE)
    w = made.constant("w", np.random.default_rng(1).standard_normal((20, 3, 3, 3)).astype(np.float32))
    y = made.add("y", Convolution((2, 2), (1, 1), ((1, 1), (1, 1))), x, w)
    made.output("y", y)
    if second_reader:
        lengths = made.constant("lengths", np.array([2]))
        made.output("z", made.add("z", ReverseSequence(batch=0, time=1), x, lengths))
    return made


def compiled(device, executor, **options):
    # The second reader is a kernel, which needs aligned memory.
    config = {"executor": executor, "deny_kernels": ["reverse_sequence.rows"]}
    model = clgraph.compile(topology(**options), device=device, config=config)
    return model, model._current().network


@pytest.fixture(params=["stream", "persistent"])
def lent(request, device, engine):
    if "host_memory" not in engine.info.features:
        pytest.skip("the device copies")
    model, network = compiled(device, request.param)
    assert [v.name for v in network.bound.places[engine.info.name].borrowed][:1] == ["x"]
    return model


@pytest.mark.parametrize("floats", [0, 1, 7, 15])
def test_an_array_at_any_address_is_read_where_it_lies(lent, floats, monkeypatch):
    lends, lend = [], Engine.lend_at
    monkeypatch.setattr(Engine, "lend_at", lambda e, at, nbytes: lends.append(at) or lend(e, at, nbytes))
    memory = RNG.standard_normal(COUNT + floats).astype(np.float32)
    x = memory[floats:].reshape(SHAPE)
    want = lent.run({"x": x})["y"]
    x.flags.writeable = False
    np.testing.assert_array_equal(lent.run({"x": x})["y"], want)
    # Addresses that are no float's, and arrays that are not contiguous, are copied.
    odd = np.zeros(COUNT * 4 + 1, np.uint8)[1:].view(np.float32).reshape(SHAPE)
    odd[...] = x
    assert not odd.flags.aligned
    np.testing.assert_array_equal(lent.run({"x": odd})["y"], want)
    assert x.ctypes.data in lends
    assert odd.ctypes.data not in lends
    np.testing.assert_array_equal(lent.run({"x": np.asfortranarray(x)})["y"], want)
    np.testing.assert_array_equal(lent.run({"x": x})["y"], want)


def test_each_run_reads_the_array_it_is_given_and_keeps_none(lent):
    for _ in range(5):
        x = RNG.standard_normal(SHAPE).astype(np.float32)
        got = lent.run({"x": x})["y"]
        kept = x.copy()
        x[...] = np.nan
        np.testing.assert_array_equal(lent.run({"x": kept})["y"], got)
        assert np.isnan(lent.run({"x": x})["y"]).all()
        gone = weakref.ref(x)
        del x
        assert gone() is None


def test_an_address_is_told_to_the_driver_once_and_few_are_remembered(lent, monkeypatch):
    lends, lend = [], Engine.lend_at
    monkeypatch.setattr(Engine, "lend_at", lambda e, at, nbytes: lends.append(at) or lend(e, at, nbytes))
    pictures = [RNG.standard_normal(SHAPE).astype(np.float32) for _ in range(KNOWN + 1)]
    wanted = [lent.run({"x": x})["y"].copy() for x in pictures]
    places = [x.ctypes.data for x in pictures]
    assert [at for at in lends if at in places] == places
    for _ in range(2):
        for at in (KNOWN, 1, KNOWN, 2):
            np.testing.assert_array_equal(lent.run({"x": pictures[at]})["y"], wanted[at])
    assert [at for at in lends if at in places] == places
    np.testing.assert_array_equal(lent.run({"x": pictures[0]})["y"], wanted[0])
    assert [at for at in lends if at in places] == [*places, places[0]]


def test_memory_that_the_caller_has_given_up_is_not_touched(lent):
    room = mmap.mmap(-1, COUNT * 4)
    x = np.frombuffer(room, np.float32).reshape(SHAPE)
    x[...] = RNG.standard_normal(SHAPE)
    moved = x.copy()
    want = lent.run({"x": x})["y"].copy()
    del x
    room.close()
    np.testing.assert_array_equal(lent.run({"x": moved})["y"], want)
    with pytest.raises(InputError):
        lent.run({"x": moved[:, :, :5]}, outputs={"y": want})
    for _ in range(KNOWN + 1):
        np.testing.assert_array_equal(lent.run({"x": moved.copy()})["y"], want)
    lent.close()
    gc.collect()


def test_a_lent_input_gives_what_a_copied_one_gives(device, lent):
    copied, network = compiled(device, "stream", second_reader=True)
    assert "x" not in [v.name for places in network.bound.places.values() for v in places.borrowed]
    x = RNG.uniform(0.5, 1.5, SHAPE).astype(np.float32)
    results = copied.run({"x": x})
    np.testing.assert_array_equal(results["z"], x[:, [1, 0, 2]])
    np.testing.assert_array_equal(lent.run({"x": x})["y"], results["y"])
    assert lent.profile({"x": x}).commands


def test_rows_that_are_moved_or_computed_are_read_at_any_address(device, engine):
    if "host_memory" not in engine.info.features:
        pytest.skip("the device copies")
    made = clgraph.Topology()
    shape = (1, 3, 96, 97)
    x = made.input("x", shape)
    ones = made.constant("ones", np.ones(97, np.float32))
    picked = made.constant("picked", np.array([2, 0]))
    results = {
        "relu": (Activation("relu"), x),
        "sum": (Eltwise("add"), x, ones),
        "rows": (Transpose((0, 2, 1, 3)), x),
        "columns": (Transpose((0, 1, 3, 2)), x),
        "softmax": (Softmax((3,)), x),
        "planes": (Softmax((1,)), x),
        "normal": (LayerNormalization(3), x, ones, ones),
        "gather": (Gather(1), x, picked),
        "both": (Concat(1), x, x),
    }
    for name, (primitive, *inputs) in results.items():
        made.output(name, made.add(name, primitive, *inputs))
    model = clgraph.compile(made, device=device)
    memory = RNG.standard_normal(3 * 96 * 97 + 7).astype(np.float32)
    given = memory[7:].reshape(shape)
    found = model.run({"x": given})
    profile = model.profile({"x": given})
    assert "x: read in place" in str(profile), profile
    moved = np.zeros(shape, np.float32)
    moved[...] = given
    for name, array in model.run({"x": moved}).items():
        np.testing.assert_array_equal(found[name], array, name)
    np.testing.assert_array_equal(found["rows"], given.transpose(0, 2, 1, 3))
    np.testing.assert_array_equal(found["sum"], given + 1)


def test_a_right_side_that_blocks_of_rows_read_is_copied(device, engine):
    if "host_memory" not in engine.info.features:
        pytest.skip("the device copies")
    made = clgraph.Topology()
    a, b = made.input("a", (400, 256)), made.input("b", (256, 192))
    made.output("y", made.add("y", MatMul(), a, b))
    model = clgraph.compile(made, device=device)
    memory, right = RNG.standard_normal(400 * 256 + 7).astype(np.float32), RNG.standard_normal((256, 192))
    feeds = {"a": memory[7:].reshape(400, 256), "b": right.astype(np.float32)}
    profile = str(model.profile(feeds))
    assert "a: read in place" in profile, profile
    assert "b: copied" in profile, profile
    moved = feeds | {"a": feeds["a"].copy()}
    np.testing.assert_array_equal(model.run(feeds)["y"], model.run(moved)["y"])


def constant(array):
    """Return an input, a constant, and a tile of both that wants them aligned."""
    x = Value("x", Layout(DType.F32, array.shape))
    k = Value("k", Layout(DType.F32, array.shape), constant=array)
    return x, k, linked(x, Scale(1.0, 1), "n", k)


def bound(engine, array):
    x, _, node = constant(array)
    program = planned(Program([x], [("y", node.output)], [node]), engine.info, [ScaleTile])
    return Network(program, {engine.info.name: engine})


def fixed(array):
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("count", [20_000, 40_000])
def test_large_constants_that_nobody_writes_are_read_where_they_are(engine, count):
    if "host_memory" not in engine.info.features:
        pytest.skip("the device copies")
    room = aligned(3 * count * 4).view(np.float32)
    room[...] = RNG.standard_normal(3 * count)
    first, second = fixed(room[count : 2 * count]), fixed(room[:count])
    assert first.ctypes.data % 64 == 0
    x = Value("x", Layout(DType.F32, (count,)))
    a = linked(x, Scale(1.0, 1), "a", Value("k0", x.layout, constant=first))
    b = linked(a.output, Scale(-1.0, 2), "b", Value("k1", x.layout, constant=second))
    program = planned(Program([x], [("y", b.output)], [a, b]), engine.info, [ScaleTile] * 2)
    network = Network(program, {engine.info.name: engine})
    places = network.bound.places[engine.info.name]
    assert [places.at(node.inputs[1])[1] for node in (a, b)] == [4 * count, 0]
    array = RNG.standard_normal(count).astype(np.float32)
    got = network.run({"x": array})["y"]
    np.testing.assert_array_equal(got, b.reference(a.reference(array, first)[0], second)[0])
    room[:count] = 1
    np.testing.assert_array_equal(
        network.run({"x": array})["y"], b.reference(a.reference(array, first)[0], np.float32(1))[0]
    )


COPIED = {
    "writeable": lambda room: room[:20_000],
    "not aligned": lambda room: fixed(room[1:20_001]),
    "small": lambda room: fixed(room[:100]),
    "with gaps": lambda room: fixed(room[:40_000:2]),
    "at the end": lambda room: fixed(room[-20_000:]),
}


@pytest.mark.parametrize("case", COPIED)
def test_other_constants_are_copied(engine, case):
    # 20000 floats are a multiple of 64 bytes.
    room = aligned(160_000).view(np.float32) if case != "at the end" else np.empty(40_016, np.float32)
    if case == "at the end":
        room = room[: (room.ctypes.data + room.nbytes) // 64 * 64 // 4 - room.ctypes.data // 4]
    room[...] = RNG.standard_normal(room.size)
    array = COPIED[case](room)
    values = array.copy()
    network = bound(engine, array)
    room[...] = 7
    x = RNG.standard_normal(array.shape).astype(np.float32)
    (want,) = constant(values)[2].reference(x, values)
    np.testing.assert_array_equal(network.run({"x": x})["y"], want)


def test_the_results_of_an_only_run_outlive_the_network(engine):
    x, _, node = constant(RNG.standard_normal(30_000).astype(np.float32))
    program = planned(Program([x], [("y", node.output)], [node]), engine.info, [ScaleTile])
    array = RNG.standard_normal(30_000).astype(np.float32)
    got = Network(program, {engine.info.name: engine}).run_once({"x": array})["y"]
    assert not got.flags.writeable
    np.testing.assert_array_equal(got, node.reference(array, node.inputs[1].constant)[0])


def test_results_in_memory_that_tiles_alone_touch_are_written_where_they_are_returned(engine):
    if "host_memory" not in engine.info.features:
        pytest.skip("the device copies")
    x = Value("x", Layout(DType.F32, (LEAST_BORROWED,)))
    a, b, c = (linked(x, Scale(1.0, 1), name) for name in "abc")
    program = planned(Program([x], [("a", a.output), ("b", b.output)], [a, b, c]), engine.info, [ScaleTile] * 3)

    def written():
        return [v.name for v in writable_in_place(program, engine.info.name, engine.info)]

    assert written() == ["a", "b"]
    b.output.buffer = x.buffer
    assert written() == ["a"]
    # What is overwritten lies there, too.
    b.output.buffer = c.output.buffer
    assert writable_in_place(program, engine.info.name, engine.info)[b.output] == [b.output, c.output]
    c.placement = "host"
    assert written() == ["a"]
    c.placement = engine.info.name
    b.output.buffer = a.output.buffer
    assert written() == []


@pytest.mark.parametrize(("rows", "of_callers"), [(64, True), (65, False)])
@pytest.mark.parametrize("executor", ["stream", "persistent"])
def test_a_result_that_overwrites_another_is_written_to_new_arrays(device, engine, executor, rows, of_callers):
    if "host_memory" not in engine.info.features or engine.info.kind != "cpu":
        pytest.skip("the device copies")
    made = clgraph.Topology()
    x = made.input("x", (rows, 593))
    w = made.constant("w", RNG.standard_normal((593, 509)).astype(np.float32))
    over = made.add("over", Softmax((1,)), made.add("product", MatMul(), x, w))
    made.output("over", over)
    made.output("apart", made.add("apart", Activation("abs"), x))
    model = clgraph.compile(made, device=device, config={"executor": executor})
    kept, copies = [], lambda: model._current().network.copies
    for seed in range(3):
        array = np.random.default_rng(seed).standard_normal((rows, 593)).astype(np.float32)
        kept.append((array, model.run({"x": array})))
        assert copies()["over"] == copies()["apart"] == "written in place"
    for array, found in kept:
        targets = {name: aligned(of.nbytes).view(np.float32).reshape(of.shape) for name, of in found.items()}
        model.run({"x": array}, outputs=targets)
        # Behind a caller's array nothing is read; it ends with a whole vector, or is copied.
        assert copies()["over"] == "copied"
        assert copies()["apart"] == ("written in place" if of_callers else "copied")
        for name, target in targets.items():
            np.testing.assert_array_equal(target, found[name])


def views(**outputs):
    """An input that is reshaped and cut, and results that are joined and reshaped; and *outputs* beside."""
    made = clgraph.Topology()
    x = made.input("x", (64, 1024))
    thick = made.add("thick", Reshape((2, 64, 512)), x)
    half = made.add("half", Slice((1,), (2,), axes=(0,)), thick)
    parts = [made.add(f, Activation(f), v) for f, v in (("relu", half), ("abs", thick), ("neg", half))]
    whole = made.add("whole", Concat(0), *parts)
    made.output("whole", whole)
    made.output("flat", made.add("flat", Reshape((64, 1024)), made.add("square", Activation("square"), thick)))
    for name, primitive in outputs.items():
        made.output(name, made.add(name, primitive, whole) if primitive else name)
    return made


def test_views_of_inputs_are_read_and_parts_of_results_are_written_where_the_caller_has_them(device, engine):
    if "host_memory" not in engine.info.features or engine.info.kind != "cpu":
        pytest.skip("the device copies")
    x = RNG.standard_normal((64, 1024)).astype(np.float32)
    thick = x.reshape(2, 64, 512)
    want = np.concatenate([np.maximum(thick[1:], 0), np.abs(thick), -thick[1:]])
    borrowed = {
        "x thick half whole relu abs neg flat square": views(),
        "x thick half flat square end": views(end=Activation("exp")),
        "whole relu abs neg flat square": views(thick=None),
        "x thick half whole flat square": views(abs=None),
    }
    for names, topology in borrowed.items():
        model = clgraph.compile(topology, device=device)
        for array in (x, -x):
            sign = 1 if array is x else -1
            found = model.run({"x": array})
            np.testing.assert_array_equal(found["flat"], x * x)
            np.testing.assert_array_equal(found["whole"][1:3], sign * sign * np.abs(thick))
            np.testing.assert_array_equal(found["whole"][3:], sign * want[3:])
        places = model._current().network.bound.places[engine.info.name]
        assert {v.name for v in places.borrowed} == set(names.split()), names
