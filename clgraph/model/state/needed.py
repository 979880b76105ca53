"""Topologies without what nothing reads."""

from __future__ import annotations

from dataclasses import replace

from clgraph.graph.topology import Topology


def needed(topology: Topology) -> Topology:
    """Return *topology* without layers that nothing reads, in the order in which values are made."""
    kept = topology.needed()
    made = {*topology.inputs, *topology.constants, *(name for x in kept for name in x.outputs)}
    return replace(topology, layers=kept, _made=made)
