"""The programs of a model, bound or compiled whole: one for each set of input shapes and values that decide sizes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np

from clgraph.core.layout import Shape
from clgraph.errors import UnknownValueError
from clgraph.graph.faults import faults
from clgraph.graph.topology import Topology
from clgraph.model.keys import InputValue, Key
from clgraph.model.specialisation import Shapes, Specialisation, SpecialisationListener, Specialise, story
from clgraph.model.unread import UnreadInputs
from clgraph.network.workspace import Workspace

MEMBERS = 4
"""How many members of families are kept as programs, which a process runs sooner than it binds: those used last."""
SPARED = 1 / 8
"""The part of the memory that is freed at once when it is full, so that what is there is seldom measured."""


class Specialisations:
    """The specialisations of one topology, made when they are first asked for; kept within a limit of memory.

    Attributes:
        lock: Held while one is looked up or made.
        latest: The one asked for last.
        unread: The inputs that nothing reads, on whose shapes none depends.
        tell: Told of all there are when one more has been made.
    """

    def __init__(
        self,
        topology: Topology,
        specialise: Specialise,
        family: Specialisations | None = None,
        beside: Specialisations | None = None,
    ) -> None:
        """Make specialisations of *topology* by *specialise*, and keep them within the option ``shape_cache``.

        Args:
            family: Begin with clones of what that has, of members of families only the latest, and clone what else it
                has instead of compiling it.
            beside: Those of another topology with the same constants, whose copies on devices are shared.
        """
        self._topology, self.specialise, self.unread = topology, specialise, UnreadInputs(topology)
        self._kept: OrderedDict[Key, Specialisation] = OrderedDict()
        self._nbytes = 0
        self._deciding: tuple[str, ...] = ()
        self._family: Specialisations | None = None if family is None else family._family or family
        self.latest: Specialisation | None = None
        self._latest_shapes: tuple[Shape, ...] | None = None
        self.tell: SpecialisationListener | None = None
        self.lock = threading.RLock()
        other = family or beside
        self._workspace: Workspace = Workspace(None if other is None else other._workspace)
        if family is not None:
            with family.lock:
                self._deciding = family._deciding
                for key, found in family._kept.items():
                    if found.again is not None and found is not family.latest:
                        # Binding all members would take long: each is cloned when it is asked for.
                        continue
                    self._kept[key] = self.latest = found.clone(self._workspace)
                    self._nbytes += self.latest.nbytes

    def get(self, shapes: tuple[Shape, ...], values: Mapping[str, Any]) -> Specialisation:
        """Return the specialisation for inputs of *shapes* and, of *values*, those that decide sizes.

        Raises:
            InputError: *shapes* do not fit the model's inputs.
            UnknownValueError: The value of an input decides sizes and is not among *values*.
            ClgraphError: The model cannot be compiled for them; what there is stays.
        """
        with self.lock:
            if self.latest is not None and shapes == self._latest_shapes and not self._deciding:
                return self.latest
            bound = self.unread.shapes(shapes)
            key = self._key(bound, values) if values or not self._deciding else None
            found = None if key is None else self._kept.get(key)
            if key is None or found is None:
                found = self._make(bound, values)
            elif found is not self.latest:
                self._kept.move_to_end(key)
            self.latest, self._latest_shapes = found, shapes
            return found

    def find(self, shapes: tuple[Shape, ...], values: Mapping[str, Any]) -> Specialisation | None:
        """Return the specialisation as :meth:`get`, or ``None`` if it has not been made, or was dropped."""
        with self.lock:
            return self.get(shapes, values) if self._key(self.unread.shapes(shapes), values) in self._kept else None

    @property
    def workspace(self) -> Workspace:
        """The memory that their networks share."""
        return self._workspace

    def clear(self) -> None:
        """Drop all specialisations, after the listener :attr:`tell` has finished with them."""
        with self.lock:
            self._kept.clear()
            self._nbytes = 0
            self.latest = self._family = None
            self._workspace.give_back()
            told, self.tell = self.tell, None
        if told is not None:
            told.finish()

    @property
    def kept(self) -> dict[Key, Specialisation]:
        """The specialisations there are, the one used last at the end."""
        with self.lock:
            return dict(self._kept)

    @property
    def report(self) -> tuple[str, ...]:
        """One line a specialisation, the one used last at the end: what it holds for, how it came about."""
        return tuple(f"{key.text(self._topology) or 'no inputs'}: {story(s)}" for key, s in self.kept.items())

    @property
    def deciding(self) -> tuple[str, ...]:
        """The inputs whose values are part of the key, as far as compiling has shown so far."""
        return self._deciding

    def _key(self, shapes: tuple[Shape, ...], values: Mapping[str, Any]) -> Key:
        if missing := [name for name in self._deciding if name not in values]:
            names = ", ".join(map(repr, missing))
            raise UnknownValueError(
                f"sizes inside the model depend on the value of input {names}: run it, or in Python "
                "prepare(values={...})",
                missing,
            )
        return Key(shapes, tuple((name, InputValue.of(values[name])) for name in self._deciding))

    def _make(self, shapes: tuple[Shape, ...], values: Mapping[str, Any]) -> Specialisation:
        named = dict(zip(self._topology.inputs, shapes, strict=True))
        for name in named:
            self._topology.shape_of(name, named)
        while True:
            key = self._key(shapes, values)
            try:
                made = self._of_family(key) or self._compiled(named, key)
                break
            except UnknownValueError as error:
                if not set(error.inputs) - set(self._deciding):
                    raise
                self._deciding = tuple(n for n in self._topology.inputs if n in (*self._deciding, *error.inputs))
        self._kept[key] = made
        self._nbytes += made.nbytes
        self._forget(made.options.shape_cache << 20)
        if self.tell is not None:
            self.tell(dict(self._kept))
        return made

    def _forget(self, most: int) -> None:
        """Drop those used longest ago where all take more than *most* bytes; what they share changes as others go."""
        if self._nbytes <= most:
            return
        self._nbytes = sum(s.nbytes for s in self._kept.values())
        if self._nbytes > most:
            while self._nbytes > most * (1 - SPARED) and len(self._kept) > 1:
                self._nbytes -= self._kept.popitem(last=False)[1].nbytes

    def _of_family(self, key: Key) -> Specialisation | None:
        """Return a clone of what the model that this is a clone of has for *key*."""
        if self._family is None:
            return None
        with self._family.lock:
            known = self._family._kept.get(key)
            return None if known is None else known.clone(self._workspace)

    @faults("compiling the model")
    @np.errstate(all="ignore")  # as :meth:`clgraph.graph.node.Node.reference` computes
    def _compiled(self, shapes: Shapes, key: Key) -> Specialisation:
        known = {name: value.array for name, value in key.values}
        return self.specialise(self._topology, shapes, known, self._workspace)
