from __future__ import annotations

import gc

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.graph.node import Value
from clgraph.graph.program import Program
from clgraph.network.network import Network
from clgraph.network.workspace import HEADROOM, LARGEST, Workspace
from tests.support.tiny import Scale, ScaleTile, linked, planned

pytestmark = pytest.mark.opencl

SIZE = 1 << 16


def test_networks_share_an_arena_that_is_large_enough(engine) -> None:
    workspace = Workspace()
    (first,) = workspace.arenas("p", engine, [SIZE])
    assert first.nbytes == SIZE
    assert workspace.arenas("p", engine, [SIZE // 2]) == [first]
    (larger,) = workspace.arenas("p", engine, [2 * SIZE])
    assert larger is not first
    assert larger.nbytes == int(2 * SIZE * HEADROOM)
    assert workspace.arenas("p", engine, [SIZE]) == [first]
    assert workspace.arenas("p", engine, [3 * SIZE]) == [larger]
    assert workspace.arenas("other", engine, [SIZE]) != [first]


def test_parts_of_one_arena_are_different_memory(engine) -> None:
    workspace = Workspace()
    parts = workspace.arenas("p", engine, [SIZE, SIZE, SIZE])
    assert len({id(m) for m in parts}) == 3
    assert {id(m) for m in workspace.arenas("p", engine, [SIZE, SIZE, SIZE])} == {id(m) for m in parts}


def test_a_small_shape_does_not_keep_the_arena_of_a_huge_one(engine) -> None:
    workspace = Workspace()
    (huge,) = workspace.arenas("p", engine, [SIZE])
    assert workspace.arenas("p", engine, [SIZE // LARGEST]) == [huge]
    (small,) = workspace.arenas("p", engine, [SIZE // LARGEST - 1])
    assert small is not huge


def _constant(seed: int = 0) -> Value:
    array = np.random.default_rng(seed).standard_normal(SIZE).astype(np.float32)
    return Value("w", Layout.of(array), constant=array)


def _read(engine, copy) -> np.ndarray:
    memory, start = copy
    assert start == 0
    back = np.empty(SIZE, np.float32)
    engine.stream.read(memory, 0, back)
    return back


def test_memory_goes_with_its_last_user(engine) -> None:
    workspace = Workspace()
    gc.disable()
    try:
        value = _constant()
        arena, copy = workspace.arenas("p", engine, [SIZE])[0], workspace.constants.copy("p", engine, value)
        assert workspace.constants.copy("p", engine, value) == copy
        assert workspace.constants.copy("q", engine, value) != copy
        counters = workspace.counters("p", engine, "core", 100)
        del arena, copy, counters
        assert all(not held for held in workspace._held.values())
        assert all(memory() is None for _, memory, _ in workspace.constants._copies.values())
    finally:
        gc.enable()


def test_constants_are_shared_with_clones_and_arenas_are_not(engine) -> None:
    workspace = Workspace()
    twin = Workspace(workspace)
    (arena,) = workspace.arenas("p", engine, [SIZE])
    assert twin.arenas("p", engine, [SIZE]) != [arena]
    value = _constant()
    copy = workspace.constants.copy("p", engine, value)
    assert twin.constants.copy("p", engine, value) == copy
    np.testing.assert_array_equal(_read(engine, copy), value.constant)


def test_another_array_in_the_place_of_one_that_is_gone_is_copied(engine) -> None:
    """``id`` is given again."""
    workspace = Workspace()
    value: Value | None = _constant()
    gone = id(value.constant)
    copy = workspace.constants.copy("p", engine, value)
    value = None
    arrays = [np.zeros(SIZE, np.float32)]
    while id(arrays[-1]) != gone and len(arrays) < 10_000:
        arrays.append(np.full(1, 7, np.float32))
    assert id(arrays[-1]) == gone
    other = workspace.constants.copy("p", engine, Value("w", Layout.of(arrays[-1]), constant=arrays[-1]))
    assert other[0] is not copy[0]


def test_scratch_counters_and_stand_ins_are_shared_by_networks_and_not_by_clones_or_libraries(engine) -> None:
    workspace = Workspace()
    scratch, counters = workspace.scratch("p", engine, "core", SIZE), workspace.counters("p", engine, "core", SIZE)
    assert workspace.scratch("p", engine, "core", SIZE - 1) is scratch
    assert workspace.counters("p", engine, "core", SIZE - 1) is counters
    assert workspace.stand_ins("p", engine, [SIZE]) == (held := workspace.stand_ins("p", engine, [SIZE]))
    assert len({id(m) for m in workspace.stand_ins("p", engine, [SIZE, SIZE])} | {id(held[0])}) == 2
    every = [(workspace, "p", "int8"), (workspace, "q", "core"), (Workspace(workspace), "p", "core")]
    for other, placement, library in every:
        assert other.scratch(placement, engine, library, SIZE) is not scratch
        assert other.counters(placement, engine, library, SIZE) is not counters
    assert scratch is not counters
    found = np.ones(SIZE, np.int32)
    engine.stream.read(counters, 0, found)
    assert not found.any()


def test_networks_of_one_workspace_run_in_turn_on_one_scratch_and_one_set_of_counters(engine) -> None:
    workspace, made = Workspace(), []
    for length in (1, 5, 2):
        x = value = Value("x", Layout(DType.F32, (4099,)))
        nodes = []
        for i in range(length):
            nodes.append(linked(value, Scale(0.5, 1 + i % 2), f"n{i}"))
            value = nodes[-1].output
        program = planned(Program([x], [("y", value)], nodes), engine.info, [ScaleTile] * length)
        made.append(Network(program, {engine.info.name: engine}, workspace=workspace))
    executors = [n.bound.subgraphs[0].executors[0] for n in made]
    assert executors[1]._counters is executors[2]._counters
    assert len({id(e._table) for e in executors}) == 3
    array = np.random.default_rng(0).standard_normal(4099).astype(np.float32)
    first = [n.run({"x": array})["y"] for n in made]
    for _ in range(5):
        for network, want in zip(made, first, strict=True):
            np.testing.assert_array_equal(network.run({"x": array})["y"], want)
