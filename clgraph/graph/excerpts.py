"""Some layers of a topology as one of their own: what they read from outside are its inputs."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from clgraph.graph.layer import Layer
from clgraph.graph.topology import Topology


def excerpt(topology: Topology, layers: Sequence[Layer], wanted: Collection[str]) -> Topology:
    """Return *layers*, in the order in which they run, as a topology that makes those of *wanted* that are theirs.

    What other layers make is an input of any type and shape; constants are shared.
    """
    made = Topology(
        op_types=topology.op_types, expanded=topology.expanded, noted=topology.noted, scattered=topology.scattered
    )
    inner = {name for layer in layers for name in layer.outputs}
    for name in dict.fromkeys(name for layer in layers for name in layer.inputs if name not in inner):
        if name in topology.constants:
            made.constant(name, topology.constants[name])
        else:
            s = topology.inputs.get(name)
            made.input(name, *((None, None) if s is None else (s.shape, s.host_type or s.dtype)))
    for x in layers:
        made.add(x.name, x.primitive, *x.inputs, outputs=x.outputs, origin=x.origin, annotation=x.annotation)
    for name in (name for layer in layers for name in layer.outputs if name in wanted):
        made.output(name)
    return made
