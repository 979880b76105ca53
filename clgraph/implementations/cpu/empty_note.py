"""Beginning notes of extremes on CPU devices."""

from __future__ import annotations

from clgraph.implementations.cpu.noted_extreme import NOTES, ExtremeNoteDesc, NoteStep
from clgraph.ops.noted_extreme import EmptyNote
from clgraph.selector.descriptor import Ref
from clgraph.selector.implementation import implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query


@implements(EmptyNote, name="empty_note.tile", serves=NOTES, general=True)
class EmptyNoteTile(NoteStep):
    """The int that stands for minus infinity."""

    @classmethod
    def plan(cls, q: Query[EmptyNote]) -> Plan:
        return Plan((Tile("extreme_note", ExtremeNoteDesc(note=Ref("out0"), out=Ref("out0"), sign=0), 1),))
