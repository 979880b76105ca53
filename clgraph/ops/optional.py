"""Values that may be absent: ONNX's Optional, OptionalGetElement and OptionalHasElement, on the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.errors import InputError
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, OfHostValues, Primitive, primitive


@primitive
@frozen
class MakeOptional(OfHostValues):
    """The input, a tensor or a sequence, as an optional; without an input one that has no element."""

    kind: ClassVar[str] = "make_optional"
    takes_any: ClassVar[bool] = True

    def reference(self, *inputs: Any) -> Any:
        return (inputs[0] if inputs else None,)


@primitive
@frozen
class OptionalGetElement(OfHostValues):
    """The element of an optional; any other value is returned as it is."""

    kind: ClassVar[str] = "optional_get_element"
    takes_any: ClassVar[bool] = True

    def reference(self, *inputs: Any) -> Any:
        if inputs[0] is None:
            raise InputError("the optional has no element to get: let the model ask OptionalHasElement first")
        return inputs


@primitive
@frozen
class OptionalHasElement(OfHostValues):
    """Whether an optional has an element, a bool scalar; what is none by itself has."""

    kind: ClassVar[str] = "optional_has_element"
    takes_any: ClassVar[bool] = True

    def reference(self, *inputs: Any) -> tuple[Array, ...]:
        return (np.array(inputs[0] is not None),)


@onnx("Optional", since=(15, 28))
def import_optional(node: OnnxNode) -> Primitive:
    return MakeOptional()


@onnx("OptionalGetElement", since=(15, 18, 28))
def import_optional_get_element(node: OnnxNode) -> Primitive:
    return OptionalGetElement()


@onnx("OptionalHasElement", since=(15, 18, 28))
def import_optional_has_element(node: OnnxNode) -> Primitive | Sequence[str]:
    return OptionalHasElement() if any(node.inputs) else (node.literal(np.array(False)),)
