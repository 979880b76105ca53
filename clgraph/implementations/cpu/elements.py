"""Elementwise functions of any element types on CPU devices: integers, truth values, halves, doubles, conversions."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.implementations.cpu.cost import runs, step_seconds
from clgraph.implementations.cpu.fused_operations import post_refusal
from clgraph.implementations.cpu.geometry import LANES, count_refusal
from clgraph.implementations.cpu.rows import Axis, Rows, broadcast_pitches, merge, row_pitches, row_posts
from clgraph.selector.descriptor import NULL, Descriptor, Int, Long, Pointer, PostStep, Ref, descriptor
from clgraph.selector.implementation import Implementation, Serves
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.post import FUSABLE, post_codes
from clgraph.selector.query import Query

TYPES = {
    DType.F32: 0,
    DType.F16: 1,
    DType.F64: 2,
    DType.I64: 3,
    DType.I32: 4,
    DType.I16: 5,
    DType.I8: 6,
    DType.U32: 7,
    DType.U16: 8,
    DType.U8: 9,
    DType.BOOL: 10,
    DType.BF16: 11,
}
"""Codes of ``element_types.clh``. Of U64 there are the functions for which it is an I64."""

FLOAT, DOUBLE, INT, LONG, BYTES, HALVES = range(6)
"""What is computed with."""

_OWN = {FLOAT: DType.F32, DOUBLE: DType.F64, INT: DType.I32, LONG: DType.I64, HALVES: DType.U16}

FUNCTIONS = {
    name: code
    for code, name in enumerate(
        ("same", "add", "sub", "mul", "div", "min", "max", "equal", "less", "less_equal", "and", "or", "xor", "mod",
         "fmod", "choice", "neg", "abs", "not")
    )
}  # fmt: skip
SIGNED = {
    name: code
    for code, name in enumerate(("min", "max", "less", "less_equal", "neg", "abs", "clip"), start=len(FUNCTIONS))
}
"""Of signed bytes, in the domain ``BYTES``."""
INTEGERS = {
    name: code for code, name in enumerate(("clip", "shift_left", "shift_right"), start=len(FUNCTIONS) + len(SIGNED))
}
"""Of integers alone; of bytes in the domain ``BYTES``, unsigned ones."""
BITS = {
    name: code
    for code, name in enumerate(("bits_equal", "bits_above"), start=len(FUNCTIONS) + len(SIGNED) + len(INTEGERS))
}
"""Tests of the bits of floats under a mask."""
POW, POW_SLOW = len(FUNCTIONS) + len(SIGNED) + len(INTEGERS) + len(BITS), 100.0
"""A power of doubles, and what it takes as in ``SLOW``."""
QUANTIZE, QUANTIZE_SLOW = POW + 1, 4.0
"""Steps of floats as integers, and what they take as in ``SLOW``."""
COMPARISONS = ("equal", "less", "less_equal")
_TESTS = frozenset({*(FUNCTIONS[name] for name in COMPARISONS), *BITS.values()})
POST = 64
"""From here on the codes of post-operations, of floats and doubles."""
DOUBLE_FUNCTIONS = {
    **dict.fromkeys(("linear", "relu", "clip", "leaky_relu", "square", "floor", "ceil", "round", "sign"), 0.0),
    **dict.fromkeys(("hard_sigmoid", "hard_swish", "reciprocal", "softsign", "sqrt"), 8.0),
    "exp": 24.0,
    "log": 32.0,
    "elu": 32.0,
    "celu": 40.0,
    "tanh": 40.0,
    "sigmoid": 40.0,
    "swish": 40.0,
    "softplus": 64.0,
}
"""Post-operations that ``double_runs.clh`` has, with what they take as in ``SLOW``."""

ANGLES = {
    name: code
    for code, name in enumerate(
        ("tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "sin", "cos"), start=40
    )
}
"""Trigonometric and hyperbolic functions, of doubles."""
ANGLE_SLOW = 64.0
"""What they take, as in ``SLOW``."""

RUN, RUN_BYTES = 512, 8
"""Elements of a piece, and bytes of one that is computed with."""

ROOMS = 6
"""Pieces in scratch: three inputs side by side, two converted, one result."""

PIECE_SECONDS = 40e-9
"""What beginning a piece takes: pointers, a switch or two."""

SLOW = {"div": 24.0, "mod": 32.0, "fmod": 32.0}
"""What integer divisions take, in the time that a vector of 16 floats takes to copy."""

ELEMENTS = Serves(
    dtypes=frozenset(TYPES) | {DType.U64}, mixed=True, kinds=frozenset({"cpu"}), fuses=FUSABLE, operands=8
)


@descriptor("elements", any_alignment=True)
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
    row_pieces: Int
    pieces: Int
    ticket_pieces: Int


@descriptor("number_elements", library="rare", any_alignment=True, made_of="elements", NUMBERS=1)
class NumberElementsDesc(ElementsDesc):
    """The same for what is computed with doubles and 64-bit integers."""


@frozen
class Computation:
    """A function in the kernel's terms.

    Attributes:
        function: Code.
        domain: ``FLOAT`` to ``HALVES``.
        slots: Of the inputs a, b and c, as many as there are.
        factors: Slots of floats that the result is multiplied by.
        read: The types in which a and b are read, ``write`` in which the result is written.
        first, second: Bits of the parameters of a post-operation, or of the bounds of a clip or a quantization
            (:func:`number_bits`).
        slow: What an element takes beside its way, in sixteenths of ``copy.vector``.
    """

    function: int
    domain: int
    slots: tuple[int, ...]
    read: DType
    write: DType
    first: int = 0
    second: int = 0
    slow: float = 0.0
    factors: tuple[int, ...] = ()

    @property
    def direct(self) -> bool:
        """Whether what is computed is the result, without a conversion."""
        return self.domain == BYTES or self.function in _TESTS or self.write == _OWN[self.domain]


def domain_of(dtype: DType) -> int:
    """Return what arithmetic on *dtype* is done with, exactly or as its results are rounded."""
    if dtype.floating:
        return DOUBLE if dtype == DType.F64 else FLOAT
    return LONG if dtype in (DType.I64, DType.U64, DType.U32) else INT


def number_bits(value: float, dtype: DType) -> int:
    """Return the bits of *value* as *dtype*, a number that is computed with, as a descriptor's ``Long``."""
    return int.from_bytes(np.array(value).astype(dtype.numpy).tobytes(), "little", signed=True)


