"""A choice of elements on CPU devices."""

from __future__ import annotations

from clgraph.implementations.cpu.element_functions import FUNCTIONS, Computation
from clgraph.implementations.cpu.element_types import BYTES, INT, LONG, SHORTS, bits_of
from clgraph.implementations.cpu.elements import ELEMENTS, Elements
from clgraph.ops.where import Where
from clgraph.selector.implementation import implements
from clgraph.selector.query import Query


@implements(Where, name="where.elements", serves=ELEMENTS)
class WhereElements(Elements):
    """Elements of two plain tensors, moved as bits."""

    @classmethod
    def computation(cls, q: Query[Where]) -> Computation | str:
        bits = bits_of(q.outputs[0].dtype)
        domain = {1: BYTES, 2: SHORTS, 4: INT, 8: LONG}[bits.itemsize]
        return Computation(FUNCTIONS["choice"], domain, (1, 2, 0), bits, bits)
