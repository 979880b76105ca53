"""Tests for NaN and infinity on CPU devices, of bits."""

from __future__ import annotations

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.element_functions import BITS, Computation
from clgraph.implementations.cpu.element_types import HALVES, INT, LONG, bits_of
from clgraph.implementations.cpu.elements import ELEMENTS, Elements
from clgraph.ops.is_special import IsSpecial
from clgraph.selector.implementation import implements
from clgraph.selector.query import Query


@implements(IsSpecial, name="is_special.elements", serves=ELEMENTS)
class IsSpecialElements(Elements):
    """Whether elements of a plain tensor are NaN, or infinite."""

    @classmethod
    def computation(cls, q: Query[IsSpecial]) -> Computation | str:
        dtype = q.inputs[0].dtype
        if not dtype.floating:
            return f"tests no {dtype}"
        test, read = q.primitive.bits(dtype), bits_of(dtype)
        domain = {2: HALVES, 4: INT, 8: LONG}[dtype.itemsize]
        # A descriptor's fields are signed.
        mask, value = (v - (v >> 63 << 64) for v in (test.mask, test.value))
        code = BITS["bits_above" if test.above else "bits_equal"]
        return Computation(code, domain, (0,), read, DType.BOOL, mask, value)