def bits_of(dtype: DType) -> DType:
    """Return a type of the same size by which elements are only moved."""
    return {1: DType.U8, 2: DType.U16, 4: DType.I32, 8: DType.I64}[dtype.itemsize]


def signed(dtype: DType) -> DType:
    """Return I64 for U64, whose bits it shares."""
    return DType.I64 if dtype == DType.U64 else dtype


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
        if c.domain == DOUBLE and "fp64" not in q.device.features:
            return "needs fp64 for doubles"
        if q.post and q.outputs[0].dtype != DType.F32:
            return f"applies operations to float32 results, not {q.outputs[0].dtype}"
        rows = _rows(cls.aligned(q), c)
        return rows if isinstance(rows, str) else count_refusal(q) or post_refusal(q)

    @classmethod
    def cost(cls, q: Query[Any]) -> float:
        c = cls.computation(q)
        rows = None if isinstance(c, str) else _rows(cls.aligned(q), c)
        if isinstance(c, str) or not isinstance(rows, Rows):
            raise TypeError(c if isinstance(c, str) else rows)
        moved = sum(x.nbytes for x in (*q.inputs, *q.outputs))
        work = _pieces(rows) * _piece_seconds(q, c, rows)
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
        tickets = runs(_pieces(rows), _piece_seconds(q, c, rows), q.device)
        desc = (NumberElementsDesc if c.domain in (DOUBLE, LONG) else ElementsDesc)(
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
            a_type=TYPES[c.read],
            b_type=TYPES[c.read],
            out_type=TYPES[c.write],
            a_size=c.read.itemsize,
            b_size=c.read.itemsize,
            out_size=y.dtype.itemsize,
            domain=c.domain,
            direct=int(c.direct),
            operation=c.function,
            planes=rows.planes.size,
            rows=rows.rows.size,
            width=rows.width.size,
            row_pieces=-(-rows.width.size // RUN),
            pieces=_pieces(rows),
            ticket_pieces=tickets.each,
        )
        own = [_product(q, s, row_pitches(rows, i)) for i, s in enumerate(c.factors, len(c.slots) - 1)]
        posts = (*own, *row_posts(q, rows, len(c.slots) - 1 + len(own)))
        tile = Tile(desc.function, desc, tickets.count, scratch=ROOMS * RUN * RUN_BYTES, post=posts)
        return Plan((tile,))


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


def _pieces(rows: Rows) -> int:
    return rows.images.size * rows.planes.size * rows.rows.size * -(-rows.width.size // RUN)


def _piece_seconds(q: Query[Any], c: Computation, rows: Rows) -> float:
    """Return one worker's time for a piece: its begin, each pass over its vectors, functions that are no vectors."""
    vectors = -(-min(rows.width.size, RUN) // LANES)
    spread = sum(axis not in (0, 1) for axis in rows.width.pitches)
    converted = len(c.slots[:2]) * (c.domain != BYTES and c.read != _OWN[c.domain])
    passes = 1 + len(c.factors) + len(q.post) + (not c.direct) + converted
    return PIECE_SECONDS + vectors * q.device.costs.unit("copy.vector") * (passes + c.slow + 8 * spread)
