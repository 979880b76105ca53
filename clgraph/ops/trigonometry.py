"""Trigonometric and hyperbolic functions but sine, cosine and tanh, which :mod:`~clgraph.ops.activation` has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.importing import onnx
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.selector.general import REALS, General, float_jit, launch, table
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.views import View, space

FUNCTIONS = {
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
}
"""Function by name; its place is its number in the kernel."""


@primitive
@frozen
class Trigonometric(Primitive):
    """``y = f(x)``, element by element.

    Attributes:
        function: A key of ``FUNCTIONS``.
    """

    function: str

    kind: ClassVar[str] = "trigonometry"
    holds_sizes: ClassVar[bool] = False
    elementwise: ClassVar[bool] = True

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        if self.function not in FUNCTIONS:
            raise ShapeError(f"{self.function!r} is not one of {', '.join(FUNCTIONS)}")
        return (inputs[0].plain(),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        with np.errstate(all="ignore"):
            return (np.asarray(FUNCTIONS[self.function](x)).astype(x.dtype),)


_SINCE = {"tan": (7, 22), "asin": (7, 22), "acos": (7, 22), "atan": (7, 22)}


def _register() -> None:
    for name in FUNCTIONS:
        since = _SINCE.get(name, (9, 22))
        onnx(name.capitalize(), since=since)(lambda node, f=name: Trigonometric(f))


_register()


@implements(Trigonometric, name="trigonometry.ref", serves=Serves(dtypes=REALS), general=True)
class TrigonometryRef(General[Trigonometric]):
    """One work-item an element, any rank."""

    @classmethod
    def plan(cls, q: Query[Trigonometric]) -> Plan:
        (y,), x = q.outputs, q.inputs[0]
        s = space(y.shape, [View.of(y), View.of(x)])
        numbers = table(s.dims, *s.views, [list(FUNCTIONS).index(q.primitive.function)])
        jit = float_jit(y.dtype, len(s.dims))
        return Plan((launch("trigonometry/trigonometry_ref", jit, s.counts[0], "in0", "out0", numbers),))
