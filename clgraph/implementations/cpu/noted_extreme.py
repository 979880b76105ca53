"""Reading notes of extremes on CPU devices."""

from __future__ import annotations

from typing import Any

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.cost import step_seconds
from clgraph.ops.noted_extreme import EXTREMA, NotedExtreme
from clgraph.selector.descriptor import Descriptor, Int, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, Serves, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

NOTES = Serves(dtypes=frozenset(DType), mixed=True, kinds=frozenset({"cpu"}), formats=True)
"""What steps on notes serve: any tensor that the note is of, which they do not read."""
_SECONDS = 1e-8


@descriptor("extreme_note", library="bytes", any_alignment=True)
class ExtremeNoteDesc(Descriptor):
    """Fields as in ``extreme_note.cl``."""

    note: Pointer
    out: Pointer
    sign: Int


class NoteStep(Implementation[Any]):
    """One ticket of next to nothing."""

    @classmethod
    def cost(cls, q: Query[Any]) -> float:
        return step_seconds(q.device, _SECONDS, 0, 1)


@implements(NotedExtreme, name="noted_extreme.tile", serves=NOTES, general=True)
class NotedExtremeTile(NoteStep):
    """The int as a float."""

    @classmethod
    def plan(cls, q: Query[NotedExtreme]) -> Plan:
        desc = ExtremeNoteDesc(note=Ref("in0"), out=Ref("out0"), sign=EXTREMA[q.primitive.function])
        return Plan((Tile("extreme_note", desc, 1),))
