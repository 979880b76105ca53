"""Running products along an axis: ONNX's CumProd."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.ops.cumulative import Cumulative, CumulativeRef
from clgraph.selector.general import INTEGERS, REALS
from clgraph.selector.implementation import Serves, implements


@primitive
@frozen
class CumulativeProduct(Cumulative):
    """``y[i] = x[0] * … * x[i]``, and so on as :class:`Cumulative` says."""

    kind: ClassVar[str] = "cumulative_product"
    holds_sizes: ClassVar[bool] = False

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,), axis = inputs, self.axis or 0
        exact = np.result_type(x.dtype, np.float32) if x.dtype.kind == "f" else x.dtype
        turned = np.moveaxis(np.flip(x, axis) if self.reverse else x, axis, 0)
        total = np.cumprod(turned, 0, dtype=exact)
        if self.exclusive:
            total = np.concatenate([np.ones_like(total[:1]), total[:-1]])
        y = np.moveaxis(total, 0, axis)
        return (np.ascontiguousarray(np.flip(y, axis) if self.reverse else y).astype(x.dtype),)


@onnx("CumProd", since=(26,))
def import_cumprod(node: OnnxNode) -> Primitive:
    return CumulativeProduct.of(node)


@implements(CumulativeProduct, name="cumulative_product.ref", serves=Serves(dtypes=REALS | INTEGERS), general=True)
class CumulativeProductRef(CumulativeRef[CumulativeProduct]):
    """Products."""

    product: ClassVar[bool] = True
