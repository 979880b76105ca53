"""Small programs run in the thread that calls, where waking the workers takes longer than they save."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import helper

import clgraph
from clgraph.compilation.program_runner import ProgramRunner
from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.graph.node import Value
from clgraph.graph.program import Program
from clgraph.implementations.cpu.recurrent_stack import waves_of
from clgraph.network import waking
from clgraph.network.network import Network
from clgraph.ops.recurrent_stack import RecurrentStack
from clgraph.ops.recurrent_steps import RecurrentSteps
from clgraph.runtime.engine import Engine
from clgraph.runtime.programs import Programs
from clgraph.runtime.wheel import is_wheel
from clgraph.selector.choose import choose
from clgraph.selector.query import DeviceInfo, Query
from clgraph.settings import settings
from tests.support.tiny import Scale, ScaleLaunch, ScaleTile, linked, planned

SECONDS = 4.0e-5


@pytest.fixture(autouse=True)
def decided_by_estimate(monkeypatch):
    monkeypatch.setattr(waking, "WAKING_SECONDS", SECONDS)


def program(info, count, seconds, implementations=(ScaleTile,)):
    """Return a chain of as many steps, which are estimated to take *seconds* beyond their begin."""
    x = Value("x", Layout(DType.F32, (count,)))
    nodes = [linked(x, Scale(-0.75), "n0")]
    for number in range(1, len(implementations)):
        nodes.append(linked(nodes[-1].output, Scale(-0.75), f"n{number}"))
    made = planned(Program([x], [("y", nodes[-1].output)], nodes), info, implementations)
    for node in nodes:
        begin = info.costs.step_seconds if node.choice.implementation is ScaleTile else 2 * info.launch_seconds
        node.choice = replace(node.choice, seconds=begin + seconds)
    return made


def alone(made, info):
    return waking.is_over_sooner_alone(made, info)


def test_of_steps_in_which_workers_have_nothing_to_do_only_the_difference_counts():
    """Of two layers as a wave of chunks the second worker has no part of the first chunk, nor the first of the last."""
    info, saved = DeviceInfo(workers=2), []
    for tokens in (8, 80):
        p = RecurrentStack(RecurrentSteps("lstm", 128), 2)
        shapes = [(tokens, 1, 64), (512, 64), (1, 512, 128), (2, 512, 128)]
        layouts = tuple(Layout(DType.F32, s) for s in shapes)
        choice = choose(Query(p, layouts, p.infer(layouts), info, 4, constant=frozenset({1, 2, 3})))
        waves = waves_of(choice.query).waves
        work = choice.seconds - waves * info.costs.step_seconds
        with pytest.MonkeyPatch.context() as patch:
            nodes = [SimpleNamespace(in_place=False, choice=choice)]
            patch.setattr(waking, "WAKING_SECONDS", 1.01 * work * (waves - 2) / waves)
            assert waking.is_over_sooner_alone(nodes, info)
            patch.setattr(waking, "WAKING_SECONDS", 0.99 * work * (waves - 2) / waves)
            assert not waking.is_over_sooner_alone(nodes, info)
        saved.append((waves - 2) / waves)
    # Of 2 chunks a third of the time is saved, of many nearly as much as is left.
    assert saved[0] < 0.4 < 0.7 < saved[1] < 1


def test_what_the_workers_save_is_weighed_against_waking_them():
    two, nine = DeviceInfo(workers=2), DeviceInfo(workers=9)
    assert alone(program(two, 1000, 0.9 * SECONDS), two)
    assert not alone(program(two, 1000, 1.1 * SECONDS), two)
    # Eight more workers save eight times as much; of two tickets only two workers have any.
    tickets = next(iter(program(nine, 1000, SECONDS / 8))).choice.plan().steps[0].tickets
    assert tickets == 2
    assert alone(program(nine, 1000, 0.9 * SECONDS), nine)
    launches = (ScaleLaunch,)
    assert alone(program(nine, 1000, 0.9 * SECONDS / 8, launches), nine)
    assert not alone(program(nine, 1000, 1.1 * SECONDS / 8, launches), nine)
    # One work-group has no use for others.
    assert alone(program(nine, 8, 1.0, launches), nine)


def test_nodes_add_up():
    info = DeviceInfo(workers=2)
    both = (ScaleTile, ScaleLaunch)
    assert alone(program(info, 1000, 0.45 * SECONDS, both), info)
    assert not alone(program(info, 1000, 0.55 * SECONDS, both), info)


def test_a_member_of_a_family_has_an_estimate_of_its_own(monkeypatch):
    info = DeviceInfo(workers=2)
    made = program(info, 1000, 0.0)
    node = next(iter(made))
    node.choice = replace(node.choice, because="family")
    for seconds, expected in ((0.0, True), (1.0, False)):
        monkeypatch.setattr(ScaleTile, "cost", classmethod(lambda cls, q, s=seconds: s))
        assert alone(made, info) is expected


def beside(engine):
    if not engine.calls_alone:
        assert not is_wheel(engine.device.handle.platform)
        pytest.skip("only the wheel's PoCL is known to run kernels in the calling thread")
    return engine


@pytest.mark.opencl
def test_a_small_program_runs_in_the_calling_thread_to_the_same_bits(engine):
    engine = beside(engine)
    x = np.random.default_rng(0).standard_normal(5003).astype(np.float32)
    results, devices = [], []
    for seconds in (0.0, 1.0):
        made = program(engine.info, 5003, seconds, (ScaleTile, ScaleLaunch, ScaleTile))
        network = Network(made, {engine.info.name: engine})
        results += [network.run({"x": x})["y"] for _ in range(3)]
        devices.append(network.engine.stream.queue.device.name.partition("-")[0])
        assert ("in the calling thread" in made.notes["executor"]) is (seconds == 0.0)
        assert network.engine.info.workers == (1 if seconds == 0.0 else engine.info.workers)
    assert devices == ["basic", "pthread"]
    assert all((y == results[0]).all() for y in results)


@pytest.mark.opencl
@pytest.mark.parametrize("seconds", [0.0, 1.0])
def test_a_text_is_built_once_where_it_runs(engine, seconds, monkeypatch):
    engine, built = beside(engine), []
    made = program(engine.info, 5003, seconds, (ScaleLaunch,))

    def load(self, text, *rest, original=Programs._load):
        built.append(text)
        return original(self, text, *rest)

    monkeypatch.setattr(Programs, "_load", load)
    opened = Engine(engine.device)
    runner = ProgramRunner({engine.info.name: opened}, settings())
    runner.build(made)
    assert len(built) == 1
    runner.network(made)
    assert len(built) == 1


@pytest.mark.opencl
def test_slices_of_a_batch_are_for_all_workers(engine):
    engine = beside(engine)
    made = SimpleNamespace(batch_slices=2, __iter__=None)
    assert not waking.engine_beside(engine, made, engine.info.name).is_alone


@pytest.mark.opencl
def test_small_and_large_shapes_of_a_model_share_memory_and_tensors(device):
    nodes = [helper.make_node("Neg", ["x"], ["h"]), helper.make_node("CumSum", ["h", "axis"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ("n", 256))],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(np.array(0), "axis")],
    )
    model = clgraph.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), device=device)
    rng, alone = np.random.default_rng(1), []
    for rows in (2, 4096, 2, 4096):
        x = rng.integers(-8, 9, (rows, 256)).astype(np.float32)  # whole numbers: sums are exact in any order
        given = model.run({"x": x}, tensors=True)["y"]
        again = model.run({"x": given})["y"]
        alone.append(next(iter(model._specialisations.latest.network.bound.engines.values())).is_alone)
        np.testing.assert_array_equal(given.numpy(), -x.cumsum(0))
        np.testing.assert_array_equal(again, x.cumsum(0).cumsum(0))
    if model.device.workers > 1 and any(alone):
        assert alone == [True, False, True, False]
    model.close()
