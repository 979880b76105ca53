"""The families of shapes that a file holds: members are bound to them, without a pass and without the topology."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from clgraph.compilation.context import context_of, for_families
from clgraph.core.layout import Shape
from clgraph.core.well_formed import well_formed
from clgraph.errors import BindingError, UnknownValueError
from clgraph.graph.primitive import primitive_of
from clgraph.graph.program import Program
from clgraph.graph.topology import Topology
from clgraph.model.specialisation import Values
from clgraph.saved.circumstances import differences
from clgraph.saved.container import Contents
from clgraph.selector.query import DeviceInfo
from clgraph.settings import Settings

if TYPE_CHECKING:
    from clgraph.compilation.compiler import Compiler
    from clgraph.families.families import Families, Member
    from clgraph.families.family import Family, PassRow
    from clgraph.families.schema import Schema


class SavedFamilies:
    """Binds members of one topology to the families in a file, and has those made that are missing.

    They are read when a shape asks for them: what runs a program out of the file needs nothing of them.

    Attributes:
        why: Why they cannot be used here; empty where they can. ``in_full`` names all circumstances that differ.
    """

    def __init__(self, contents: Contents, here: Mapping[str, str], refusal: str) -> None:
        """Look at what the file says, *here* being the circumstances; *refusal* says why nothing can be used."""
        self._contents = contents
        self._served: tuple[Mapping[str, DeviceInfo], Settings] | None = None
        self._families: Families | None = None
        self.topology: Topology | None = None
        with well_formed(str(contents.path)):
            self._data: Any = contents.header["families"]
            saved = dict(self._data["circumstances"])
            self.why, self.in_full = differences(saved, here) or refusal, differences(saved, here, whole=True)
            self._notes = {str(name): str(note) for name, note in self._data["notes"].items()}

    def serve(self, topology: Topology, devices: Mapping[str, DeviceInfo], options: Settings) -> None:
        """Bind members of the file's *topology* from now on, if they can be."""
        if not self.why:
            self.topology, self._served = topology, (devices, options)

    @property
    def families(self) -> Families:
        """What is in the file, and what has been made since; raises ``ModelError`` where the file is damaged."""
        if self._families is None:
            assert self.topology is not None
            assert self._served is not None
            self._families = self._read(self.topology, *self._served)
        return self._families

    @property
    def made(self) -> int:
        """How many schemas have been tried in this process."""
        return 0 if self._families is None else self._families.made

    def all(self) -> dict[Schema, Family | str]:
        """Return the families, or why there is none, by schema; raises as :attr:`families`."""
        return self.families.all()

    def _read(self, topology: Topology, devices: Mapping[str, DeviceInfo], options: Settings) -> Families:
        from clgraph.families.families import Families
        from clgraph.saved.families import decode_families

        context = for_families(context_of(devices, options), topology)
        found = Families(context)
        found.add(decode_families(self._data, self._contents.array, context, primitive_of))
        return found

    def forget(self) -> None:
        """Stop reading families from the file."""
        self._data = {**self._data, "known": []}
        if self._families is not None:
            self._families.forget()

    def adopted_by(self, compiler: Compiler) -> None:
        """Let *compiler* bind to the same families, and make others there."""
        if self.topology is not None:
            compiler.adopt(self.topology, self.families)

    def bind(
        self,
        topology: Topology,
        shapes: Sequence[Shape],
        values: Values,
        deciding: Collection[str],
        compiler: Callable[[], Compiler],
    ) -> Member | None:
        """Return the member that inputs of *shapes* make, ``None`` where no family is known to have it.

        Args:
            deciding: The inputs whose values have decided sizes before.
            compiler: Makes what compiles the representative of another family, as a slice of a batch may want.

        Raises:
            UnknownValueError: None has it, and some of those *values* are not given.
            ModelError: The file is damaged.
        """
        if self.topology is None or topology is not self.topology:
            return None
        if self.families.covers(topology.inputs.values(), shapes, values):
            with contextlib.suppress(BindingError):
                represent = partial(_represent, compiler, topology)
                member = self.families.bind(topology, shapes, values, represent)
                member.program.notes |= self._notes
                return member
        if more := set(deciding) - values.keys():
            raise UnknownValueError("sizes inside the model depend on the values of inputs", sorted(more))
        return None


def _represent(
    compiler: Callable[[], Compiler], topology: Topology, program: Program, shapes: Sequence[Shape]
) -> tuple[PassRow, ...]:
    return compiler().represent(topology, program, shapes)
