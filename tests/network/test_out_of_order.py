"""Commands of whole models on a queue that runs out of order: each waits for all that makes what it reads."""

from __future__ import annotations

import numpy as np
import pytest

import clgraph
from clgraph.graph.node import Node
from clgraph.network.network import Network
from tests.support.zoo import ZOO

pytestmark = pytest.mark.opencl


def _awaited(network: Network) -> dict[Node, set[Node]]:
    """Return the nodes whose commands are over when those of a node begin, by the node."""
    found: dict[Node, set[Node]] = {}
    for bound in network.bound.subgraphs:
        over: list[set[Node]] = []
        for command in bound.commands:
            over.append({command.node}.union(*(over[number] for number in command.after)))
            found.setdefault(command.node, over[-1] - {command.node})
    return found


@pytest.mark.parametrize("device_class", ["cpu", "gpu"])
@pytest.mark.parametrize("name", ["small_yolov8", "small_encoder"])
def test_who_reads_what_nodes_without_commands_hand_on_waits_for_those_who_made_it(
    device: str, name: str, device_class: str
) -> None:
    source, feeds = ZOO[name].make()
    ordered = clgraph.compile(source, device=device, config={"device_class": device_class})
    model = clgraph.compile(source, device=device, config={"device_class": device_class, "out_of_order": True})
    (made,) = model.compiled.values()
    network = made.network
    assert network is not None
    awaited, through = _awaited(network), 0
    for node, over in awaited.items():
        makers = [v.producer for v in node.inputs if v.producer is not None]
        while makers:
            maker = makers.pop()
            if maker in awaited:
                assert maker in over, f"{node.name} does not wait for {maker.name}"
            else:
                through += 1
                makers += [v.producer for v in maker.inputs if v.producer is not None]
    assert through > 0
    for result, want in zip(model.run(feeds).values(), ordered.run(feeds).values(), strict=True):
        np.testing.assert_array_equal(result, want)
