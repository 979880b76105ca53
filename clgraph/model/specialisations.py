"""The programs of a model, bound or compiled whole: one for each set of input shapes and values that decide sizes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from clgraph.core.frozen import frozen
from clgraph.core.layout import Shape
from clgraph.errors import UnknownValueError
from clgraph.graph.faults import faults
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.graph.topology import Topology
from clgraph.model.keys import Key, Known
from clgraph.network.workspace import Workspace
from clgraph.selector.query import DeviceInfo

if TYPE_CHECKING:
    from clgraph.families.again import Again
    from clgraph.families.family import Family, PassRow
    from clgraph.families.schema import Schema
    from clgraph.network.network import Network
    from clgraph.settings import Settings

Shapes = Mapping[str, Sequence[int]]
Values = Mapping[str, Array]

MEMBERS = 4
"""How many members of families are kept as programs, which a process runs sooner than it binds: those used last."""
NODE_BYTES = 5 << 10
"""Python objects of a node with its values, query, plan and commands, in one more program of a model."""
LEAST_BYTES = 24 << 10
"""Python objects of a network beside those of nodes."""
SPARED = 1 / 8
"""The part of the memory that is freed at once when it is full, so that what is there is seldom measured."""


@frozen
class PassRecord:
    """What one pass did: its number in the pipeline, how many changes it made, how long it took."""

    number: int
    name: str
    changes: int
    seconds: float


@lru_cache(maxsize=16)
def pass_records(rows: tuple[PassRow, ...]) -> tuple[PassRecord, ...]:
    """Return what the passes did to the representative of a family: the same objects for all of its members."""
    return tuple(PassRecord(*row) for row in rows)


class KnownFamilies(Protocol):
    """What is known about the families of a topology, in this process or in a file that nobody has looked at yet."""

    @property
    def made(self) -> int:
        """How many schemas have been tried in this process."""
        ...

    def all(self) -> dict[Schema, Family | str]:
        """Return the families, or why there is none; raises ``ModelError`` where they lie in a damaged file."""
        ...


@frozen
class Specialisation:
    """A topology compiled for one key.

    Attributes:
        kept: The program; of a member of a family that is run, without its nodes.
        network: What runs it; ``None`` for a dry run.
        devices, options: What it was compiled for, by placement, and under which options.
        families: All that is known about the topology's families, where sizes are open; ``bound``, whether the program
            is a member of one.
        again: Returns the program of a member that is kept without its nodes.
    """

    kept: Program
    network: Network | None
    passes: tuple[PassRecord, ...]
    devices: Mapping[str, DeviceInfo]
    options: Settings
    families: KnownFamilies | None = None
    bound: bool = False
    again: Again | None = None

    @property
    def program(self) -> Program:
        """The planned program."""
        return self.kept if self.again is None else self.again()

    @property
    def notes(self) -> dict[str, str]:
        """What there is to say about the program."""
        return self.kept.notes

    @property
    def nbytes(self) -> int:
        """About the bytes that it alone takes: its network's, and Python's objects."""
        objects = NODE_BYTES * len(self.kept) + LEAST_BYTES
        return objects + (0 if self.network is None else self.network.nbytes)

    def lightened(self, again: Again) -> Specialisation:
        """Return what only runs a member, and makes its program *again* for who looks at its nodes."""
        if self.network is None:
            return self
        self.network.lighten(again)
        return replace(self, kept=self.network.program, again=again)

    def clone(self, workspace: Workspace) -> Specialisation:
        """Return the same program and constants with memory in *workspace*; raises as a network's constructor."""
        return replace(self, network=None if self.network is None else self.network.clone(workspace))


Specialise = Callable[[Topology, Shapes, Values, Workspace], Specialisation]
"""Compiles a topology for input shapes and the values of some inputs; raises ``UnknownValueError`` for more of them."""


class Told(Protocol):
    """Is told of all the specialisations there are when one more has been made, and may hold them for a while."""

    def __call__(self, made: Mapping[Key, Specialisation], /) -> None:
        """Take what is *made* now, what was asked for last at the end."""

    def finish(self) -> None:
        """Do at once what is still to be done with them, and hold none any more."""


class Specialisations:
    """The specialisations of one topology, made when they are first asked for; kept within a limit of memory.

    Attributes:
        lock: Held while one is looked up or made.
        latest: The one asked for last.
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
        self._topology, self.specialise = topology, specialise
        self._kept: OrderedDict[Key, Specialisation] = OrderedDict()
        self._nbytes = 0
        self._deciding: tuple[str, ...] = ()
        self._family: Specialisations | None = None if family is None else family._family or family
        self.latest: Specialisation | None = None
        self._latest_shapes: tuple[Shape, ...] | None = None
        self.tell: Told | None = None
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
        """Return what holds for inputs of *shapes*, whose *values* are looked at as far as they decide sizes.

        Raises:
            InputError: *shapes* do not fit the model's inputs.
            UnknownValueError: The value of an input decides sizes and is not among *values*.
            ClgraphError: The model cannot be compiled for them; what there is stays.
        """
        with self.lock:
            if self.latest is not None and shapes == self._latest_shapes and not self._deciding:
                return self.latest
            key = self._key(shapes, values) if values or not self._deciding else None
            found = None if key is None else self._kept.get(key)
            if key is None or found is None:
                found = self._make(shapes, values)
            elif found is not self.latest:
                self._kept.move_to_end(key)
            self.latest, self._latest_shapes = found, shapes
            return found

    @property
    def workspace(self) -> Workspace:
        """The memory that their networks share."""
        return self._workspace

    def clear(self) -> None:
        """Drop them all, behind what :attr:`tell` has to do with them."""
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
        return tuple(f"{key.text(self._topology) or 'no inputs'}: {_story(s)}" for key, s in self.kept.items())

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
        return Key(shapes, tuple((name, Known.of(values[name])) for name in self._deciding))

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
    def _compiled(self, shapes: Shapes, key: Key) -> Specialisation:
        known = {name: value.array for name, value in key.values}
        return self.specialise(self._topology, shapes, known, self._workspace)


def _story(specialisation: Specialisation) -> str:
    """Return how *specialisation* came about, and what it takes."""
    from clgraph.families.notes import BOUND
    from clgraph.families.notes import NOTE as FAMILY

    notes = specialisation.notes
    loaded, family = notes.get("load", ""), notes.get(FAMILY, "")
    parts = [loaded]
    if family.startswith(BOUND):
        parts.append(family)
    elif not loaded.startswith("as saved"):
        seconds = sum(p.seconds for p in specialisation.passes)
        passes = f"{len(specialisation.passes)} passes in {seconds * 1e3:.0f} ms"
        parts += [passes, notes.get("propagate_constants", ""), family]
    parts.append(f"{specialisation.nbytes / 1024:.0f} KiB")
    return "; ".join(part for part in parts if part)
