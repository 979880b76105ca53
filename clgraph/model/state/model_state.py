"""The state of one model: its programs over caches, and runs whose caches are fed back as ordinary arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any
from weakref import WeakSet

import numpy as np

from clgraph.errors import ClosedError, InputError
from clgraph.graph.primitive import Array
from clgraph.graph.topology import Topology
from clgraph.model.specialisation import Specialisation
from clgraph.model.specialisations import Specialisations
from clgraph.model.state.caches import Caches, Lease, leased
from clgraph.model.state.cut import cut
from clgraph.model.state.cut_topology import CutTopology
from clgraph.model.state.cut_wide import cut_wide
from clgraph.model.state.keeping import NoStateError
from clgraph.model.state.pairs import Cache
from clgraph.model.state.programs import Appended, StatePrograms
from clgraph.model.state.stacked import parts_of
from clgraph.model.tensor import Tensor
from clgraph.network.cancelling import Cancellation
from clgraph.network.held_memory import HeldMemory
from clgraph.runtime.memory import Memory


class ModelState:
    """The caches of a model and the programs over them. Calls must not overlap.

    Attributes:
        why: Why there are no caches; empty where there are.
    """

    def __init__(self, topology: Topology, specialisations: Specialisations, without: str = "") -> None:
        """Look at nothing yet; there are no caches where *without* says why."""
        self._topology, self._specialisations = topology, specialisations
        self.why = without
        self._known: WeakSet[Caches] = WeakSet()
        self._spare: Caches | None = None
        self._closed = False
        self._memory = HeldMemory(specialisations.workspace.account)

    @cached_property
    def parts(self) -> CutTopology | None:
        """The topology cut for caches; ``None`` where it has none, and :attr:`why` says why."""
        if self.why:
            return None
        try:
            return cut(self._topology)
        except NoStateError as error:
            why = str(error)
        try:
            return cut_wide(self._topology)
        except NoStateError as error:
            self.why = f"{why}; {error}"
            return None

    @cached_property
    def programs(self) -> StatePrograms:
        """The programs over caches."""
        assert self.parts is not None
        return StatePrograms(self.parts, self._specialisations.specialise, self._specialisations.workspace)

    @property
    def latest(self) -> Specialisation | None:
        """The program over caches that was used last."""
        return self.programs.latest if "programs" in self.__dict__ else None

    def close(self) -> None:
        """Release the programs after the current run; later runs raise ``ClosedError``."""
        with self._specialisations.lock:
            self._closed, self._spare = True, None
            if "programs" in self.__dict__:
                self.programs.clear()

    def check_open(self) -> None:
        """Raise ``ClosedError`` where the model was closed."""
        if self._closed:
            raise ClosedError("the model of the session was closed: compile or load it again")

    def new_caches(self, batch: int) -> Caches:
        """Return caches for *batch* texts that hold nothing."""
        assert self.parts is not None
        return Caches(self.parts.caches, batch, self._memory)

    def forget(self, caches: Caches) -> None:
        """Drop the references that programs hold to the memory of *caches*."""
        if not caches.is_held or not isinstance(memory := caches.held, Memory):
            return
        for made in self.programs.made:
            for kept in () if made.network is None else made.network.kept:
                kept.forget(memory)

    def run(
        self,
        feeds: Mapping[str, Array],
        places: Mapping[str, Array | Tensor | None],
        cancellation: Cancellation | None = None,
    ) -> dict[str, Any]:
        """Return the results named in *places*, in what is given there, of a model that is fed its caches.

        Those that it has returned, and that nobody has written behind, are used where they lie; others are copied in.

        Raises:
            InputError: The pasts do not fit one another or the model; or as :meth:`StatePrograms.run`.
        """
        assert self.parts is not None
        layout = self.parts.caches
        made = {*(c.output for c in layout.caches), *(s.output for s in layout.stacks)}
        self.parts.check_ranks(feeds)
        feeds = parts_of(layout.stacks, feeds)
        past = self._past(feeds)
        caches = self._caches_of(feeds, past)
        rest = {name: array for name, array in feeds.items() if name in self.parts.shapes}
        wanted = [name for name in places if name not in made]
        targets = {n: p if isinstance(p, np.ndarray) else None for n, p in places.items()}
        done = self.programs.run(caches, rest, past, wanted, targets, cancellation)
        self._spare, results = caches, done.results
        if past > done.total:
            asked = [c for c in layout.caches if c.output in places]
            results |= {c.output: _updated(caches, c, feeds[c.input], places[c.output], done) for c in asked}
        elif made & places.keys():
            results |= caches.presents(done.total)
        return {name: delivered(name, place, results[name]) for name, place in places.items()}

    def _past(self, feeds: Mapping[str, Array]) -> int:
        """Return how many tokens there are; pasts that the model cuts have the latest of them."""
        assert self.parts is not None
        caches = self.parts.caches.caches
        shape, past = feeds[caches[0].input].shape, self.parts.past(feeds)
        for cache in caches:
            array = feeds[cache.input]
            wanted = (shape[0], cache.heads, cache.shown(past), cache.depth)
            if array.shape != wanted:
                raise InputError(
                    f"input {cache.input!r} is a cache {list(array.shape)}; this model, fed {caches[0].input!r} "
                    f"{list(shape)}, requires {list(wanted)}: caches of other models or runs do not fit"
                )
        return past

    def _caches_of(self, feeds: Mapping[str, Array], past: int) -> Caches:
        """Return caches that hold the pasts in *feeds*, and whose memory behind them nobody reads any more."""
        assert self.parts is not None
        caches = self.parts.caches.caches
        batch = feeds[caches[0].input].shape[0]
        lease = leased(feeds[caches[0].input]) if past else None
        if lease is not None and lease.caches in self._known and _is_same(lease, feeds, past):
            if not lease.caches.lent(beyond=past):
                return lease.caches
            made = lease.caches.fork(past)
            self._known.add(made)
            return made
        spare = self._spare
        made = spare if spare is not None and spare.batch == batch and not spare.lent() else self.new_caches(batch)
        self._known.add(made)
        made.put(feeds, past)
        return made


def _is_same(lease: Lease, feeds: Mapping[str, Array], past: int) -> bool:
    """Whether *feeds* are what the caches of *lease* hold of the first *past* tokens."""
    return (lease.count == past and lease.shows(feeds)) or lease.caches.holds(feeds, past)


def _updated(caches: Caches, cache: Cache, past: Array, place: Any, done: Appended) -> Array:
    """Return a past that has more places than there are tokens, with the new ones in it: *place* if it is the past."""
    whole = isinstance(place, np.ndarray) and place.shape == past.shape and place.strides == past.strides
    present = place if whole and place.ctypes.data == past.ctypes.data else past.copy()
    present[:, :, done.first : done.total] = caches.read(cache, done.first, done.total)
    return present


def delivered(name: str, place: Any, result: Array) -> Any:
    """Return *result* in *place*, an array or a tensor; itself where that is ``None``."""
    if place is None or place is result:
        return result
    if place.shape != result.shape or place.dtype != result.dtype:
        raise InputError(
            f"output {name!r} is {result.dtype} {list(result.shape)}; the given array is {place.dtype} "
            f"{list(place.shape)}"
        )
    if isinstance(place, Tensor):
        place.fill(result)
    else:
        place[...] = result
    return place


def names_of(outputs: Sequence[str] | Mapping[str, Any] | None, known: Sequence[str]) -> dict[str, Any]:
    """Return where each wanted result goes, by name; raises ``InputError`` for one that there is not."""
    places = dict(outputs) if isinstance(outputs, Mapping) else dict.fromkeys(known if outputs is None else outputs)
    if unknown := [name for name in places if name not in known]:
        raise InputError(f"no output is called {unknown[0]!r}; the outputs are {', '.join(map(repr, known))}")
    return places
