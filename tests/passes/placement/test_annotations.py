"""Every pass on randomly annotated graphs: annotations bind until nodes are placed, placements from then on."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clgraph.frontend.onnx_loader import load_onnx
from clgraph.graph.program import Milestone, Program
from clgraph.graph.topology import Topology
from clgraph.passes.base import Context
from clgraph.passes.manager import PassManager
from clgraph.passes.observers import PassObserver, Verify
from clgraph.passes.pipeline import default_pipeline
from clgraph.selector.query import DeviceInfo
from tests.support.channels_last import random_net
from tests.support.combinations import each_value
from tests.support.programs import ADD, RELU, Net, compile_all
from tests.support.random_nets import joined, networks
from tests.support.zoo_mobile import mobilenet_v3_small
from tests.support.zoo_text import Encoder, encoder

HINTS = (None, "stem", "body", "head/1")
DEVICES = {d.name: d for d in (DeviceInfo("here"), DeviceInfo("there"))}
RULES = (("body", "there"), ("head*", "here"))


class Annotations(PassObserver):
    """Compares every node after every pass with what the layers it stems from were annotated with."""

    def __init__(self, topology: Topology) -> None:
        self.given = {origin: layer.annotation for layer in topology.layers for origin in layer.origin}
        self.removed = False
        self.seen = self.merged = 0

    def after(self, number, pass_, program: Program, changes, seconds) -> None:
        for node in program:
            found = {hint for origin in node.origin if (hint := self.given[origin]) is not None}
            self.removed |= pass_.name == "remove_layering_annotations"
            if self.removed:
                assert node.annotation is None, f"{pass_.name}: {node.name}"
                assert set((node.partitioned_by or "").split(", ")) - {""} == found, f"{pass_.name}: {node.name}"
            else:
                assert len(found) <= 1, f"{pass_.name} merged {found} in {node.name}"
                assert node.annotation == next(iter(found), None), f"{pass_.name}: {node.name}"
            if program.milestone >= Milestone.PLACED:
                wished = {"there" if hint == "body" else "here" for hint in found} or {"here"}
                assert wished == {node.placement}, f"{pass_.name}: {node.name}"
            self.seen += bool(found)
            self.merged += len(found) > 1


def _annotated(topology: Topology, hints) -> Topology:
    """Return *topology* with one hint for all layers of the same origin."""
    chosen: dict[tuple[str, ...], str | None] = {}
    for layer in topology.layers:
        object.__setattr__(layer, "annotation", chosen.setdefault(layer.origin, next(hints)))
    return topology


def _check(topology: Topology, *, retire: bool, precision: str = "f32") -> Annotations:
    watcher = Annotations(topology)
    context = Context(devices=DEVICES, placement=RULES if retire else (), precision=precision)
    passes = default_pipeline() if retire else default_pipeline()[:6]
    PassManager(passes, [Verify(), watcher]).run(topology.build(), context)
    return watcher


def _some_hints(seed: int):
    """Yield hints: in half of the cases long runs of one, as in a model that is cut into parts."""
    pick = random.Random(seed)
    runs, hint = pick.random() < 0.5, pick.choice(HINTS)
    while True:
        hint = hint if runs and pick.random() < 0.7 else pick.choice(HINTS)
        yield hint


@pytest.mark.parametrize("retire", [False, True])
@settings(max_examples=75, deadline=None)
@given(net=st.one_of(networks(), joined()), seed=st.integers(0, 2**32))
def test_nets_keep_their_annotations_through_every_pass(net, retire, seed) -> None:
    topology, outputs = net
    for name in outputs:
        topology.output(name)
    _check(_annotated(topology, _some_hints(seed)), retire=retire)


@each_value(seeds=[range(i, i + 45) for i in range(0, 180, 45)], retire=[False, True])
def test_nets_with_explicit_transposes_and_quantized_groups_keep_their_annotations(seeds, retire) -> None:
    for seed in seeds:
        net, outputs = random_net(seed)
        for name in outputs:
            net.output(name)
        _check(_annotated(net, _some_hints(seed)), retire=retire, precision="f16" if seed % 2 else "f32")


@each_value(
    build=[lambda: mobilenet_v3_small(64), lambda: encoder(Encoder(2, 32, 2, 64), 1, 8)],
    seed=range(4),
    retire=[False, True],
)
def test_exported_models_keep_their_annotations_through_every_fusion(build, seed, retire) -> None:
    watcher = _check(_annotated(load_onnx(build()), _some_hints(seed)), retire=retire)
    assert watcher.seen
    assert bool(watcher.merged) == retire


@pytest.mark.parametrize("retire", [True, False])
def test_once_nodes_are_placed_on_several_devices_hints_forbid_nothing_there(retire: bool) -> None:
    """A hint a node, as of a model annotated by operator; three devices, each with nodes that one kernel could run."""
    devices = {d.name: d for d in (DeviceInfo("here"), DeviceInfo("there"), DeviceInfo("host", "host"))}
    rules = (("a*", "here"), ("b*", "there"), ("c*", "host"))

    def compiled(*hints: str | None) -> list[tuple]:
        net = Net()
        h = net.conv("a1", net.input("x", (1, 16, 8, 8)), 16, 16, 3, annotation=hints[0])
        h = net.add(
            "b2", RELU, net.conv("b1", net.add("a2", RELU, h, annotation=hints[1]), 16, 16, annotation=hints[0])
        )
        h = net.add("b3", ADD, net.conv("b4", h, 16, 16, annotation=hints[1]), h, annotation=hints[2])
        net.add("c2", RELU, net.add("c1", RELU, h, annotation=hints[0]), annotation=hints[1])
        disabled = frozenset() if retire else frozenset({"remove_layering_annotations"})
        program = compile_all(net.program("c2"), Context(devices=devices, placement=rules), disabled=disabled)
        return [(n.name, n.placement, n.primitive, n.fused, n.choice.name, n.origin) for n in program]

    assert (compiled("stem", "body", "head") == compiled(None, None, None)) == retire
