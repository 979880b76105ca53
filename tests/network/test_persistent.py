"""The persistent executor: tile steps that follow each other as one launch, and what happens when it goes wrong."""

import functools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import DeviceError, KernelBuildError
from clgraph.graph.node import Value
from clgraph.graph.program import Program
from clgraph.network import binding, node_steps, tiles
from clgraph.network.command_times import step_times
from clgraph.network.commands import Segment
from clgraph.network.network import Network
from clgraph.runtime import executor
from clgraph.runtime.engine import Engine
from clgraph.selector.descriptor import Ref
from clgraph.selector.library import compose
from clgraph.selector.plan import Carry, Tile
from tests.support.tiny import CopyDescriptor, Scale, ScaleLaunch, ScaleTile, linked, planned

pytestmark = pytest.mark.opencl
COUNT = 20_011
RNG = np.random.default_rng(5)


def chain(info, implementations):
    """Return steps that each read what other workers wrote in the one before."""
    x = Value("x", Layout(DType.F32, (COUNT,)))
    value, nodes = x, []
    for i in range(len(implementations)):
        nodes.append(linked(value, Scale(-0.75, 1 + i % 2), f"n{i}"))
        value = nodes[-1].output
    return planned(Program([x], [("y", value)], nodes), info, implementations)


def feed():
    return RNG.standard_normal(COUNT).astype(np.float32)


def launched(network):
    return [len(c.joined) or 1 for bound in network.bound.subgraphs for c in bound.launches]


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_both_executors_give_the_same_bits_with_any_number_of_workers(engine, workers):
    other = Engine(engine.device, threads=workers)
    assert other.info.workers == (workers if other.info.kind == "cpu" else engine.info.workers)
    networks = [
        Network(chain(e.info, [ScaleTile] * 60), {e.info.name: e}, how)
        for e, how in ((engine, "stream"), (other, "persistent"))
    ]
    assert [launched(n) for n in networks] == [[1] * 60, [60]]
    for _ in range(10):
        # New data each time: what an earlier run left behind must not be right by chance.
        x = feed()
        stream, persistent = (n.run({"x": x})["y"] for n in networks)
        np.testing.assert_array_equal(stream, persistent)


def test_a_launch_or_a_host_node_ends_a_segment_and_the_note_says_how_many_there_are(engine):
    program = chain(engine.info, [ScaleTile] * 3 + [ScaleLaunch] + [ScaleTile] * 6)
    program["n6"].placement = "host"
    network = Network(program, {engine.info.name: engine})
    # A launch of this test's primitive is two kernels.
    assert launched(network) == [3, 1, 1, 2, 1, 3]
    assert program.notes["executor"] == f"{engine.info.name}: 8 tile steps in 3 launches"
    x = feed()
    stream = Network(program, {engine.info.name: engine}, "stream")
    assert launched(stream) == [1] * 11
    np.testing.assert_array_equal(network.run({"x": x})["y"], stream.run({"x": x})["y"])


class OtherLibrary(CopyDescriptor):
    library = "other"


def test_only_steps_of_one_table_are_joined(monkeypatch):
    monkeypatch.setattr(binding, "TileExecutor", lambda table, places: SimpleNamespace(table=table))
    monkeypatch.setattr(node_steps, "steps_of", lambda node: planned_of[node.name])
    one, other = (Tile("copy_test", of(Ref("in0"), Ref("out0"), 1), 1) for of in (CopyDescriptor, OtherLibrary))
    planned_of = {"a": [one, one], "b": [], "c": [other], "d": [Carry()], "e": [other], "f": [other, one]}
    nodes, value = [], Value("x", Layout(DType.F32, (COUNT,)))
    for name in planned_of:
        nodes.append(linked(value, Scale(1.0), name))
        value = nodes[-1].output
    stream, info = SimpleNamespace(out_of_order=False), SimpleNamespace(simd=16)
    places = SimpleNamespace(engine=SimpleNamespace(stream=stream, info=info), placement="cpu")

    def bound(joins):
        found = binding.commands(nodes, places, SimpleNamespace(carry=print), lambda name, simd: name, joins)
        return found, [(c.node.name, c.what, *_range(c)) for c in found]

    apart = [("a", 0, 1), ("a", 1, 2), ("c", 0, 1), ("d",), ("e", 1, 2), ("f", 2, 3), ("f", 2, 3)]
    what = ["copy_test"] * 3 + ["transfer"] + ["copy_test"] * 3
    singly = [(name, text, *numbers) for (name, *numbers), text in zip(apart, what, strict=True)]
    assert bound(lambda table: False)[1] == singly
    joined, rows = bound(lambda table: True)
    assert rows == [
        ("a", "copy_test", 0, 2),
        ("c", "copy_test", 0, 1),
        ("d", "transfer"),
        ("e", "copy_test", 1, 3),
        ("f", "copy_test", 2, 3),
    ]
    parts = [part for c in joined for part in c.joined or (c,)]
    assert [(c.node.name, c.what, *_range(c)) for c in parts] == singly
    assert bound(lambda executor: executor.table.library == "other")[1] == [*singly[:4], *rows[3:]]


