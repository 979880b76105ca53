"""Determinants of square matrices: ONNX's Det."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.selector.general import REALS, General, float_jit, launch, table
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.views import View, space


@primitive
@frozen
class Determinant(Primitive):
    """The determinant of each matrix of x ``[..., M, M]``."""

    kind: ClassVar[str] = "determinant"
    holds_sizes: ClassVar[bool] = False

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        (x,) = inputs
        if x.rank < 2 or x.shape[-1] != x.shape[-2]:
            raise ShapeError(f"{list(x.shape)} are not square matrices")
        return (x.with_shape(x.shape[:-2]),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        exact = np.result_type(x.dtype, np.float32)
        with np.errstate(invalid="ignore"):
            found = np.asarray(np.linalg.det(x.astype(exact))).astype(x.dtype)
        return (np.where(np.isnan(x).any(axis=(-2, -1)), x.dtype.type(np.nan), found),)


@onnx("Det", since=(11, 22))
def import_det(node: OnnxNode) -> Primitive:
    return Determinant()


@implements(Determinant, name="determinant.ref", serves=Serves(dtypes=REALS), general=True)
class DeterminantRef(General[Determinant]):
    """One work-item a matrix."""

    @classmethod
    def plan(cls, q: Query[Determinant]) -> Plan:
        (x,), (y,) = q.own, q.outputs
        s = space(y.shape, [View.of(y), View(x.origin, x.all_pitches[:-2])])
        numbers = table(s.dims, *s.views, [x.shape[-1], *x.all_pitches[-2:]])
        args = ("in0", "out0", "scratch0", numbers)
        jit = float_jit(x.dtype, len(s.dims))
        scratch = x.count * (8 if x.dtype == DType.F64 else 4)
        return Plan((launch("determinant/determinant_ref", jit, s.counts[0], *args),), (scratch,))
