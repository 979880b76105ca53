"""Inheritance of annotation, placement and origin by a node that replaces others."""

from __future__ import annotations

from collections.abc import Sequence

from clgraph.errors import ProgramError
from clgraph.graph.node import Node


def inherited(sources: Sequence[Node]) -> tuple[str | None, str | None, str | None, tuple[str, ...]]:
    """Return (annotation, placement, the annotations that placed it, provenance) of a node that stands for *sources*.

    Raises:
        ProgramError: They carry different annotations or placements. What placed them may differ: it binds nothing.
    """
    merged: list[str | None] = []
    for what in ("annotation", "placement"):
        found = {v for n in sources if (v := getattr(n, what)) is not None}
        if len(found) > 1:
            names = ", ".join(n.name for n in sources)
            raise ProgramError(f"{names} carry different {what}s ({', '.join(sorted(found))}) and cannot be one node")
        merged.append(next(iter(found), None))
    hints = dict.fromkeys(hint for n in sources if n.partitioned_by for hint in n.partitioned_by.split(", "))
    origin = dict.fromkeys(name for n in sources for name in n.origin)
    return merged[0], merged[1], ", ".join(hints) or None, tuple(origin)
