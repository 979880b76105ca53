"""Subgraphs on their devices: bound once, submitted as one, one behind the other."""

from __future__ import annotations

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.core.mapped import MappedFile
from clgraph.graph.buffer import Buffer
from clgraph.graph.node import Value
from clgraph.graph.program import Program
from clgraph.network.network import Network
from clgraph.runtime.engine import Engine
from clgraph.runtime.stream import Stream
from tests.support.tiny import Scale, ScaleLaunch, ScaleTile, linked, planned

pytestmark = pytest.mark.opencl
RNG = np.random.default_rng(3)


def _program(engine: Engine, implementation, host: frozenset[str] = frozenset({"apart"}), count: int = 4096) -> Program:
    """Return ``y = second(first(x))`` on the device, and between the two a node that reads a constant alone."""
    layout = Layout(DType.F32, (count,))
    x = Value("x", layout)
    k = Value("k", layout, constant=RNG.standard_normal(count).astype(np.float32))
    first = linked(x, Scale(0.5, 1), "first")
    apart = linked(k, Scale(3.0, 1), "apart")
    second = linked(first.output, Scale(-0.25, 1), "second")
    program = Program([x], [("y", second.output), ("apart", apart.output)], [first, apart, second])
    planned(program, engine.info, [implementation] * 3, host)
    if host:
        apart.output.buffer = Buffer("apart", layout.nbytes, 0, placement="host")
    return program


def _want(x: np.ndarray) -> np.ndarray:
    # A power of two times a value is exact, so that only the sums round, as they do here.
    return np.float32(-0.25) * (np.float32(0.5) * x + np.float32(1)) + np.float32(1)


@pytest.mark.parametrize("implementation", [ScaleTile, ScaleLaunch])
def test_a_run_submits_each_subgraph_as_one_and_a_program_on_one_device_is_one(engine, implementation) -> None:
    split = Network(_program(engine, implementation), {engine.info.name: engine})
    assert [[n.name for n in b.subgraph.nodes] for b in split.bound.subgraphs] == [["first"], ["apart"], ["second"]]
    assert split.bound.steps == [b.submit for b in split.bound.subgraphs]
    whole = Network(_program(engine, implementation, frozenset()), {engine.info.name: engine})
    (bound,) = whole.bound.subgraphs
    assert whole.bound.steps == [bound.submit]
    for network in (split, whole):
        x = RNG.standard_normal(4096).astype(np.float32)
        np.testing.assert_array_equal(network.run({"x": x})["y"], _want(x))


def test_subgraphs_of_one_device_have_tables_of_their_own_and_share_the_workers_scratch(engine) -> None:
    network = Network(_program(engine, ScaleTile), {engine.info.name: engine})
    ((first,), (), (second,)) = [b.executors for b in network.bound.subgraphs]
    assert [node.name for node, _ in first.table.steps] == ["first"]
    assert [node.name for node, _ in second.table.steps] == ["second"]
    assert first._scratch is second._scratch
    clone = network.clone()
    assert clone.bound.subgraphs[0].executors[0]._scratch is not first._scratch


def test_a_subgraph_starts_behind_all_before_and_its_device_at_once_a_program_of_one_needs_neither(
    engine, monkeypatch
) -> None:
    called: list[str] = []
    for name in ("barrier", "flush"):
        monkeypatch.setattr(Stream, name, lambda _, name=name: called.append(name))
    network = Network(_program(engine, ScaleLaunch), {engine.info.name: engine})
    launch = network.bound.subgraphs[2].steps[1]
    network.bound.subgraphs[2].steps[1] = lambda: called.append("launch") or launch()
    network.run({"x": np.zeros(4096, np.float32)})
    assert called == ["barrier", "flush", "barrier", "launch", "flush"]
    called.clear()
    Network(_program(engine, ScaleLaunch, frozenset()), {engine.info.name: engine}).run({"x": np.zeros(4096, "f4")})
    assert called == []


@pytest.mark.parametrize("implementation", [ScaleTile, ScaleLaunch])
def test_on_a_queue_out_of_order_a_subgraph_reads_what_an_earlier_one_of_its_device_has_made(
    engine, implementation
) -> None:
    unordered = Engine(engine.device, out_of_order=True)
    if not unordered.stream.out_of_order:
        pytest.skip("its queues run in order")
    count = 1 << 22
    network = Network(_program(unordered, implementation, count=count), {engine.info.name: unordered})
    for _ in range(5):
        x = RNG.standard_normal(count).astype(np.float32)
        np.testing.assert_array_equal(network.run({"x": x})["y"], _want(x))


def test_a_profile_names_the_subgraph_of_every_command_and_has_its_time(engine) -> None:
    network = Network(_program(engine, ScaleTile), {engine.info.name: engine})
    profile = network.profile({"x": np.zeros(4096, np.float32)})
    ids = [s.id for s in profile.subgraphs]
    assert ids == [f"0@{engine.info.name}", "1@host", f"2@{engine.info.name}"]
    assert [(c.node, c.subgraph) for c in profile.commands] == list(zip(("first", "apart", "second"), ids, strict=True))
    assert list(profile.by_subgraph()) == ids
    assert list(profile.by_subgraph().values()) == [c.seconds for c in profile.commands]


@pytest.mark.parametrize(("count", "files"), [(4096, 0), (16384, 1)])
def test_small_constants_that_the_host_computes_with_are_copied_out_of_their_file(engine, tmp_path, count, files):
    program = _program(engine, ScaleTile, count=count)
    (k,) = program.constants
    assert k.constant is not None
    (tmp_path / "constants").write_bytes(k.constant.tobytes())
    wanted, k.constant = k.constant, np.frombuffer(MappedFile(tmp_path / "constants"), np.float32)
    network = Network(program, {engine.info.name: engine})
    assert len(network.bound._files) == files
    np.testing.assert_array_equal(k.constant, wanted)
    x = RNG.standard_normal(count).astype(np.float32)
    np.testing.assert_array_equal(network.run({"x": x})["y"], _want(x))