def _range(command):
    work = command.work
    return (work.first, work.last) if isinstance(work, Segment) else ()


def test_on_an_out_of_order_queue_tiles_are_run_one_by_one_and_the_note_says_so(engine):
    unordered = Engine(engine.device, out_of_order=True)
    if not unordered.stream.out_of_order:
        pytest.skip("its queues run in order")
    program = chain(engine.info, [ScaleTile] * 3)
    assert launched(Network(program, {engine.info.name: unordered})) == [1, 1, 1]
    assert "3 launches; not joined: its queue runs out of order" in program.notes["executor"]


@pytest.fixture
def stuck(engine, monkeypatch):
    """A network whose waits are short, and the function that makes its first step one that never ends.

    They are about 0.1 s: a worker that other processes keep from running for some milliseconds is waited for.
    """
    short = functools.partialmethod(tiles.TileExecutor.bind, spins=2_000_000)
    monkeypatch.setattr(tiles.TileExecutor, "bind", short)
    network = Network(chain(engine.info, [ScaleTile] * 5), {engine.info.name: engine})
    (segment,) = [c.work for c in network.bound.subgraphs[0].launches]

    def block():
        """Take all tickets of the first step without running them."""
        counters = np.zeros(executor.counter_count(1, segment.executor.workers), np.int32)
        counters[32::16] = 1 << 20
        engine.stream.write(segment.executor._counters, 0, counters)
        engine.stream.finish()

    return network, block


def test_workers_that_wait_in_vain_give_up_and_the_network_stays_usable(engine, stuck):
    if engine.info.workers == 1:
        pytest.skip("one worker waits for nobody")
    network, block = stuck
    x = feed()
    want = network.run({"x": x})["y"]
    for keeps_nodes in (True, True, False):
        if not keeps_nodes:
            network.lighten(lambda: network.program)
        block()
        with pytest.raises(DeviceError, match=r"waited in vain for node 'n0' \(scale_add_test\); .* executor=stream"):
            network.run({"x": x})
        np.testing.assert_array_equal(network.run({"x": x})["y"], want)


def test_a_device_without_the_atomics_runs_tiles_one_by_one_unless_it_must_not(engine, monkeypatch, caplog):
    monkeypatch.setattr(engine, "info", replace(engine.info, features=engine.info.features - {"acq_rel"}))
    program = chain(engine.info, [ScaleTile] * 3)
    why = "the device has no acquire/release atomics"
    assert launched(Network(program, {engine.info.name: engine})) == [1, 1, 1]
    assert program.notes["executor"] == f"{engine.info.name}: 3 tile steps in 3 launches; not joined: {why}"
    assert why in caplog.text
    with pytest.raises(DeviceError, match=f"cannot run the persistent executor: {why}; use executor=stream"):
        Network(program, {engine.info.name: engine}, "persistent")


def test_the_self_test_passes_and_is_remembered(engine, monkeypatch):
    library = compose("test", engine.info.simd)
    assert executor.run_probe(engine, library) is None
    assert executor.refusal(engine, library) is None
    monkeypatch.setattr(executor, "run_probe", lambda *_: "run again")
    assert executor.refusal(engine, library) is None
    assert executor.refusal(engine, replace(library, text=library.text + "\n")) == "run again"


