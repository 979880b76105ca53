"""Elementwise functions of any element types on CPU devices: integers, truth values, halves, doubles, conversions."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.cost import runs, step_seconds
from clgraph.implementations.cpu.element_functions import ANGLES, QUANTIZE, Computation
from clgraph.implementations.cpu.element_types import (
    BYTES,
    CONVERTED,
    DOUBLE,
    LONG,
    OWN,
    PAIRS,
    READ,
    RUN,
    RUN_BYTES,
    WRITTEN,
)
from clgraph.implementations.cpu.fused_operations import post_refusal
from clgraph.implementations.cpu.geometry import LANES, count_refusal
from clgraph.implementations.cpu.rows import Axis, Rows, broadcast_pitches, merge, row_pitches, row_posts
from clgraph.selector.descriptor import NULL, Descriptor, Int, Long, Pointer, PostStep, Ref, descriptor
from clgraph.selector.implementation import Implementation, Serves
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.post import FUSABLE, post_codes
from clgraph.selector.query import Query

ROOMS = 7
"""Pieces in scratch: three inputs side by side, two converted, one result, zero points."""

_OF_DOUBLES = ("add", "sub", "rsub", "mul")
"""Operations with operands on doubles."""

SHORT_ROW = 128
"""Most elements of the rows of which a piece has several: of 64 these take half the time, of 128 0.9."""

PIECE_SECONDS = 40e-9
"""What beginning a piece takes: pointers, a switch or two."""

ELEMENTS = Serves(dtypes=frozenset(CONVERTED), mixed=True, kinds=frozenset({"cpu"}), fuses=FUSABLE, operands=8)


@descriptor("elements", library="moves", any_alignment=True)
class ElementsDesc(Descriptor):
    """Fields as in ``elements.cl``."""

    a: Pointer
    b: Pointer
    c: Pointer
    out: Pointer
    a_n: Long
    b_n: Long
    c_n: Long
    out_n: Long
    a_c: Long
    b_c: Long
    c_c: Long
    out_c: Long
    a_y: Long
    b_y: Long
    c_y: Long
    out_y: Long
    a_x: Long
    b_x: Long
    c_x: Long
    first: Long
    second: Long
    a_type: Int
    b_type: Int
    out_type: Int
    a_size: Int
    b_size: Int
    out_size: Int
    domain: Int
    direct: Int
    operation: Int
    planes: Int
    rows: Int
    width: Int
    run: Int
    row_pieces: Int
    pieces: Int
    ticket_pieces: Int
    fold: Int
    folds: Int


@descriptor("number_elements", library="rare", any_alignment=True, made_of="elements", NUMBERS=1)
class NumberElementsDesc(ElementsDesc):
    """The same for what is computed with doubles and 64-bit integers, and for angles."""


class Elements(Implementation[Any]):
    """Plain tensors, broadcast along any of four merged axes, converted run by run."""

    @classmethod
    @abstractmethod
    def computation(cls, q: Query[Any]) -> Computation | str:
        """Return what the kernel has to do, or why it cannot."""

    @classmethod
    def aligned(cls, q: Query[Any]) -> Query[Any]:
        """Return *q* with inputs in shapes that broadcast to the result's from the last axis on."""
        return q

    @classmethod
    def limits(cls, q: Query[Any]) -> str | None:
        c = cls.computation(q)
        if isinstance(c, str):
            return c
        if not q.outputs[0].is_dense_plain or any(x.format.blocks for x in q.inputs):
            return "requires the result dense and plain, inputs without blocks"
        if (c.domain == DOUBLE or DType.F64 in (c.read, c.write)) and "fp64" not in q.device.features:
            return "needs fp64 for doubles"
        if c.domain in READ and (c.read not in READ[c.domain] or not (c.direct or c.write in WRITTEN[c.domain])):
            return f"computes nothing of {c.read} to {c.write} in {OWN[c.domain]}"
        rows = _rows(cls.aligned(q), c)
        return rows if isinstance(rows, str) else count_refusal(q) or post_refusal(q) or _list_refusal(q, c, rows)

    @classmethod
    def cost(cls, q: Query[Any]) -> float:
        c = cls.computation(q)
        rows = None if isinstance(c, str) else _rows(cls.aligned(q), c)
        if isinstance(c, str) or not isinstance(rows, Rows):
            raise TypeError(c if isinstance(c, str) else rows)
        moved = sum(x.nbytes for x in (*q.inputs, *q.outputs))
        work = _pieces(rows, c) * _piece_seconds(q, c, rows)
        return step_seconds(q.device, work, moved, 8 * q.device.workers)

    @classmethod
    def plan(cls, q: Query[Any]) -> Plan:
        c = cls.computation(q)
        rows = None if isinstance(c, str) else _rows(cls.aligned(q), c)
        if isinstance(c, str) or not isinstance(rows, Rows):
            raise TypeError(c if isinstance(c, str) else rows)
        (y,) = q.outputs
        places = [Ref(f"in{s}", q.inputs[s].origin * q.inputs[s].dtype.itemsize) for s in c.slots]
        # Pitches of the inputs, the first one's before the result's.
        order = [0, 2, 3][: len(c.slots)]
        axes = (rows.images, rows.planes, rows.rows, rows.width)
        pitches = [[axis.pitches[i] for axis in axes] for i in order]
        (a, b, cond), (pa, pb, pc) = (
            [*places, *[NULL] * (3 - len(places))],
            [*pitches, *[[0, 0, 0, 0]] * (3 - len(pitches))],
        )
        tickets = runs(_pieces(rows, c), _piece_seconds(q, c, rows), q.device)
        desc = (NumberElementsDesc if c.domain in (DOUBLE, LONG) or c.function in ANGLES.values() else ElementsDesc)(
            a=a,
            b=b,
            c=cond,
            out=Ref("out0"),
            a_n=pa[0],
            b_n=pb[0],
            c_n=pc[0],
            out_n=rows.images.pitches[1],
            a_c=pa[1],
            b_c=pb[1],
            c_c=pc[1],
            out_c=rows.planes.pitches[1],
            a_y=pa[2],
            b_y=pb[2],
            c_y=pc[2],
            out_y=rows.rows.pitches[1],
            a_x=pa[3],
            b_x=pb[3],
            c_x=pc[3],
            first=c.first,
            second=c.second,
            a_type=CONVERTED[c.read],
            b_type=CONVERTED[c.read],
            out_type=CONVERTED[c.write],
            a_size=c.read.itemsize,
            b_size=c.read.itemsize,
            out_size=y.dtype.itemsize,
            domain=c.domain,
            direct=int(c.direct),
            operation=c.function,
            planes=rows.planes.size,
            rows=rows.rows.size,
            width=rows.width.size,
            run=c.run,
            row_pieces=-(-rows.width.size // c.run),
            pieces=_pieces(rows, c),
            ticket_pieces=tickets.each,
            fold=_fold(rows, c),
            folds=_folds(rows, c),
        )
        own = [_product(q, s, row_pitches(rows, i)) for i, s in enumerate(c.factors, len(c.slots) - 1)]
        posts = (*own, *row_posts(q, rows, len(c.slots) - 1 + len(own)))
        tile = Tile(desc.function, desc, tickets.count, scratch=ROOMS * RUN * RUN_BYTES, post=posts)
        return Plan((tile,))


def _list_refusal(q: Query[Any], c: Computation, rows: Rows) -> str | None:
    """Say why the operations fused into *q* are none of the list for its results, or return ``None``."""
    if not q.post or q.outputs[0].dtype == DType.F32:
        return None
    if not (c.direct and c.domain == DOUBLE):
        return f"applies operations to float32 results, not {q.outputs[0].dtype}"
    names = [one.operation.name if one.operation and one.operands else one.primitive.kind for one in q.post]
    if other := next((name for name in names if name not in _OF_DOUBLES), None):
        return f"applies {', '.join(_OF_DOUBLES)} to doubles, not {other}"
    if any(q.inputs[s].dtype != DType.F64 for s in q.post_slots):
        return "applies operations with doubles to doubles"
    operands = rows.width.pitches[1 + len(c.slots) + len(c.factors) :]
    return None if all(p in (0, 1) for p in operands) else "requires operands of doubles side by side, or one a row"


def _product(q: Query[Any], slot: int, pitches: tuple[int, int, int, int, int]) -> PostStep:
    x = q.inputs[slot]
    return PostStep(post_codes()["mul"], 0.0, 0.0, Ref(f"in{slot}", x.origin * x.dtype.itemsize), pitches)


def _rows(q: Query[Any], c: Computation) -> Rows | str:
    """Return the first input, the result, the other inputs and the operands as rows of neighbours in the result."""
    (y,) = q.outputs
    first, *others = (*c.slots, *c.factors)
    tensors = [
        broadcast_pitches(q.inputs[first], y.rank),
        y.all_pitches,
        *(broadcast_pitches(q.inputs[s], y.rank) for s in (*others, *q.post_slots)),
    ]
    axes = merge([Axis(size, tuple(t[i] for t in tensors)) for i, size in enumerate(y.shape)])
    if len(axes) > 4:
        return "walks four axes, and these tensors need more"
    one = Axis(1, (0,) * len(tensors))
    width, rows, planes, images = (*axes[::-1], one, one, one, one)[:4]
    return Rows(images, rows, width, planes)


def _fold(rows: Rows, c: Computation) -> int:
    """Return how many whole rows a piece is: several of short ones that are written one behind the other.

    Operations that follow, and a number for all of a row, are of one row.
    """
    width, out = rows.width.size, 1
    if width > SHORT_ROW or len(rows.width.pitches) > 1 + len(c.slots) or c.function == QUANTIZE or c.domain == PAIRS:
        return 1
    return min(rows.rows.size, c.run // width) if rows.rows.pitches[out] == width else 1


def _folds(rows: Rows, c: Computation) -> int:
    """Return the runs of so many rows in a plane."""
    return -(-rows.rows.size // _fold(rows, c))


def _pieces(rows: Rows, c: Computation) -> int:
    return rows.images.size * rows.planes.size * _folds(rows, c) * -(-rows.width.size // c.run)


def _piece_seconds(q: Query[Any], c: Computation, rows: Rows) -> float:
    """Return one worker's time for a piece: its begin, each pass over its vectors, functions that are no vectors."""
    fold, width = _fold(rows, c), rows.width
    vectors = -(-min(width.size * fold, c.run) // LANES)
    spread = sum(axis not in (0, 1) for axis in width.pitches)
    if fold > 1:
        spread = sum(y != width.size * x or x != 1 for x, y in zip(width.pitches, rows.rows.pitches, strict=True))
    converted = len(c.slots[:2]) * (c.domain not in (BYTES, PAIRS) and c.read != OWN[c.domain])
    passes = 1 + len(c.factors) + len(q.post) + (not c.direct) + converted
    return PIECE_SECONDS + vectors * q.device.costs.unit("copy.vector") * (passes + c.slow + 8 * spread)
