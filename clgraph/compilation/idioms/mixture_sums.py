"""How the results of a mixture's experts are summed: into one another, or each into zeros that are added up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from clgraph.core.frozen import frozen
from clgraph.graph.layer import Layer
from clgraph.graph.topology import Topology
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.fill import Fill


@frozen
class Sums:
    """How the experts' results are summed: what is put in their place.

    Attributes:
        total: The name that the mixture's result has.
        aliases: Sums that are others once there is one result, by name.
    """

    total: str
    aliases: Mapping[str, str]


def sums_of(topology: Topology, sinks: Sequence[Layer], makers: Mapping[str, Layer]) -> Sums | None:
    """Return how the results of *sinks* are summed, ``None`` where they are not, one behind the other."""
    readers, aliases = dict[str, list[Layer]](), dict[str, str]()
    for layer in topology.layers:
        for name in dict.fromkeys(layer.inputs):
            readers.setdefault(name, []).append(layer)
    results = {value for _, value in topology.outputs}

    def is_for(name: str, reader: Layer | None) -> bool:
        """Whether *reader* alone reads elements of *name*."""
        others = [x for x in readers.get(name, []) if x is not reader and not x.primitive.shapes_only]
        return name not in results and all(is_for(n, None) for x in others for n in x.outputs)

    if all(adds(sink) for sink in sinks):
        for sink, behind in pairwise(sinks):
            (made,) = sink.outputs
            if behind.inputs[0] != made or not is_for(made, behind):
                return None
            aliases[made] = sinks[0].inputs[0]
        return Sums(sinks[-1].outputs[0], aliases)
    so_far = ""
    for sink in sinks:
        (made,), zeros = sink.outputs, makers.get(sink.inputs[0])
        add = next((x for x in readers.get(made, []) if isinstance(x.primitive, Eltwise)), None)
        if zeros is None or not isinstance(zeros.primitive, Fill) or zeros.primitive.value or add is None:
            return None
        if getattr(add.primitive, "function", "") != "add" or add.inputs[0] == add.inputs[1] or not is_for(made, add):
            return None
        if so_far:
            if so_far not in add.inputs or not is_for(so_far, add):
                return None
            aliases[add.outputs[0]] = so_far
        so_far = add.outputs[0]
    return Sums(sinks[0].outputs[0], aliases)


def adds(sink: Layer) -> bool:
    """Whether *sink* adds rows to what was there."""
    return getattr(sink.primitive, "reduction", "") == "add"
