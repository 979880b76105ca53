"""Runs of a topology that have become alike: what decides about them, and joins their steps.

A piece decides in each run what computes it, and takes and makes dictionaries: some microseconds, as long as a few
layers on a few numbers. Where all of them decide the same in run after run on inputs of the same layouts, nothing but
their steps is left, and checks of what data may change.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from clgraph.graph.topology import Topology
from clgraph.model.stages.host_plan import HostPlan
from clgraph.model.stages.joined import DecidedPiece, JoinedPieces, Settled

ALIKE = 2
"""How many runs behind one another decide the same before their steps are joined."""

_MOST_ALIKE = 1 << 10
"""The same where runs that were joined turned out to be others: twice as many each time, up to this."""

_KEPT = 32
"""Layouts of inputs whose runs are kept: those of the trips of a loop that appends."""

_MOST_BYTES = 1 << 20
"""Of all values of a topology: joined steps hold them until the run is over."""


class Settling:
    """Watches the runs of a topology, joins their steps once those of the same layouts are alike, and runs them."""

    __slots__ = ("_ways", "latest")

    def __init__(self) -> None:
        """Know of no run yet."""
        self._ways: OrderedDict[Hashable, Way] = OrderedDict()
        self.latest: Way | None = None

    def run(self, given: Sequence[Any]) -> list[Any] | None:
        """Return the outputs in their order of the inputs in theirs; ``None`` where the run is to be decided about."""
        way = self.latest
        if way is None:
            return None
        if not way.fits(given):
            if len(self._ways) == 1 or (way := self._ways.get(_key(given))) is None:
                return None
            self.latest = way
            way.restore()
        return way.run(given)

    def note(self, topology: Topology, pieces: Sequence[DecidedPiece], given: Sequence[Any], *, alone: bool) -> None:
        """Note a run that was decided about.

        Args:
            given: The inputs, in their order.
            alone: Nobody observes the run or may end it.
        """
        key = _key(given)
        if (way := self._ways.get(key)) is None:
            way = self._ways[key] = Way(given)
            if len(self._ways) > _KEPT:
                self._ways.popitem(last=False)
        self.latest = way
        way.note(topology, pieces, alone=alone)


def _key(given: Sequence[Any]) -> Hashable:
    return tuple([(a.shape, a.dtype) if type(a) is np.ndarray else type(a) for a in given])


class Way:
    """The runs on inputs of some shapes and element types.

    Attributes:
        wanted: How many that decide the same come behind one another before their steps are joined.
        joined: What runs them; ``None`` where they are decided about.
    """

    __slots__ = ("_alike", "_found", "_layouts", "_places", "joined", "wanted")

    def __init__(self, given: Sequence[Any]) -> None:
        """Take inputs like those of the runs, in their order."""
        self._layouts = [(a.shape, a.dtype) if type(a) is np.ndarray else (None, type(a)) for a in given]
        self._found: Sequence[type[HostPlan] | Settled | None] | None = None
        self._places: list[tuple[DecidedPiece, bool]] = []
        self._alike, self.wanted = 0, ALIKE
        self.joined: JoinedPieces | None = None

    def fits(self, given: Sequence[Any]) -> bool:
        """Whether *given* are like the inputs of these runs."""
        for a, (shape, kind) in zip(given, self._layouts, strict=True):
            if type(a) is not np.ndarray:
                if type(a) is not kind:
                    return False
            elif a.shape != shape or (a.dtype is not kind and a.dtype != kind):
                return False
        return True

    def run(self, given: Sequence[Any]) -> list[Any] | None:
        """Return the outputs of inputs that fit, both in their order; ``None`` of a run that turns out otherwise."""
        if self.joined is None:
            return None
        made = self.joined.run(given)
        if made is None:
            self._alike, self.wanted = 0, min(2 * self.wanted, _MOST_ALIKE)
        return made

    def restore(self) -> None:
        """Tell the pieces where they run, as after the last of these runs that was decided about."""
        for piece, on_host in self._places:
            piece.on_host = on_host

    def note(self, topology: Topology, pieces: Sequence[DecidedPiece], *, alone: bool) -> None:
        """Note a run that was decided about; arguments as for :meth:`Settling.note`."""
        self.joined = None
        found = tuple([piece.settled for piece in pieces]) if alone else ()
        ways = [HostPlan if type(one) is HostPlan else one for one in found]
        if ways != self._found or not alone or None in found:
            self._found, self._alike = ways, 0
            return
        self._alike += 1
        if self._alike == self.wanted and _nbytes(found) <= _MOST_BYTES:
            self._places = [(piece, piece.on_host) for piece in pieces]
            self.joined = JoinedPieces(topology, pieces, found, self._layouts)


def _nbytes(found: Sequence[Settled | None]) -> int:
    layouts = [layout for one in found if isinstance(one, HostPlan) for layout in one.layouts]
    return sum(dtype.itemsize * int(np.prod(shape)) for shape, dtype in layouts)
