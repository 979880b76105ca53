"""A member of a family that is run, and keeps no nodes for that: it is bound again for who looks at them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from weakref import ReferenceType, ref

from clgraph.graph.program import Program


class Again:
    """Returns the program of one member: the same one as long as somebody has it, with the notes of the first."""

    __slots__ = ("_bind", "_found", "_notes")

    def __init__(self, notes: dict[str, str], bind: Callable[[], Program]) -> None:
        """Take the *notes* of the member's program, and what binds it anew."""
        self._bind, self._notes = bind, notes
        self._found: ReferenceType[Program] | None = None

    def __call__(self) -> Program:
        """Return the program, whose nodes are made when they are looked at."""
        program = None if self._found is None else self._found()
        if program is None:
            program = _Unbound(self._notes, self._bind)
            self._found = ref(program)
        return program


class _Unbound(Program):
    """A program that is bound when anything but its notes is first asked for.

    Most who prepare a model for some sizes look at no node, and Python's collector would walk through all of them: a
    twentieth of the time of a binding.
    """

    def __init__(self, notes: dict[str, str], bind: Callable[[], Program]) -> None:
        self.notes = notes
        self._lock, self._bind = threading.Lock(), bind

    def __getattr__(self, name: str) -> Any:
        """Bind the program, and return its attribute *name*; what protocols ask a class for is no reason to."""
        if name.startswith("__"):
            raise AttributeError(name)
        with self._lock:
            if "inputs" not in vars(self):
                vars(self).update({**vars(self._bind()), "notes": self.notes})
        return object.__getattribute__(self, name)
