"""What a node that stands for others inherits from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from clgraph.errors import ProgramError

if TYPE_CHECKING:
    from clgraph.graph.program import Node


def inherited(sources: Sequence[Node]) -> tuple[str | None, str | None, str | None, tuple[str, ...]]:
    """Return (annotation, placement, the annotation that placed it, provenance) of a node that stands for *sources*."""
    merged: list[str | None] = []
    for what in ("annotation", "placement", "partitioned_by"):
        found = {v for n in sources if (v := getattr(n, what)) is not None}
        if len(found) > 1:
            names = ", ".join(n.name for n in sources)
            raise ProgramError(f"{names} carry different {what}s ({', '.join(sorted(found))}) and cannot be one node")
        merged.append(next(iter(found), None))
    return merged[0], merged[1], merged[2], tuple(dict.fromkeys(name for n in sources for name in n.origin))
