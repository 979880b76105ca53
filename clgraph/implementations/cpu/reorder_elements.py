"""Conversions of plain tensors to another element type on CPU devices."""

from __future__ import annotations

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.element_functions import FUNCTIONS, INTEGERS, Computation
from clgraph.implementations.cpu.element_types import BYTES, DOUBLE, FLOAT, INT, LONG, SHORTS, signed
from clgraph.implementations.cpu.elements import ELEMENTS, Elements
from clgraph.ops.reorder import Reorder
from clgraph.selector.implementation import implements
from clgraph.selector.query import Query


@implements(Reorder, name="reorder.elements", serves=ELEMENTS)
class ReorderElements(Elements):
    """Another element type, of plain tensors."""

    @classmethod
    def computation(cls, q: Query[Reorder]) -> Computation | str:
        x, y = q.inputs[0].dtype, q.outputs[0].dtype
        if x == y:
            return "converts elements, and these are of one type"
        if x.itemsize == y.itemsize == 1:
            # A truth value is a byte's, bounded by 1.
            truth = y == DType.BOOL and x != DType.BOOL
            return Computation(INTEGERS["clip"] if truth else FUNCTIONS["same"], BYTES, (0,), x, y, second=int(truth))
        if {x.itemsize, y.itemsize} == {1, 2} and not (x.floating or y.floating) and y != DType.BOOL:
            return Computation(FUNCTIONS["same"], SHORTS, (0,), x, y)
        if x == DType.U64 and y == DType.BF16:
            return f"rounds {x} not to {y} in one step"
        of_reals = x.floating or y.floating
        if (x == DType.F64 and y != DType.BF16) or (y == DType.F64 and x not in (DType.F16, DType.BF16)):
            domain = DOUBLE
        elif of_reals:
            # A half is the same of the float between: integers that are no floats are beyond all halves. A bfloat16 is
            # rounded from a float by definition (clgraph.core.conversion).
            domain = FLOAT
        elif max(x.itemsize, y.itemsize) == 8:
            domain = LONG
        else:
            domain, x, y = INT, *(DType.I32 if t == DType.U32 else t for t in (x, y))
        read, write = (x, y) if of_reals else (signed(x), signed(y))
        return Computation(FUNCTIONS["same"], domain, (0,), read, write)
