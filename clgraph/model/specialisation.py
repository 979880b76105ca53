"""A topology compiled for one set of input shapes and values that decide sizes, and what its passes did."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from clgraph.core.frozen import frozen
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.graph.topology import Topology
from clgraph.network.workspace import Workspace
from clgraph.selector.query import DeviceInfo

if TYPE_CHECKING:
    from clgraph.families.again import Again
    from clgraph.families.family import Family, PassRow
    from clgraph.families.schema import Schema
    from clgraph.model.keys import Key
    from clgraph.network.network import Network
    from clgraph.settings import Settings

Shapes = Mapping[str, Sequence[int]]
Values = Mapping[str, Array]

NODE_BYTES = 5 << 10
"""Python objects of a node with its values, query, plan and commands, in one more program of a model."""
LEAST_BYTES = 24 << 10
"""Python objects of a network beside those of nodes."""


@frozen
class PassRecord:
    """The record of one pass: its number in the pipeline, its number of changes, its seconds."""

    number: int
    name: str
    changes: int
    seconds: float


@lru_cache(maxsize=16)
def pass_records(rows: tuple[PassRow, ...]) -> tuple[PassRecord, ...]:
    """Return what the passes did to the representative of a family: the same objects for all of its members."""
    return tuple(PassRecord(*row) for row in rows)


class KnownFamilies(Protocol):
    """The families of a topology, compiled in this process or stored in a file that is read on demand."""

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
        """The notes on the program, by subject: what passes did, where it was loaded from."""
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


def story(specialisation: Specialisation) -> str:
    """Return one line about the origin of *specialisation* (loaded, bound, compiled) and its memory."""
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


class SpecialisationListener(Protocol):
    """Receives all specialisations whenever one is added; may keep references to them until :meth:`finish`."""

    def __call__(self, made: Mapping[Key, Specialisation], /) -> None:
        """Receive the specialisations *made* so far; the one requested last stands last."""

    def finish(self) -> None:
        """Complete deferred work now, and drop all references to specialisations."""
