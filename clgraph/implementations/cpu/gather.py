"""Gathering on CPU devices: whole rows of plain tensors, as embeddings do, and any elements."""

from __future__ import annotations

from math import prod

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.coordinates import Coordinates
from clgraph.implementations.cpu.cost import TicketRanges, runs, step_seconds
from clgraph.implementations.cpu.move_elements import ANY_ELEMENTS
from clgraph.implementations.cpu.pick_elements import PickedElements, Picks
from clgraph.implementations.cpu.rows import Axis
from clgraph.ops.gather import Gather
from clgraph.selector.descriptor import Descriptor, Int, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, Serves, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

WORD = 4
"""Bytes that are moved at once."""

_COLUMNS, _IMAGES = 64, 16
"""Most rows of an image, and fewest images, of which those of one index are moved together."""

_TOGETHER = 4
"""How many times as fast they are moved then."""


@descriptor("gather_rows", library="moves", any_alignment=True)
class GatherRowsDesc(Descriptor):
    """Fields as in ``gather_rows.cl``."""

    inp: Pointer
    index: Pointer
    out: Pointer
    rows: Int
    images: Int
    count: Int
    width: Int
    wide: Int
    by_column: Int
    ticket_rows: Int


def _row_bytes(q: Query[Gather]) -> int:
    x = q.inputs[0]
    return prod(x.shape[q.primitive.axis + 1 :]) * x.dtype.itemsize


def _row_seconds(q: Query[Gather]) -> float:
    """Return the time of an index, a line of memory that nothing has fetched, and the copy."""
    unit = q.device.costs.unit
    return unit("gather.row") + -(-_row_bytes(q) // 64) * unit("copy.vector")


def _by_column(q: Query[Gather]) -> bool:
    """Return whether rows are so short, and so few an image, that those of one index are moved together."""
    images, count = prod(q.inputs[0].shape[: q.primitive.axis]), q.inputs[1].count
    return _row_bytes(q) in (WORD, 2 * WORD) and 1 <= count <= _COLUMNS and images >= _IMAGES


def _tickets(q: Query[Gather]) -> TicketRanges:
    rows, each = prod(q.inputs[0].shape[: q.primitive.axis]) * q.inputs[1].count, _row_seconds(q)
    if not _by_column(q):
        return runs(rows, each, q.device)
    count = q.inputs[1].count
    images = runs(rows // count, count * each / _TOGETHER, q.device)
    return TicketRanges(images.count, images.each * count)


@implements(Gather, name="gather.rows", serves=Serves(dtypes=frozenset(DType), mixed=True, kinds=frozenset({"cpu"})))
class GatherRows(Implementation[Gather]):
    """A row at a time."""

    @classmethod
    def limits(cls, q: Query[Gather]) -> str | None:
        if not all(x.is_dense_plain for x in (*q.inputs, *q.outputs)):
            return "serves dense plain tensors"
        if _row_bytes(q) % WORD:
            return f"copies rows of whole words, not of {_row_bytes(q)} bytes"
        return None

    @classmethod
    def cost(cls, q: Query[Gather]) -> float:
        tickets = _tickets(q)
        each = _row_seconds(q) / (_TOGETHER if _by_column(q) else 1)
        return step_seconds(q.device, tickets.count * tickets.each * each, q.outputs[0].nbytes, tickets.count)

    @classmethod
    def plan(cls, q: Query[Gather]) -> Plan:
        (x, indices), axis, tickets = q.own, q.primitive.axis, _tickets(q)
        desc = GatherRowsDesc(
            inp=Ref("in0"),
            index=Ref("in1"),
            out=Ref("out0"),
            rows=x.shape[axis],
            images=prod(x.shape[:axis]),
            count=indices.count,
            width=_row_bytes(q) // WORD,
            wide=int(indices.dtype == DType.I64),
            by_column=int(_by_column(q)),
            ticket_rows=tickets.each,
        )
        return Plan((Tile("gather_rows", desc, tickets.count),))


@implements(Gather, name="gather.elements", serves=ANY_ELEMENTS)
class GatherElementsOfAnySize(PickedElements):
    """One coordinate for all elements of a slice."""

    @classmethod
    def picks(cls, q: Query[Gather]) -> Picks:
        (x, indices), (y,), axis = q.own, q.outputs, q.primitive.axis
        behind = x.rank - axis - 1
        source = (*x.all_pitches[:axis], *(0,) * indices.rank, *x.all_pitches[axis + 1 :])
        picked = (*(0,) * axis, *indices.all_pitches, *(0,) * behind)
        axes = tuple(Axis(*found) for found in zip(y.shape, zip(source, picked, strict=True), strict=True))
        return Picks(axes, Coordinates(((x.shape[axis], x.all_pitches[axis]),)))
