"""Copies of constants: one for all networks that read the same array, in few banks, gone with the last of them."""

from __future__ import annotations

import gc
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import clgraph
from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.graph.node import Value
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.network import constants, laid_constants
from clgraph.network.addresses import ANY_BYTE, LEAST_BYTES
from clgraph.network.buffer_table import BufferTable
from clgraph.network.constants import SHARED, Constants
from clgraph.network.network import Network
from clgraph.network.workspace import Workspace
from clgraph.runtime.engine import Engine
from clgraph.runtime.instruction_sets import machine
from clgraph.runtime.memory import Memory
from clgraph.selector.executor_kernel import BANKS
from tests.support.graphs import FLOAT, INT, graph, model
from tests.support.tiny import Scale, ScaleTile, linked, planned

pytestmark = pytest.mark.opencl
RNG = np.random.default_rng(11)
COUNT = 60
PACKED = 320
"""Bytes of a bank for each constant: 240 of its own, at least 64 behind them, in whole units of 64."""


def arrays(number: int) -> list[Array]:
    return [RNG.standard_normal(COUNT).astype(np.float32) for _ in range(number)]


def value(array: Array, name: str = "k") -> Value:
    return Value(name, Layout.of(array), constant=array)


def network(engine: Engine, workspace: Workspace | None, read: list[Array]) -> Network:
    """Return the network of a chain that multiplies by each of *read*: another program each time, other values."""
    x = Value("x", Layout(DType.F32, (COUNT,)))
    nodes, running = [], x
    for i, array in enumerate(read):
        nodes.append(linked(running, Scale(1.0, 1), f"n{i}", value(array, f"k{i}")))
        running = nodes[-1].output
    program = planned(Program([x], [("y", running)], nodes), engine.info, [ScaleTile] * len(read))
    return Network(program, {engine.info.name: engine}, workspace=workspace)


def runs_right(made: Network) -> None:
    x = want = RNG.standard_normal(COUNT).astype(np.float32)
    for node in made.program:
        (want,) = node.reference(want, node.inputs[1].constant)
    np.testing.assert_array_equal(made.run({"x": x})["y"], want)


def banks(made: Network) -> list[Memory]:
    (places,) = made.bound.places.values()
    return list(places.banks[1:])


def test_what_another_program_has_packed_is_found_and_the_rest_goes_into_one_more_bank(engine: Engine) -> None:
    workspace, (a, b, c, d) = Workspace(), arrays(4)
    first = network(engine, workspace, [a, b])
    (packed,) = banks(first)
    assert first.bound.places[engine.info.name].nbytes == 2 * PACKED
    second, third = network(engine, workspace, [b, a, b]), network(engine, Workspace(workspace), [c, b, d])
    assert banks(second) == [packed]
    known, own = banks(third)
    assert known is packed
    assert own.nbytes == 2 * PACKED
    assert set(map(id, banks(third.clone()))) == {id(known), id(own)}
    for made in (first, second, third, network(engine, None, [a, b])):
        runs_right(made)
    assert banks(network(engine, None, [a, b])) != [packed]


def test_of_the_banks_that_hold_what_is_read_those_with_most_of_it_are_taken(engine: Engine) -> None:
    workspace, read = Workspace(), arrays(9)
    parts = [read[:3], read[3:5], read[5:6], read[6:9]]
    held = [network(engine, workspace, part) for part in parts]
    made = network(engine, workspace, read)
    assert len(banks(made)) == SHARED + 1
    taken = [memory for memory in banks(made) if any(memory in banks(n) for n in held)]
    assert set(map(id, taken)) == {id(banks(held[0])[0]), id(banks(held[3])[0])}
    runs_right(made)


@pytest.mark.parametrize("most", [1, 2, 3])
def test_where_banks_are_few_all_is_packed_into_one(engine: Engine, most: int) -> None:
    constants, read = Constants(), [value(a) for a in arrays(4)]
    name = engine.info.name
    first = constants.pack(name, engine, read[:1], 1 << 20, most)
    second = constants.pack(name, engine, read[1:2], 1 << 20, most)
    found = constants.pack(name, engine, read, 1 << 20, most)
    assert list(found) == read if most < 3 else set(found) == set(read)
    memories = {id(memory) for memory, _ in found.values()}
    assert len(memories) == (1 if most < 3 else 3)
    kept = {id(first[read[0]][0]), id(second[read[1]][0])}
    assert (kept < memories) == (most == 3)


def test_a_program_whose_memory_takes_most_banks_has_its_constants_in_one(engine: Engine) -> None:
    workspace, (a, b, c) = Workspace(), arrays(3)
    held = [network(engine, workspace, [a]), network(engine, workspace, [b])]
    program = network(engine, None, [a, b, c]).program
    spare = workspace.arenas("other", engine, [64] * (BANKS - 1))
    places = BufferTable(engine.info.name, engine, workspace, spare, 1 << 20)
    places._place([n.inputs[1] for n in program])
    assert len(places.banks) == BANKS
    assert places.banks[-1] not in [m for n in held for m in banks(n)]


