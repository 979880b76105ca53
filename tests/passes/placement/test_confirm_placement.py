from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clgraph.core.format import feature_blocked
from clgraph.errors import UnsupportedError
from clgraph.graph.check import check
from clgraph.ops.reduce import Reduce
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.ops.softmax import Softmax
from clgraph.ops.transfer import Transfer
from clgraph.passes.base import Context
from clgraph.passes.manager import PassManager
from clgraph.passes.observers import Verify
from clgraph.passes.pipeline import default_pipeline
from clgraph.passes.placement.confirm_placement import ConfirmPlacement
from clgraph.passes.placement.insert_transfers import uncarried
from clgraph.passes.verify_numbers import VerifyNumbers
from clgraph.selector.implementation import IMPLEMENTATIONS
from clgraph.selector.query import DeviceInfo
from tests.support.programs import ADD, RELU, Net, run_until
from tests.support.random_nets import joined, networks

CPU, GPU, HOST = DeviceInfo("pocl:0"), DeviceInfo("gpu:0", "gpu"), DeviceInfo("host", "host")
DEVICES = (CPU, GPU, HOST)
MOVES = {"reorder", "transfer"}
NO_SOFTMAX = frozenset({"softmax.slow"})


def _net() -> Net:
    net = Net()
    h = net.add("relu", RELU, net.input("x", (1, 8)), annotation="stem")
    net.add("y", Reduce("sum", (1,)), net.add("soft", Softmax((1,)), h))
    return net


def _fusible() -> Net:
    net = Net()
    soft = net.add("soft", Softmax((1,)), net.input("x", (1, 8)))
    net.add("y", RELU, net.add("sum", ADD, soft, "x"))
    return net


def _before(context: Context):
    """Return the program as target_passes leave it, with nodes whose choices no longer stand."""
    program = run_until(_net().program("y"), "target_passes", context)
    for node in program:
        node.choice = None
    return program


def _context(*devices: DeviceInfo, **more) -> Context:
    return Context(devices={d.name: d for d in devices}, **more)


def _nodes(program) -> list[tuple[str, str | None]]:
    return [(n.name, n.placement) for n in program]


def _rest(program, context: Context) -> None:
    """Run what is left of the pipeline, with confirm_placement, and check after every pass."""
    passes = default_pipeline()
    place = next(i for i, p in enumerate(passes) if p.name == "confirm_placement")
    PassManager(passes[place:], [Verify(), VerifyNumbers(context)], begin=program.milestone).run(program, context)
    check(program)


def test_what_every_device_takes_stays_and_nothing_is_said() -> None:
    context = _context(CPU, HOST)
    program = run_until(_net().program("y"), "target_passes", context)
    before = str(program)
    assert ConfirmPlacement().run(program, context) == 0
    assert str(program) == before
    assert "confirm_placement" not in program.notes


def test_what_its_device_refuses_by_now_goes_to_the_next_that_takes_it_between_transfers() -> None:
    program = _before(_context(CPU, HOST))
    _rest(program, _context(CPU, HOST, denied=NO_SOFTMAX))
    assert _nodes(program) == [
        ("relu", "pocl:0"),
        ("soft/transfer", "host"),
        ("soft", "host"),
        ("y/transfer", "pocl:0"),
        ("y", "pocl:0"),
    ]
    assert program.notes["confirm_placement"].startswith("soft runs on host: nothing serves softmax")
    assert program.notes["insert_transfers"] == "2 transfers: pocl:0 to host 32 bytes, host to pocl:0 32 bytes"


def test_the_host_takes_what_was_fused_for_a_device_that_refuses_it_by_now() -> None:
    program = run_until(_fusible().program("y"), "target_passes", _context(CPU, HOST))
    (node,) = program
    assert [f.primitive.kind for f in node.fused] == ["eltwise", "activation"]
    node.choice = None
    _rest(program, _context(CPU, HOST, denied=NO_SOFTMAX))
    assert node.placement == "host"
    assert str(node.choice) == "host.reference (general)"
    assert program.notes["confirm_placement"].startswith("soft runs on host: nothing serves softmax(axes=1) + elt")


