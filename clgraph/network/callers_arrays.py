"""What stands for the inputs and results of a program that its kernels use where the caller has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from clgraph.graph.node import Value
from clgraph.network.borrowed_buffers import BorrowedBuffer, BorrowedSpot
from clgraph.network.buffer_table import BufferTable
from clgraph.network.kept_memory import is_updated
from clgraph.network.tiles import TileExecutor


def borrowed_buffer(
    value: Value, places: Mapping[str, BufferTable], executors: Iterable[TileExecutor]
) -> BorrowedBuffer | None:
    """Return what stands for an input or result that its program uses where the caller has it; ``None`` for others."""
    for there in places.values():
        if value in there.borrowed and not is_updated(value):
            return BorrowedBuffer(spot_of(value, there), [e for e in executors if e.engine is there.engine])
    return None


def spot_of(value: Value, places: BufferTable) -> BorrowedSpot:
    """Return where a value of ``places.borrowed`` is."""
    return BorrowedSpot(
        places,
        places.borrowed[value],
        places.view(value),
        value.layout.nbytes,
        writes=value.producer is not None,
        writes_callers=value in places.writes_callers,
    )