def test_on_a_gpu_small_constants_are_packed_once_however_many_banks_large_ones_take(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    features = engine.info.features - {"host_memory"}
    monkeypatch.setattr(engine, "info", replace(engine.info, kind="gpu", features=features))
    workspace, name = Workspace(), engine.info.name
    read = [*(np.full(LEAST_BYTES // 4, i, np.float32) for i in range(BANKS)), *arrays(3)]
    arena = workspace.arenas(name, engine, [64])
    made = [BufferTable(name, engine, workspace, [*arena], 1 << 20) for _ in range(2)]
    for places in made:
        places._place([value(array) for array in read])
    assert len(made[0].banks) == 1 + BANKS + 1
    assert made[0].banks == made[1].banks
    for array, (bank, start) in zip(read, made[1].fixed.values(), strict=True):
        found = np.empty_like(array)
        engine.stream.read(made[1].banks[bank], start, found)
        np.testing.assert_array_equal(found, array)


def test_programs_that_read_the_same_arrays_in_order_have_them_in_the_same_places(engine: Engine) -> None:
    workspace, read = Workspace(), arrays(12)
    orders = [read, read, [*read[:3], *arrays(1), *read[4:]], [*arrays(9), *read[9:]], read[:4]]
    made = [network(engine, w, order) for w, order in zip([workspace, Workspace(workspace)] * 3, orders, strict=False)]
    first, again, *others = (next(iter(n.bound.places.values())).laid for n in made)
    assert again == first
    assert [[one is first[0] for one in laid] for laid in others] == [[True, False], [False], [False]]
    for one in made:
        runs_right(one)


def test_a_constant_is_left_where_it_is_only_for_readers_that_take_its_address(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "host_memory" not in engine.info.features:
        pytest.skip("the device copies all constants")
    monkeypatch.setattr(laid_constants, "suits_all", lambda array, address: False)
    large = np.zeros(LEAST_BYTES // 4 + COUNT, np.float32)
    large.flags.writeable = False
    taken = [True, True, False, False, True]
    workspace, places = Workspace(), []
    for takes in taken:
        monkeypatch.setattr(laid_constants, "suits_readers", lambda v, takes=takes: takes)
        places.append(BufferTable.of(Program([], [], []), engine.info.name, engine, workspace=workspace))
        places[-1]._place([value(large)])
    assert [p.banks[1].array is None for p in places] == taken
    assert [one.laid == other.laid for one, other in pairwise(places)] == [True, False, True, False]


def test_a_copy_goes_with_the_last_network_that_uses_it_and_no_id_is_taken_for_an_array(engine: Engine) -> None:
    workspace, read = Workspace(), arrays(2)
    gc.disable()
    try:
        first = network(engine, workspace, read)
        second = network(engine, workspace, read)
        copy = weak = first.bound.places[engine.info.name].laid[0].copies[0]
        assert workspace.constants.alone(copy) is False
        del first
        assert workspace.constants.alone(copy)
        assert second.nbytes >= 2 * PACKED
        del second, weak
        found = workspace.constants.pack(engine.info.name, engine, [value(read[0])], 1 << 20, BANKS)
        assert [memory for memory, _ in found.values()] == [copy]
        del copy, found
        assert all(memory() is None for _, memory, _ in workspace.constants._copies.values())
        # Arrays come and go at the same addresses.
        for _ in range(20):
            runs_right(network(engine, workspace, arrays(2)))
    finally:
        gc.enable()


def test_what_is_known_of_copies_that_are_gone_does_not_pile_up(engine: Engine) -> None:
    constants = Constants()
    for _ in range(300):
        constants.pack(engine.info.name, engine, [value(a) for a in arrays(3)], 1 << 20, BANKS)
    assert len(constants._copies) < 150


def test_equal_tables_of_sizes_are_one_as_long_as_somebody_uses_it(engine: Engine) -> None:
    constants, name = Constants(), engine.info.name
    table = constants.table(name, engine, (1, 2, 3))
    assert constants.table(name, engine, (1, 2, 3)) is table
    assert constants.table(name, engine, (1, 2)) is not table
    found = np.empty(3, np.int32)
    engine.stream.read(table, 0, found)
    assert found.tolist() == [1, 2, 3]
    del table
    assert len(constants._tables) == 0


def test_weights_at_any_byte_of_a_file_are_read_where_they_lie(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine.info.kind != "cpu" or "host_memory" not in engine.info.features or machine() not in ANY_BYTE:
        pytest.skip("the device copies what starts at no multiple of its elements")
    side, copied, fill = 96, list[int](), constants._fill
    monkeypatch.setattr(constants, "_fill", lambda e, m, held: copied.append(m.nbytes) or fill(e, m, held))
    # Names of several lengths in front of the weights leave them at several remainders.
    weights = {"w" * n: RNG.standard_normal((side, side)).astype(np.float32) for n in (1, 2, 3, 4)}
    x, rows = RNG.standard_normal((side, side)).astype(np.float32), np.array([5, 0, -1])
    nodes = [helper.make_node("MatMul", ["x", name], [f"product {name}"]) for name in weights]
    nodes += [helper.make_node("Gather", [name, "rows"], [f"picked {name}"]) for name in weights]
    outputs = [(output, FLOAT, None) for node in nodes for output in node.output]
    whole = graph(nodes, [("x", FLOAT, x.shape), ("rows", INT, rows.shape)], outputs, **weights)
    (tmp_path / "model.onnx").write_bytes(model(whole).SerializeToString())
    compiled = clgraph.compile(tmp_path / "model.onnx", engine.info.name)
    starts = {array.ctypes.data % 4 for array in compiled.topology.constants.values()}
    found = compiled.run({"x": x, "rows": rows})
    assert len(starts) > 1
    assert sum(copied) < side * side * 4
    for name, array in weights.items():
        np.testing.assert_array_equal(found[f"picked {name}"], array[rows])
        # Sums of 96 products of numbers below 5: as many roundings of half an ulp of a partial sum.
        np.testing.assert_allclose(found[f"product {name}"], x @ array, atol=2 * side * 2.0**-24 * side * 25, rtol=0)
