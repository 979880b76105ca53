"""Bodies of control flow as a run of a piece runs them: by names, or trip by trip on values in their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from clgraph.graph.interpret import RunsTrips, Trip, by_names
from clgraph.graph.topology import Topology
from clgraph.model.stages.handing import array_of
from clgraph.model.stages.observing import StageObserver
from clgraph.network.cancelling import Cancellation

ByPlace = tuple["Quick", list[int], list[tuple[str, int | None, Any]]]
"""What runs the only piece of a body, the places of its inputs, and the sources of the body's outputs."""


class Quick(Protocol):
    """A piece that runs its latest plan where that fits.

    Attributes:
        names: Its inputs.
    """

    names: tuple[str, ...]

    def run_quickly(self, given: Sequence[Any]) -> dict[str, Any] | None:
        """Return the outputs by name, ``None`` where something is to be decided."""


class Body(Protocol):
    """A body that can be run.

    Attributes:
        only: Its only piece, if it is a simple one.
    """

    only: ByPlace | None

    def run(
        self, feeds: Mapping[str, Any], watch: StageObserver | None = None, cancellation: Cancellation | None = None
    ) -> dict[str, Any]:
        """Return the outputs by name."""

    def trip(self, given: Sequence[Any]) -> list[Any]:
        """Return the outputs of inputs, both in their order, of a run that nobody observes or ends."""


class HasBodies(Protocol):
    """A piece with control flow.

    Attributes:
        tensors: Whether results of the device stay there.
    """

    tensors: bool

    def body(self, body: Topology, *, whole: bool) -> Body:
        """Return what runs *body*; *whole*: it is a block of trips."""


class RunBodies(RunsTrips):
    """Runs the bodies of control flow in one run of a piece."""

    __slots__ = ("_cancellation", "_piece", "_watch")

    def __init__(self, piece: HasBodies, watch: StageObserver | None, cancellation: Cancellation | None) -> None:
        """Take the piece that has the bodies, and what the run is observed and ended by."""
        self._piece, self._watch, self._cancellation = piece, watch, cancellation

    def __call__(self, body: Topology, feeds: Mapping[str, Any], *, whole: bool = False) -> dict[str, Any]:
        """Return the outputs of *body* by name; *whole*: it is a block of trips."""
        results = self._piece.body(body, whole=whole).run(feeds, self._watch, self._cancellation)
        return {name: array_of(a) for name, a in results.items()} if self._piece.tensors else results

    def trips(self, body: Topology) -> Trip:
        """Return what runs *body*: the plan of the trip before, where that fits."""
        by_name, cancellation = by_names(body, self), self._cancellation
        if self._watch is not None or self._piece.tensors:
            return by_name
        if cancellation is None:
            return self._piece.body(body, whole=False).trip
        only = self._piece.body(body, whole=False).only
        if only is None:
            return by_name
        piece, read, makers = only

        def trip(given: Sequence[Any]) -> list[Any]:
            cancellation.check()
            made = piece.run_quickly([given[i] for i in read])
            if made is None:
                return by_name(given)
            return [own if own is not None else given[at] if at is not None else made[s] for s, at, own in makers]

        return trip


def by_place(topology: Topology, piece: Quick) -> ByPlace | None:
    """Return :attr:`Body.only` of a body whose only piece is *piece*; ``None`` where that reads constants, too."""
    places = {name: i for i, name in enumerate(topology.inputs)}
    if not places.keys() >= {*piece.names}:
        return None
    makers = [(source, places.get(source), topology.constants.get(source)) for _, source in topology.outputs]
    return piece, [places[name] for name in piece.names], makers
