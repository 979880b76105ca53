"""The next token of each text behind the one that was computed last: what is the same for both is prepared here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.layout import Shape
from clgraph.graph.primitive import Array
from clgraph.graph.topology import Topology
from clgraph.model.specialisation import Specialisation
from clgraph.model.state.biases import BiasMemory, declared_shape, widened
from clgraph.model.state.caches import Caches
from clgraph.model.state.cut_topology import LENGTHS, PLACES, STATE, Bias, CutTopology
from clgraph.model.state.last import LAST
from clgraph.model.state.wide import SHOWN, SIZES, Wide, shown
from clgraph.network.feed import Held
from clgraph.network.network import Network


@frozen
class NextToken:
    """A program for a token of each text.

    Attributes:
        device: The topology that it was compiled from; ``made``, ``network``: it, and what runs it.
        fed, told: Its inputs that are the model's, and those that the host computes.
        biases: What it adds to scores: the host's value, its input and memory, and how the value is declared.
        places: Whether it reads where the tokens stand.
        wide: What is as wide as the caches, where it reads these as tensors, of ``capacity`` places.
        results: All that it makes.
    """

    device: Topology
    made: Specialisation
    network: Network
    fed: tuple[str, ...]
    told: tuple[str, ...]
    biases: tuple[tuple[Bias, BiasMemory, Shape], ...]
    places: bool
    results: tuple[str, ...]
    wide: Wide | None = None
    capacity: int = 0

    def run(
        self,
        device: Topology,
        caches: Caches,
        feeds: Mapping[str, Array],
        values: Mapping[str, Array],
        first: Array,
        total: int,
        wanted: Sequence[str],
        targets: Mapping[str, Array | None],
    ) -> dict[str, Array] | None:
        """Return the results *wanted* of a token of each text, in new arrays; ``None`` where that takes more.

        Nothing was done then: the topology is another, shapes or results are, or the caches are to grow.

        Args:
            values: What the host has computed; *first*: the places of the tokens; *total*: of all there are then.
        """
        if device is not self.device or total > caches.places or caches.is_waiting:
            return None
        if len(wanted) != len(self.results) or any(targets.get(name) is not None for name in wanted):
            return None
        if any(declared_shape(values[bias.value]) != shape for bias, _, shape in self.biases):
            return None
        if self.wide is not None:
            if caches.places != self.capacity:
                return None
            values = self.wide.widened(values, self.capacity)
        given: dict[str, Held] = {name: feeds[name] for name in self.fed}
        for name in self.told:
            given[name] = values[name]
        if self.wide is not None:
            given[SHOWN] = shown(total, self.capacity)
        given[LENGTHS] = np.array([caches.places, *first.tolist()], np.int32)
        if self.places:
            given[PLACES] = first[:, None]
        given[STATE] = caches.held
        for bias, memory, _ in self.biases:
            given[bias.input] = memory.hold(widened(values[bias.value], total, caches.places), caches.engine)
        if caches.batch > 1:
            caches.clear(int(first.max()), total)
        results = self.network.run_quickly(given)
        return None if results is None else {name: results[name] for name in wanted}


def next_token(
    device: Topology, made: Specialisation, parts: CutTopology, biases: Mapping[str, tuple[BiasMemory, Shape]]
) -> NextToken | None:
    """Return what runs *made*, a program for a token of *device*, again; ``None`` where it is for the last of some.

    Args:
        biases: The memory of each bias, and the shape that *made* was compiled for, by the input.
    """
    network = made.network
    held = tuple((b, *biases[b.input]) for b in parts.biases if b.input in device.inputs)
    apart = {LENGTHS, PLACES, STATE, SHOWN, *(b.input for b in parts.biases)}
    inputs = [name for name in device.inputs if name not in apart and not name.startswith(SIZES)]
    if network is None or LAST in inputs:
        return None
    told = tuple(name for name in inputs if name in parts.crossing)
    fed = tuple(name for name in inputs if name not in told)
    results = tuple(name for name, _ in network.program.outputs)
    capacity = next((v.layout.shape[0] for v in network.program.inputs if v.name == SHOWN), 0)
    return NextToken(device, made, network, fed, told, held, PLACES in device.inputs, results, parts.wide, capacity)
