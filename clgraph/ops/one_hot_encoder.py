"""Categories as vectors with a single one: ai.onnx.ml's OneHotEncoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.errors import InputError
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, OfHostValues, Primitive, primitive
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Unsqueeze


@primitive
@frozen
class OneHotEncoder(Composite):
    """``y[..., k]``, float32, is 1 where x, as an integer, is the k-th of the *categories*, else 0."""

    categories: tuple[int, ...]

    kind: ClassVar[str] = "one_hot_encoder"

    def compose(self, c: Composition) -> Sequence[str]:
        (x,) = c.inputs
        column = c.add(Unsqueeze((c.layout(x).rank,)), c.add(Reorder(DType.I64), x))
        same = c.add(Eltwise("equal"), column, c.constant(np.array(self.categories, np.int64)))
        return (c.add(Reorder(DType.F32), same),)


@primitive
@frozen
class OneHotEncoderOfHost(OfHostValues):
    """The same of strings, or where each x must be one of the *categories*.

    Attributes:
        zeros: Whether what is not one of them makes zeros; else it is an error.
    """

    categories: tuple[Any, ...]
    zeros: bool = True

    kind: ClassVar[str] = "one_hot_encoder_of_host"

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x = inputs[0] if inputs[0].dtype == object else inputs[0].astype(np.int64)
        known = np.array(self.categories, x.dtype)
        same = (x[..., np.newaxis] == known).astype(np.float32)
        if not self.zeros and not same.any(-1).all():
            raise InputError(f"{x[~same.any(-1)][0]!r} is not one of the {len(known)} categories")
        return (same,)


@onnx("OneHotEncoder", since=(1,), domain="ai.onnx.ml")
def import_one_hot_encoder(node: OnnxNode) -> Primitive:
    strings, numbers = node.attribute("cats_strings", ()), node.attribute("cats_int64s", ())
    zeros = bool(node.attribute("zeros", 1))
    if bool(strings) == bool(numbers):
        raise node.unsupported("expected either cats_strings or cats_int64s")
    return OneHotEncoder(numbers) if numbers and zeros else OneHotEncoderOfHost(strings or numbers, zeros)
