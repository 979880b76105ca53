"""Bags of embeddings without a loop, where all are of one length: as PyTorch's exporters write EmbeddingBag."""

from __future__ import annotations

from dataclasses import replace

from clgraph.compilation.idioms.bag_loops import bags_of_loop
from clgraph.compilation.idioms.bag_sequences import bags_of_sequence, confirmed
from clgraph.compilation.idioms.bags import NUMBERS
from clgraph.compilation.idioms.producers import Producers
from clgraph.graph.topology import Topology


def with_bags_together(topology: Topology) -> Topology:
    """Return *topology* with bags of one length reduced together; itself where it has none."""
    producers = Producers.of(topology)
    found = [bags for x in topology.layers if (bags := bags_of_loop(producers, x)) is not None]
    sequences = [s for x in topology.layers if (s := bags_of_sequence(topology, producers, x)) is not None]
    found += confirmed(topology, sequences)
    if not found or any(name in topology.names for name in NUMBERS):
        return topology
    results, loops = {bags.result.name: bags for bags in found}, {bags.loop.name for bags in found}
    made = replace(topology, layers=[], constants=dict(topology.constants))
    for bags in found:
        made.constants |= bags.constants
    for layer in topology.layers:
        if layer.name in results:
            made.layers += results[layer.name].together
        elif layer.name not in loops:
            made.layers.append(layer)
    return made.pruned()
