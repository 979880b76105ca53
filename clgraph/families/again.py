"""A member of a family that is run, and keeps no nodes for that: it is bound again for who looks at them."""

from __future__ import annotations

from collections.abc import Callable
from weakref import ReferenceType, ref

from clgraph.graph.program import Program


class Again:
    """Returns the program of one member: the same one as long as somebody has it, with the notes of the first."""

    __slots__ = ("_bind", "_found", "_notes")

    def __init__(self, program: Program, bind: Callable[[], Program]) -> None:
        """Take the member's *program*, and what binds it anew."""
        self._bind, self._notes = bind, program.notes
        self._found: ReferenceType[Program] = ref(program)

    def __call__(self) -> Program:
        """Return the program, with its nodes."""
        program = self._found()
        if program is None:
            program = self._bind()
            program.notes = self._notes
            self._found = ref(program)
        return program
