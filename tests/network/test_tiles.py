"""The executor kernel on ranges of steps, which the stream executor does not use yet."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import DeviceMemoryError
from clgraph.graph.node import Value
from clgraph.graph.program import Program
from clgraph.network.buffer_table import BufferTable
from clgraph.network.node_steps import steps_of
from clgraph.network.tiles import TileExecutor, TileTable
from clgraph.selector.executor_kernel import BANKS
from clgraph.selector.library import compose
from tests.support.tiny import Scale, ScaleAddDescriptor, ScaleTile, linked, planned

pytestmark = pytest.mark.opencl
COUNT = 50_011


@pytest.fixture
def chained(engine):
    """Forty steps, each reading what other workers wrote in the one before."""
    x = Value("x", Layout(DType.F32, (COUNT,)))
    value, nodes = x, []
    for i in range(40):
        nodes.append(linked(value, Scale(-1.0, 1 + i % 2), f"n{i}"))
        value = nodes[-1].output
    program = planned(Program([x], [("y", value)], nodes), engine.info, [ScaleTile] * 40)
    places = BufferTable.of(program, engine.info.name, engine)
    table = TileTable(compose("test", engine.info.simd))
    for node in program:
        for step in steps_of(node):
            table.add(node, step)
    return program, places, TileExecutor(table, places)


def result(program, places):
    return places.read(program.outputs[0][1])


def expected(program, x):
    for node in program:
        (x,) = node.reference(x)
    return x


def test_many_steps_in_one_launch_give_the_same_bits_as_a_launch_each_and_leave_the_counters_clean(engine, chained):
    program, places, executor = chained
    single = [kernel.on(engine.stream, *shape) for kernel, *shape in (executor.bind(i, i + 1) for i in range(40))]
    kernel, grid, group = executor.bind(0, 40)
    whole = kernel.on(engine.stream, grid, group)
    random = np.random.default_rng(1)
    for _ in range(10):
        # New data each time: what an earlier run left behind must not be right by chance.
        x = random.standard_normal(COUNT).astype(np.float32)
        found = []
        for steps in ([whole], single):
            places.write(program.inputs[0], x)
            for step in steps:
                step()
            found.append(result(program, places))
        assert executor.check() == 0
        np.testing.assert_array_equal(found[0], found[1])
        # The sign is exact, the sum below 32 is rounded to half of 2**-19, forty times.
        np.testing.assert_allclose(found[0], expected(program, x), rtol=0, atol=40 * 2.0**-20)


def test_an_error_word_that_is_set_ends_the_launch_and_is_reported_and_cleared(engine, chained):
    _, _, executor = chained
    engine.stream.write(executor._error, 0, np.array([7], np.int32))
    kernel, grid, group = executor.bind(0, 40)
    kernel.on(engine.stream, grid, group)()
    assert executor.check() == 7
    assert executor.check() == 0
    kernel.on(engine.stream, grid, group)()
    assert executor.check() == 0


def test_more_banks_than_a_library_addresses_are_refused(engine, chained):
    _, places, _ = chained
    places.banks.extend(places.banks[:1] * BANKS)
    table = TileTable(compose("test", engine.info.simd))
    with pytest.raises(DeviceMemoryError, match=f"{len(places.banks)} allocations"):
        TileExecutor(table, places)


def test_a_step_gets_no_more_workers_than_tickets_and_runs_again_and_again(engine):
    x = Value("x", Layout(DType.F32, (1,)))
    node = linked(x, Scale(2.0, 1), "n")
    program = planned(Program([x], [("y", node.output)], [node]), engine.info, [ScaleTile])
    places = BufferTable.of(program, engine.info.name, engine)
    table = TileTable(compose("test", engine.info.simd))
    table.add(node, steps_of(node)[0])
    kernel, grid, group = TileExecutor(table, places).bind(0, 1)
    assert grid == (1,)
    for value in (3.0, 4.0, 5.0):
        places.write(x, np.array([value], np.float32))
        kernel.on(engine.stream, grid, group)()
        assert result(program, places).tolist() == [2 * value + 1]


def test_the_descriptor_has_the_pointers_resolved_to_bank_and_offset(engine):
    x = Value("x", Layout(DType.F32, (5,)))
    k = Value("k", Layout(DType.F32, (5,)), constant=np.ones(5, np.float32))
    node = linked(x, Scale(1.0, 1), "n", k)
    program = planned(Program([x], [("y", node.output)], [node]), engine.info, [ScaleTile])
    places = BufferTable.of(program, engine.info.name, engine)
    table = TileTable(compose("test", engine.info.simd))
    table.add(node, steps_of(node)[0])
    content = table.to_bytes(places)
    assert len(content) == 32 + ScaleAddDescriptor.size() + 2 * 40
    assert np.frombuffer(content, np.int64, 2, 32).tolist() == [0, 64]
    assert np.frombuffer(content, np.int64, 1, 32 + 32 + 40).tolist() == [1 << 56]
    assert np.frombuffer(content, np.int64, 1, 32 + 32).tolist() == [-1]
