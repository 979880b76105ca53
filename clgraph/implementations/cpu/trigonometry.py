"""Trigonometric and hyperbolic functions on CPU devices, of floats in double precision but for two arcs."""

from __future__ import annotations

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.element_functions import ANGLE_SLOW, ANGLES, ARC_SLOW, Computation
from clgraph.implementations.cpu.element_types import DOUBLE, FLOAT
from clgraph.implementations.cpu.elements import ELEMENTS, Elements
from clgraph.ops.trigonometry import Trigonometric
from clgraph.selector.implementation import implements
from clgraph.selector.query import Query

OF_FLOATS = ("acos", "atan")
"""Functions that are computed in single precision, of floats and halves."""


@implements(Trigonometric, name="trigonometry.elements", serves=ELEMENTS)
class TrigonometryElements(Elements):
    """A trigonometric or hyperbolic function of a plain tensor."""

    @classmethod
    def computation(cls, q: Query[Trigonometric]) -> Computation | str:
        dtype, name = q.inputs[0].dtype, q.primitive.function
        if name in OF_FLOATS and dtype in (DType.F16, DType.F32):
            return Computation(ANGLES[name], FLOAT, (0,), dtype, dtype, slow=ARC_SLOW)
        if dtype not in (DType.F32, DType.F64):
            return f"computes no {name} of {dtype}"
        return Computation(ANGLES[name], DOUBLE, (0,), dtype, dtype, slow=ANGLE_SLOW)