def test_on_the_host_nothing_is_fused() -> None:
    program = run_until(_fusible().program("y"), "fuse_pre_operations", _context(HOST))
    assert [n.name for n in program] == ["soft", "sum", "y"]
    said = "sum: not behind soft: the host computes one operation after the other"
    assert said in program.notes["prepare_primitive_fusing"]


def test_what_only_stood_on_the_host_for_want_of_a_device_is_claimed_by_the_one_that_takes_it_now() -> None:
    program = _before(_context(CPU, HOST, denied=NO_SOFTMAX))
    assert program["soft"].placement == "host"
    _rest(program, _context(CPU, HOST))
    assert _nodes(program) == [("relu", "pocl:0"), ("soft", "pocl:0"), ("y", "pocl:0")]
    assert program.notes["confirm_placement"] == "soft runs on pocl:0: pocl:0 takes it as it has become"
    assert "insert_transfers" not in program.notes


def test_what_the_user_put_on_the_host_stays_there() -> None:
    context = _context(CPU, HOST, placement=(("soft", "host"),))
    program = _before(context)
    assert ConfirmPlacement().run(program, context) == 0
    assert program["soft"].placement == "host"


@pytest.mark.parametrize("pattern", ["relu", "stem", "activation"])
def test_a_pattern_of_the_user_binds_again_the_annotations_too_and_a_fallback_loosens_it(pattern: str) -> None:
    rules = {"placement": ((pattern, "gpu:0"), ("*", "pocl:0"))}
    program = _before(_context(CPU, GPU, HOST, **rules))
    assert program["relu"].placement == "gpu:0"
    program["relu"].placement = "mars"
    denied = {"denied": frozenset({"activation.any", "activation.slow"})}
    with pytest.raises(
        UnsupportedError, match=rf"'relu'.*placed by '{pattern}' \(placement_fallback(.|\n)*gpu:0: noth"
    ):
        ConfirmPlacement().run(program, _context(CPU, GPU, HOST, **rules, **denied))
    ConfirmPlacement().run(program, _context(CPU, GPU, HOST, **rules, **denied, fallback=("host",)))
    assert program["relu"].placement == "host"
    assert "relu runs on host: mars is not a device here; nothing serves" in program.notes["confirm_placement"]


def test_a_reorder_that_its_device_refuses_goes_elsewhere_whatever_pattern_fits_what_it_stands_beside() -> None:
    context = _context(CPU, GPU, HOST, placement=(("c", "gpu:0"),))
    net = Net()
    net.conv("c", net.input("x", (1, 16, 4, 4)), 16, 16, kernel=3)
    program = run_until(net.program("c"), "target_passes", context)
    node = program["c"]
    made = program.insert(Reorder(node.output.layout.dtype), [node.output], sources=[node])
    program.outputs = [("c", made.output)]
    made.placement = "mars"
    ConfirmPlacement().run(program, context)
    assert (node.placement, made.placement) == ("gpu:0", "pocl:0")


def test_the_host_lays_out_what_no_device_does() -> None:
    net = Net()
    net.add("y", RELU, net.input("x", (1, 16, 4, 4)))
    program = run_until(net.program("y"), "target_passes", _context(CPU, HOST))
    x, node = program.inputs[0], program["y"]
    there = program.insert(Reorder(x.layout.dtype, feature_blocked(4)), [x], sources=[node], before=node)
    back = program.insert(Reorder(x.layout.dtype), [there.output], sources=[node], before=node)
    program.rewire(x, back.output, uses=((node, 0),))
    denied = frozenset(i.name for i in IMPLEMENTATIONS.of("reorder"))
    _rest(program, _context(CPU, HOST, denied=denied))
    assert [n.placement for n in program if isinstance(n.primitive, Reorder)] == ["host", "host"]
    assert program["y"].placement == "pocl:0"


