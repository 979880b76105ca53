"""Running planned programs on memory full of NaN, in any valid order."""

from __future__ import annotations

import random
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from clgraph.graph.node import Node
from clgraph.graph.program import Program
from clgraph.model.model import Model
from clgraph.network.network import Network
from clgraph.network.poison import poisoned_steps


def any_order(program: Program, seed: int) -> list[Node]:
    """Return a random valid order of execution."""
    pick, done, order = random.Random(seed), set[Node](), list[Node]()
    waiting = list(program)
    while waiting:
        ready = [n for n in waiting if all(v.producer is None or v.producer in done for v in n.inputs)]
        node = pick.choice(ready)
        waiting.remove(node)
        done.add(node)
        order.append(node)
    return order


def network_of(model: Model) -> Network:
    """Return the network that *model* used last."""
    network = model._current().network
    assert network is not None
    return network


def run_in_order(model: Model, feeds: Mapping[str, NDArray], order: list[Node]) -> dict[str, NDArray]:
    """Run the latest program of *model* in *order*, one node after the other, on poisoned memory."""
    network = network_of(model)
    streams = {placement: engine.stream for placement, engine in network.bound.engines.items()}
    steps = poisoned_steps(network.program, network.bound.commands, network.bound.places, streams, order)
    with network.lock:
        return network.bound.run(feeds, steps)


def same_bits(first: Mapping[str, NDArray], second: Mapping[str, NDArray]) -> bool:
    """Whether two results are equal byte by byte."""
    return first.keys() == second.keys() and all(
        first[n].shape == second[n].shape and np.ascontiguousarray(first[n]).tobytes() == second[n].tobytes()
        for n in first
    )
