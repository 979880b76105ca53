"""The families of shapes that a file holds: members are bound to them, without a pass and without the topology."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from clgraph.compilation.context import context_of, for_families
from clgraph.core.layout import Shape
from clgraph.errors import BindingError, UnknownValueError
from clgraph.graph.program import Program
from clgraph.graph.serial import well_formed
from clgraph.graph.topology import Topology
from clgraph.model.specialisations import Values
from clgraph.ops import primitive_of
from clgraph.saved.circumstances import differences
from clgraph.saved.container import Contents
from clgraph.selector.query import DeviceInfo
from clgraph.settings import Settings

if TYPE_CHECKING:
    from clgraph.compilation.compiler import Compiler
    from clgraph.families.families import Families
    from clgraph.families.family import PassRow


class SavedFamilies:
    """Binds members of one topology to the families in a file, and has those made that are missing.

    Attributes:
        why: Why they cannot be used here; empty where they can.
        families: They, once :meth:`open` was called where they can be used.
    """

    def __init__(self, contents: Contents, here: Mapping[str, str], refusal: str) -> None:
        """Look at what the file says, *here* being the circumstances; *refusal* says why nothing can be used."""
        self._contents = contents
        self._topology: Topology | None = None
        self.families: Families | None = None
        with well_formed(str(contents.path)):
            self._data: Any = contents.header["families"]
            self.why = differences(dict(self._data["circumstances"]), here) or refusal
            self._notes = {str(name): str(note) for name, note in self._data["notes"].items()}

    def open(self, topology: Topology, devices: Mapping[str, DeviceInfo], options: Settings) -> None:
        """Get ready to bind members of the file's *topology*."""
        if self.why:
            return
        # Imported where there are any: what is compiled for fixed shapes needs nothing of them.
        from clgraph.families.families import Families
        from clgraph.saved.families import decode_families

        context = for_families(context_of(devices, options), topology)
        known = decode_families(self._data, self._contents.array, context, primitive_of)
        self._topology, self.families = topology, Families(context)
        self.families.add(known)

    @property
    def schemas(self) -> Collection[Hashable]:
        """What is known something about."""
        return () if self.families is None else self.families.schemas

    def forget(self) -> None:
        """Take nothing out of the file any more."""
        if self.families is not None:
            self.families.forget()

    def adopted_by(self, compiler: Compiler) -> None:
        """Let *compiler* bind to the same families, and make others there."""
        if self._topology is not None and self.families is not None:
            compiler.adopt(self._topology, self.families)

    def bind(
        self,
        topology: Topology,
        shapes: Sequence[Shape],
        values: Values,
        deciding: Collection[str],
        compiler: Callable[[], Compiler],
    ) -> Program | None:
        """Return the planned program for inputs of *shapes*; ``None`` where no family is known to have it.

        Args:
            deciding: The inputs whose values have decided sizes before.
            compiler: Makes what compiles the representative of another family, as a slice of a batch may want.

        Raises:
            UnknownValueError: None has it, and some of those *values* are not given.
            ModelError: The file is damaged.
        """
        if self.families is None or topology is not self._topology:
            return None
        if self.families.covers(topology.inputs.values(), shapes, values):
            with contextlib.suppress(BindingError):
                represent = partial(_represent, compiler, topology)
                program, _ = self.families.bind(topology, shapes, values, represent)
                program.notes |= self._notes
                return program
        if more := set(deciding) - values.keys():
            raise UnknownValueError("sizes inside the model depend on the values of inputs", sorted(more))
        return None


def _represent(
    compiler: Callable[[], Compiler], topology: Topology, program: Program, shapes: Sequence[Shape]
) -> tuple[PassRow, ...]:
    return compiler().represent(topology, program, shapes)