def test_a_kernel_that_was_forced_is_an_error_where_it_refuses_not_a_reason_to_go_elsewhere() -> None:
    program = _before(_context(CPU, HOST))
    context = _context(CPU, HOST, forced={"soft": "softmax.slow"}, denied=NO_SOFTMAX)
    with pytest.raises(UnsupportedError, match=r"'soft' .*softmax.slow was forced .* denied by an option"):
        ConfirmPlacement().run(program, context)


def test_without_a_device_that_takes_them_all_nodes_are_listed() -> None:
    program = _before(_context(CPU))
    denied = NO_SOFTMAX | {"activation.any", "activation.slow"}
    with pytest.raises(UnsupportedError, match=r"2 of 3 nodes .* on pocl:0:\n(.|\n)*'relu'(.|\n)*'soft'"):
        ConfirmPlacement().run(program, _context(CPU, denied=denied))


def test_transfers_that_a_pass_has_left_out_are_inserted() -> None:
    context = _context(CPU, GPU)
    program = _before(context)
    program["soft"].placement = "gpu:0"
    assert ConfirmPlacement().run(program, context) == 0
    assert [n.name for n in program if isinstance(n.primitive, Transfer)] == ["soft/transfer", "y/transfer"]


def test_what_runs_nothing_lies_with_the_copy_of_an_input_that_is_elsewhere_by_now() -> None:
    """An input is where its first reader is: on the host, once that is refused."""
    rules = {"placement": (("y", "pocl:0"), ("*", "gpu:0")), "fallback": ("host",)}
    net = Net()
    x = net.input("x", (1, 8))
    net.add("soft", Softmax((1,)), x)
    net.add("y", RELU, net.add("row", Reshape((8, 1)), x))
    program = run_until(net.program("soft", "y"), "target_passes", _context(CPU, GPU, HOST, **rules))
    assert program["row"].in_place
    program["soft"].choice = None
    _rest(program, _context(CPU, GPU, HOST, **rules, denied=NO_SOFTMAX))
    soft, carried, row = list(program)[:3]
    assert [n.placement for n in (soft, carried, row)] == ["host", "gpu:0", "gpu:0"]
    assert soft.inputs[0] is carried.inputs[0]
    assert carried.output is row.inputs[0]
    assert carried.output.buffer is row.output.buffer
    assert row.output.buffer is not soft.inputs[0].buffer


def _random(net, seed: int):
    """Return a random net whose nodes are placed at random, as target_passes leave it, and its context."""
    topology, outputs = net
    for name in outputs:
        topology.output(name)
    pick = random.Random(seed)
    rules = tuple((x.name, pick.choice(DEVICES).name) for x in topology.layers if pick.random() < 0.5)
    context = _context(*DEVICES, placement=rules, fallback=tuple(d.name for d in DEVICES))
    return run_until(topology.build(), "target_passes", context), context, pick


@settings(max_examples=25, deadline=None)
@given(net=st.one_of(networks(), joined()), seed=st.integers(0, 2**32))
def test_random_nets_survive_any_confusion_of_placements_behind_the_formats(net, seed) -> None:
    program, context, pick = _random(net, seed)
    for node in program:
        if all(v.buffer is None for v in (*node.inputs, *node.outputs)) and pick.random() < 0.3:
            node.placement = pick.choice(["mars", *context.devices])
    _rest(program, context)
    assert uncarried(program) == []
    assert {n.placement for n in program} <= context.devices.keys()


@settings(max_examples=25, deadline=None)
@given(net=st.one_of(networks(), joined()), seed=st.integers(0, 2**32))
def test_random_nets_run_on_when_devices_refuse_kernels_behind_the_formats(net, seed) -> None:
    program, context, pick = _random(net, seed)
    for node in program:
        node.choice = node.choice if node.in_place else None
    kinds = {n.primitive.kind for n in program}
    denied = {i.name for kind in sorted(kinds - MOVES) if pick.random() < 0.5 for i in IMPLEMENTATIONS.of(kind)}
    _rest(program, replace(context, denied=frozenset(denied)))
    assert uncarried(program) == []
