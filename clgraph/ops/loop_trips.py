"""What a loop does trip by trip, where that is known before it runs: how many trips it makes, and its layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.errors import ClgraphError
from clgraph.graph.interpret import ControlFlow, interpret
from clgraph.graph.layer import Layer
from clgraph.graph.primitive import Array
from clgraph.graph.random_numbers import RANDOM_KEY
from clgraph.graph.topology import Topology
from clgraph.graph.unrolling import needed_for
from clgraph.ops.concat import Concat
from clgraph.ops.reshape import Unsqueeze


@frozen
class Stacked:
    """A value of every trip, stacked over the trips.

    Attributes:
        axis: Of the result, along which they stand.
        reverse: The first trip's stands last.
    """

    name: str
    axis: int = 0
    reverse: bool = False


@frozen
class LoopBody:
    """The parts of a loop's body by name.

    Attributes:
        trip, condition: Inputs: the number of the trip, and the condition, which is true in every trip.
        carried: Inputs that are carried from trip to trip.
        around: Inputs that are read from around the loop.
        goes_on: What makes the next condition.
        next: What makes the next of each of *carried*.
        scanned: What is stacked over the trips, in the order of the results.
    """

    topology: Topology
    trip: str
    condition: str
    carried: tuple[str, ...]
    around: tuple[str, ...]
    goes_on: str
    next: tuple[str, ...]
    scanned: tuple[Stacked, ...]

    @classmethod
    def of(cls, body: Topology, carried: int) -> LoopBody:
        """Return the parts of *body*, which carries the first *carried* values behind trip and condition."""
        trip, condition, *others = body.inputs
        goes_on, *results = (value for _, value in body.outputs)
        states, around = tuple(others[:carried]), tuple(others[carried:])
        stacked = tuple(map(Stacked, results[carried:]))
        return cls(body, trip, condition, states, around, goes_on, tuple(results[:carried]), stacked)

    def deciding(self) -> Topology | None:
        """Return the layers that make the condition, and the carried values that it depends on, of one trip.

        ``None`` where what they make depends on more than their inputs' elements, or has shapes of their own.
        """
        states: list[str] = []
        while True:
            wanted = [self.goes_on, *(self.next[self.carried.index(name)] for name in states)]
            layers = needed_for(wanted, self.topology.layers)
            read = {*wanted, *(name for layer in layers for name in layer.inputs)}
            found = [name for name in self.carried if name in read]
            if found == states:
                break
            states = found
        if RANDOM_KEY in read or any(layer.primitive.data_dependent for layer in layers):
            return None
        inputs = {name: signature for name, signature in self.topology.inputs.items() if name in read}
        names = dict(zip(self.carried, self.next, strict=True))
        outputs = [(self.condition, self.goes_on), *((name, names[name]) for name in states)]
        return Topology(inputs, self.topology.constants, layers, outputs)

    def count(self, deciding: Topology, first: Mapping[str, Array], trips: int | None, most: int) -> int | None:
        """Return how many trips there are; ``None`` where they are more than *most*, or a layer refuses its inputs.

        Args:
            deciding: What makes the condition.
            first: Its inputs in the first trip but for the number of it, and the first condition, by name.
            trips: How many there are at most.
        """
        feeds = dict(first)
        for trip in range(most + 1):
            if trip == trips or not np.ravel(feeds[self.condition])[0]:
                return trip
            try:
                made = interpret(deciding, {**feeds, self.trip: np.array(trip, np.int64)})
            except ClgraphError:
                return None
            feeds.update(made)
        return None

    def written_out(self, trips: int) -> Topology:
        """Return the layers of *trips* trips as a topology that takes the carried values and those from around.

        It makes the carried values of the last trip and the stacked results.
        """
        made = Topology(op_types=self.topology.op_types)
        for name in (*self.carried, *self.around):
            made.input(name, None, None)
        for name, array in self.topology.constants.items():
            made.constant(name, array)
        names = {name: name for name in (*self.around, *self.topology.constants, *self.carried)}
        names[self.condition] = made.constant(self.condition, np.array(True))

        def begin(trip: int) -> None:
            names[self.trip] = made.constant(f"trip_{trip}/{self.trip}", np.array(trip, np.int64))

        kept = {name for name, value in zip(self.carried, self.next, strict=True) if name == value}
        steady = {*self.around, *self.topology.constants, *kept}
        self.write(made, self.topology.layers, names, steady, range(trips), begin)
        return made.pruned()

    def write(
        self,
        made: Topology,
        layers: Sequence[Layer],
        names: dict[str, str],
        steady: set[str],
        trips: range,
        begin: Callable[[int], None],
    ) -> None:
        """Add *layers* to *made* once a trip, then the carried values among *names* and the stacked results as outputs.

        Args:
            names: How *made* calls the values of the body.
            steady: Values that are the same in every trip; the layers that make more of them are added once.
            begin: Called in front of each trip, to name what it has of its own.
        """
        flowing = {name: value for name, value in zip(self.carried, self.next, strict=True) if name in names}
        columns: list[list[str]] = [[] for _ in self.scanned]
        for trip in trips:
            begin(trip)
            for layer in layers:
                repeated = steady.issuperset(layer.inputs) and _repeats(layer)
                if repeated and steady.issuperset(layer.outputs):
                    continue
                own = "" if repeated else f"trip_{trip}/"
                steady.update(layer.outputs if repeated else ())
                outputs = [f"{own}{name}" for name in layer.outputs]
                made.add(
                    f"{own}{layer.name}",
                    layer.primitive,
                    *(names[name] for name in layer.inputs),
                    outputs=outputs,
                    origin=layer.origin,
                    annotation=layer.annotation,
                )
                names.update(zip(layer.outputs, outputs, strict=True))
            for i, (column, stacked) in enumerate(zip(columns, self.scanned, strict=True)):
                column.append(made.add(f"trip_{trip}/row_{i}", Unsqueeze((stacked.axis,)), names[stacked.name]))
            names.update([(name, names[value]) for name, value in flowing.items()])
        for name in flowing:
            made.output(name, names[name])
        for i, (column, stacked) in enumerate(zip(columns, self.scanned, strict=True)):
            rows = made.add(f"rows_{i}", Concat(stacked.axis), *(column[::-1] if stacked.reverse else column))
            made.output(f"scanned_{i}", rows)


def _repeats(layer: Layer) -> bool:
    """Whether a layer computes the same from the same inputs in every trip: no random numbers, no control flow."""
    return not isinstance(layer.primitive, ControlFlow) and RANDOM_KEY not in layer.inputs
