"""Nodes that the option ``keep_f32`` names: passes leave them, and their weights, in float32."""

from __future__ import annotations

from fnmatch import fnmatchcase

from clgraph.errors import OptionError
from clgraph.graph.program import Program
from clgraph.passes.base import Context


def check_kept(program: Program, context: Context) -> None:
    """Raise ``OptionError`` for a pattern that fits no node."""
    names = {name for node in program for name in (node.name, *node.origin)}
    for pattern in sorted(context.keep_f32):
        if not any(fnmatchcase(name, pattern) for name in names):
            raise OptionError(f"no node of the program is called {pattern!r}, so that none can be kept in float32")
