import json
import threading
from dataclasses import dataclass, replace

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import DeviceMemoryError, InputError, ProgramError, ShapeError
from clgraph.graph.buffer import Arena
from clgraph.graph.node import Value
from clgraph.graph.program import Milestone, Program
from clgraph.network.network import Network
from clgraph.ops.transfer import Transfer, TransferHost
from clgraph.runtime.engine import Engine
from clgraph.runtime.host import HostEngine
from clgraph.selector.query import DeviceInfo
from tests.support.tiny import Scale, ScaleLaunch, ScaleTile, linked, planned

pytestmark = pytest.mark.opencl
RNG = np.random.default_rng(3)
# factor * x, + shift: two roundings of values below 64, so at most 2 * 2**-24 * 64 absolute.
BOUND = 2 * 2.0**-24 * 64


def chain(engine, implementations, host=frozenset(), shape=(3, 35)):
    """x -> a -> b -> c, with a constant multiplied in at b."""
    x = Value("x", Layout(DType.F32, shape))
    k = Value("k", Layout(DType.F32, shape), constant=RNG.standard_normal(shape).astype(np.float32))
    a = linked(x, Scale(1.5, 1), "a")
    b = linked(a.output, Scale(-0.5, 2), "b", k)
    c = linked(b.output, Scale(3.0, 2), "c")
    program = Program([x], [("y", c.output), ("b", b.output), ("x again", x), ("k", k)], [a, b, c])
    planned(program, engine.info, implementations, host)
    return Network(program, {engine.info.name: engine}), program


def expected(program, x):
    values = {"x": x}
    for node in program:
        (values[node.output.name],) = node.reference(
            *(v.constant if v.constant is not None else values[v.name] for v in node.inputs)
        )
    return values


@pytest.mark.parametrize("host", [frozenset(), frozenset({"b"}), frozenset({"a", "c"})])
def test_a_program_of_launches_tiles_and_host_nodes_computes_its_references(engine, host):
    network, program = chain(engine, [ScaleLaunch, ScaleTile, ScaleTile], host)
    for _ in range(3):
        x = RNG.standard_normal((3, 35)).astype(np.float32)
        got = network.run({"x": x})
        want = expected(program, x)
        assert list(got) == ["y", "b", "x again", "k"]
        np.testing.assert_allclose(got["y"], want["c"], rtol=0, atol=BOUND)
        np.testing.assert_allclose(got["b"], want["b"], rtol=0, atol=BOUND)
        np.testing.assert_array_equal(got["x again"], x)
        np.testing.assert_array_equal(got["k"], program["b"].inputs[1].constant)


def feed(shape=(3, 35)):
    return RNG.standard_normal(shape).astype(np.float32)


def test_outputs_are_new_arrays_of_the_caller(engine):
    network, _ = chain(engine, [ScaleTile] * 3)
    x = feed()
    first, second = network.run({"x": x}), network.run({"x": x})
    for name, array in first.items():
        assert not np.shares_memory(array, second[name])
        assert not np.shares_memory(array, x)
    first["k"][...] = 0
    np.testing.assert_array_equal(network.run({"x": x})["k"], second["k"])


def test_an_array_that_is_not_contiguous_is_read_as_it_stands(engine):
    network, _ = chain(engine, [ScaleTile] * 3)
    x = feed((35, 3)).T
    np.testing.assert_array_equal(network.run({"x": x})["y"], network.run({"x": np.ascontiguousarray(x)})["y"])


@pytest.mark.parametrize(
    ("feeds", "said"),
    [
        ({}, "input 'x' is missing: the inputs are 'x'"),
        ({"x": feed(), "z": feed()}, "no input is called 'z'"),
        ({"X": feed()}, "input 'x' is missing; no input is called 'X'"),
        ({"x": feed((35, 3))}, r"input 'x' requires float32 \[3, 35\], not float32 \[35, 3\]"),
        ({"x": feed().astype(np.float64)}, "requires float32 .*, not float64"),
        ({"x": feed().tolist()}, "input 'x' is a list, not a NumPy array"),
    ],
)
def test_wrong_feeds_are_refused_by_name_and_the_network_stays_usable(engine, feeds, said):
    network, program = chain(engine, [ScaleLaunch, ScaleTile, ScaleLaunch])
    with pytest.raises(InputError, match=said):
        network.run(feeds)
    x = feed()
    np.testing.assert_allclose(network.run({"x": x})["y"], expected(program, x)["c"], rtol=0, atol=BOUND)