@pytest.mark.parametrize(
    ("sound", "broken", "said", "alone"),
    [
        ("values[t] = 3 * sum + t;", "values[t] = 3 * sum;", "went wrong at step 0", False),
        ("if (n) add_release(done, n);", "", "waited in vain at step 0", True),
    ],
    ids=["values", "counters"],
)
def test_the_self_test_finds_what_is_broken(engine, sound, broken, said, alone):
    """A library whose steps are right one by one is of use: without the persistent executor."""
    if engine.info.workers == 1:
        pytest.skip("one worker waits for nobody")
    library = compose("test", engine.info.simd)
    assert library.text.count(sound) == 1
    wrong = replace(library, text=library.text.replace(sound, broken))
    if not alone:
        with pytest.raises(KernelBuildError, match=r"library test runs wrongly on .*: its test"):
            engine.build(wrong.text, "library test", library=True)
        engine.programs.compile_library(wrong.text, "library test")
    assert said in executor.run_probe(engine, wrong, spins=1 << 16)
    assert (executor.run_probe(engine, wrong, joined=False, rounds=1) is None) == alone


def test_a_network_asks_once_whether_its_steps_may_be_joined(engine, monkeypatch):
    asked = []
    monkeypatch.setattr(executor, "refusal", lambda *_: asked.append(1))
    assert launched(Network(chain(engine.info, [ScaleTile] * 12), {engine.info.name: engine})) == [12]
    assert len(asked) == 1


def test_the_profile_of_a_segment_has_the_time_and_tickets_of_every_step(engine):
    network = Network(chain(engine.info, [ScaleTile] * 12), {engine.info.name: engine})
    profiles = [network.profile({"x": feed()}) for _ in range(10)]
    # Both are seconds. Something else may take the cores between the two readings of a clock, but not ten times.
    assert all(0 < p.seconds < p.total for p in profiles)
    assert any(p.total < 100 * p.seconds for p in profiles)
    profile = profiles[-1]
    assert [c.node for c in profile.commands] == [f"n{i}" for i in range(12)]
    # An even step cuts 20011 floats into 15 chunks, an odd one into 2.
    assert [c.tickets for c in profile.commands] == [15, 2] * 6
    assert all(c.seconds > 0 and 0 <= c.idle <= c.seconds for c in profile.commands)
    starts = [c.start for c in profile.commands]
    assert starts == sorted(starts)


def test_without_a_cycle_counter_a_profile_times_each_step_by_a_launch_of_its_own(engine, monkeypatch):
    # ARM's stands still, or is not to be read by programs.
    still = lambda self, first, last: np.zeros((last - first, 1, 4), np.uint64)  # noqa: E731
    monkeypatch.setattr(tiles.TileExecutor, "times", still)
    info = replace(engine.info, features=engine.info.features - {"cycle_counter"})
    blind = Engine(replace(engine.device, info=info))
    network = Network(chain(info, [ScaleTile] * 12), {info.name: blind})
    assert launched(network) == [12]
    x = feed()
    profile = network.profile({"x": x})
    assert [c.node for c in profile.commands] == [f"n{i}" for i in range(12)]
    assert all(c.seconds > 0 for c in profile.commands)
    np.testing.assert_array_equal(
        network.run({"x": x})["y"], Network(chain(info, [ScaleTile] * 12), {info.name: engine}).run({"x": x})["y"]
    )


def test_the_time_of_a_step_is_that_from_its_first_ticket_to_its_last():
    # Two workers: the second comes late to the first step, finds nothing to do in the second.
    steps = [[(100, 300, 310, 3), (200, 310, 312, 1)], [(320, 420, 430, 2), (500, 501, 502, 0)]]
    first, second = step_times(np.array(steps, np.uint64), 0.5)
    assert (first.start, first.seconds, first.tickets, first.idle) == (0, 105, 4, (10 + 100) / 2 * 0.5)
    assert (second.start, second.seconds, second.tickets, second.idle) == (110, 50, 2, (0 + 100) / 2 * 0.5)