def test_a_program_that_is_not_planned_or_whose_output_is_blocked_is_refused(engine):
    _, program = chain(engine, [ScaleLaunch, ScaleTile, ScaleLaunch])
    program.milestone = Milestone.SELECTED
    with pytest.raises(ProgramError, match="needs a PLANNED program"):
        Network(program, {engine.info.name: engine})
    program.milestone = Milestone.PLANNED
    value = program.outputs[0][1]
    value.layout = value.layout.with_halo(((0, 0), (1, 1)))
    with pytest.raises(ProgramError, match=r"'y' is .* plain and dense"):
        Network(program, {engine.info.name: engine})


def test_calls_from_many_threads_are_served_one_after_the_other(engine):
    network, program = chain(engine, [ScaleLaunch, ScaleTile, ScaleTile])
    feeds = [feed() for _ in range(8)]
    found = {}

    def call(i):
        for _ in range(20):
            found[i] = network.run({"x": feeds[i]})["y"]

    threads = [threading.Thread(target=call, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for i, x in enumerate(feeds):
        np.testing.assert_allclose(found[i], expected(program, x)["c"], rtol=0, atol=BOUND)


def test_a_profile_has_every_command_with_its_time_and_saves_as_a_trace(engine, tmp_path):
    network, _ = chain(engine, [ScaleLaunch, ScaleTile, ScaleTile], frozenset({"c"}))
    profile = network.profile({"x": feed()})
    assert [(c.node, c.what) for c in profile.commands] == [
        ("a", "twice_test"),
        ("a", "twice_test"),
        ("b", "scale_add_test"),
        ("c", "host"),
    ]
    assert [c.implementation for c in profile.commands[1:]] == [
        "test.scale.launch",
        "test.scale.tile",
        "host.reference",
    ]
    assert all(c.seconds > 0 for c in profile.commands)
    assert sum(profile.by_node().values()) == pytest.approx(profile.seconds)
    assert profile.seconds < profile.total
    assert profile.commands[2].nbytes == 3 * 105 * 4
    starts = [c.start for c in profile.commands]
    assert starts == sorted(starts)
    profile.save_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [e["name"] for e in events if e["ph"] == "X"] == ["a", "a", "b", "c"]


def test_memory_is_cut_into_banks_no_larger_than_the_device_allocates(engine, monkeypatch):
    x = feed()
    network, program = chain(engine, [ScaleLaunch, ScaleTile, ScaleTile])
    want = network.run({"x": x})
    monkeypatch.setattr(engine, "info", replace(engine.info, max_alloc=1024))
    network = Network(planned(program, engine.info, [ScaleLaunch, ScaleTile, ScaleTile]), {engine.info.name: engine})
    places = network.bound.places[engine.info.name]
    assert len(places.banks) > 2
    assert all(bank.nbytes <= 1024 for bank in places.banks)
    got = network.run({"x": x})
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array)


PAIRS = [(ScaleLaunch, ScaleTile), (ScaleTile, ScaleTile), (ScaleLaunch, ScaleLaunch)]


@pytest.mark.parametrize("implementations", PAIRS)
def test_on_an_out_of_order_queue_every_kernel_waits_for_what_it_reads(engine, implementations):
    """Two chains side by side that meet at the end."""
    unordered = Engine(engine.device, out_of_order=True)
    x = Value("x", Layout(DType.F32, (50, 400)))
    nodes = [linked(x, Scale(0.5, 1), "a0"), linked(x, Scale(-0.5, 1), "b0")]
    for i in range(1, 12):
        shift = 1 + i % 2
        a, b = nodes[-2:]
        nodes += [linked(a.output, Scale(0.5, shift), f"a{i}"), linked(b.output, Scale(-0.5, shift), f"b{i}")]
    nodes.append(linked(nodes[-2].output, Scale(1.0, 2), "y", nodes[-1].output))
    program = Program([x], [("y", nodes[-1].output)], nodes)
    planned(program, unordered.info, [*implementations * 12, ScaleTile])
    network = Network(program, {unordered.info.name: unordered})
    for _ in range(20):
        array = feed((50, 400))
        got = network.run({"x": array})["y"]
        np.testing.assert_allclose(got, expected(program, array)["y"], rtol=0, atol=BOUND)


def test_a_constant_larger_than_the_device_allocates_is_refused(engine, monkeypatch):
    _, program = chain(engine, [ScaleLaunch, ScaleTile, ScaleTile], shape=(1, 20))
    monkeypatch.setattr(engine, "info", replace(engine.info, max_alloc=128))
    with pytest.raises(DeviceMemoryError, match="constants takes 192 bytes"):
        Network(program, {engine.info.name: engine})


@pytest.mark.parametrize("halo", [(), ((1, 1), (2, 3))])
def test_values_go_from_one_device_to_another(engine, halo):
    x = Value("x", Layout(DType.F32, (4, 6)))
    a = linked(x, Scale(2.0, 1), "a")
    carried = linked(a.output, Transfer(engine.info.name), "carried")
    b = linked(carried.output, Scale(-1.0, 2), "b")
    carried.output.layout = carried.output.layout.with_halo(halo)
    program = Program([x], [("b", b.output)], [a, carried, b])
    planned(program, engine.info, [ScaleLaunch, TransferHost, ScaleTile], frozenset({"b"}) if halo else frozenset())
    other = "second"
    for node in (carried, b):
        node.placement = other if node.placement == engine.info.name else node.placement
        node.output.buffer.placement = other
    program.arenas[other] = program.arenas[engine.info.name]
    network = Network(program, {engine.info.name: engine, other: engine})
    for _ in range(2):
        array = feed((4, 6))
        np.testing.assert_allclose(network.run({"x": array})["b"], expected(program, array)["b"], rtol=0, atol=BOUND)


@pytest.mark.parametrize("host", [frozenset(), frozenset({"a", "b"})])
def test_two_results_that_share_a_buffer_do_not_overwrite_each_other(engine, host):
    """What a concat along the last axis makes of its inputs: rows of two values in turn."""
    x = Value("x", Layout(DType.F32, (4, 6)))
    a, b = linked(x, Scale(1.0, 1), "a"), linked(x, Scale(-1.0, 2), "b")
    c = linked(a.output, Scale(1.0, 1), "c")
    program = Program([x], [("c", c.output)], [a, b, c])
    planned(program, engine.info, [ScaleLaunch, ScaleLaunch, ScaleLaunch], host | {"c"} if host else host)
    if host:
        for node, offset in ((a, 0), (b, 6)):
            node.output.layout = node.output.layout.with_pitches((12, 1))
            node.output.buffer, node.output.offset = a.output.buffer, offset * 4
        a.output.buffer.nbytes, a.output.buffer.offset = 4 * 12 * 4, 64 * 20
        program.arenas[engine.info.name] = Arena(64 * 30, 0, 0)
    array = feed((4, 6))
    got = Network(program, {engine.info.name: engine}).run({"x": array})["c"]
    np.testing.assert_allclose(got, array + 2, rtol=0, atol=BOUND)


@dataclass(frozen=True, slots=True)
class Picky(Scale):
    """``Scale`` that refuses negative numbers."""

    def reference(self, *inputs):
        if (inputs[0] < 0).any():
            raise FloatingPointError("negative")
        return Scale.reference(self, *inputs)


def test_a_run_that_fails_half_way_leaves_the_network_usable(engine):
    x = Value("x", Layout(DType.F32, (3, 35)))
    a = linked(x, Scale(1.0, 1), "a")
    b = linked(a.output, Picky(2.0, 1), "b")
    c = linked(b.output, Scale(1.0, 1), "c")
    program = Program([x], [("y", c.output)], [a, b, c])
    planned(program, engine.info, [ScaleLaunch] * 3, frozenset({"b"}))
    network = Network(program, {engine.info.name: engine})
    array = np.abs(feed())
    for _ in range(2):
        with pytest.raises(ShapeError, match="negative"):
            network.run({"x": -array - 2})
        np.testing.assert_allclose(network.run({"x": array})["y"], 2 * array + 4, rtol=0, atol=BOUND)


def test_a_program_on_the_host_alone_needs_no_device():
    info = DeviceInfo(name="host", kind="host")
    x = Value("x", Layout(DType.F32, (3, 35)))
    a = linked(x, Scale(1.5, 1), "a")
    program = planned(Program([x], [("y", a.output), ("x", x)], [a]), info, [None], frozenset({"a"}))
    network = Network(program, {"host": HostEngine()})
    array = feed()
    got = network.run({"x": array})
    np.testing.assert_array_equal(got["y"], a.reference(array)[0])
    np.testing.assert_array_equal(got["x"], array)
    (command,) = network.profile({"x": array}).commands
    assert (command.what, command.placement) == ("host", "host")


def test_a_tensor_of_no_elements_passes_through(engine):
    network, _ = chain(engine, [ScaleLaunch, ScaleTile, ScaleTile], shape=(0, 35))
    assert network.run({"x": feed((0, 35))})["y"].shape == (0, 35)
    assert [c.node for c in network.profile({"x": feed((0, 35))}).commands] == []
