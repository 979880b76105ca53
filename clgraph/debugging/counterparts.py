"""Which tensors of a quantised model stand for which of the float model that it was made of, by their names.

Quantisers keep the names of the tensors that they round: a QuantizeLinear reads what has the old name, or integers are
called like the old tensor with an ending. Both are looked for in the program, where QLinear operators are spelled out.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.ops.activation import Activation
from clgraph.ops.dequantize import Dequantize
from clgraph.ops.quantize import Quantize
from clgraph.passes.constants.constant_programs import logical
from clgraph.passes.reference import compute

_ENDINGS = ("_quantized", "_QuantizeLinear_Output", "_DequantizeLinear_Output")
"""What ONNX Runtime's quantiser puts behind the name of a tensor."""
_BOUNDS = frozenset({"relu", "clip"})
"""Activations that quantisers leave to the bounds of integers."""
_HALF = 0.51
"""Of a step: what rounding moves numbers by at most, and float32 adds."""


@frozen
class Counterpart:
    """What stands for a float tensor.

    Attributes:
        value: Of the quantised program: floats, or integers that become floats further on.
        dequantize: What makes floats of its integers; ``None`` where it is not rounded.
    """

    value: Value
    dequantize: Node | None = None

    def floats(self, array: Array) -> Array:
        """Return what *array*, as a run has it for ``value``, stands for."""
        if self.dequantize is None or self.value.layout.dtype.floating:
            return array
        return compute(self.dequantize, [array, *self._parameters])[0]

    def rounded(self, array: Array) -> Array:
        """Return floats rounded as the quantised model rounds them."""
        if self.dequantize is None:
            return array
        f, parameters = self.dequantize.primitive, self._parameters
        assert isinstance(f, Dequantize)
        (integers,) = Quantize(f.axis, f.block, self.dequantize.inputs[0].layout.dtype).reference(array, *parameters)
        return compute(self.dequantize, [integers, *parameters])[0]

    def beyond(self, array: Array) -> float:
        """Return the share of *array* that lies beyond what the integers reach, half a step away at least."""
        if self.dequantize is None or not array.size:
            return 0.0
        f = self.dequantize.primitive
        assert isinstance(f, Dequantize)
        moved = np.abs(self.rounded(array) - array)
        return float(np.mean(moved > _HALF * f.spread(array, self._parameters[0])))

    @property
    def _parameters(self) -> list[Array]:
        assert self.dequantize is not None
        return [logical(v) for v in self.dequantize.inputs[1:]]


def counterparts(quantised: Program, source: Program) -> dict[Value, Counterpart]:
    """Return what stands for the floating-point inputs, and results of nodes, of *source*, where there is something.

    An activation that is gone, because the integers in front of it end where it does, has what was in front of it.
    """
    found = {v.name: Counterpart(v) for node in quantised for v in node.outputs if v.layout.dtype.floating}
    for node in reversed(list(quantised)):
        if isinstance(node.primitive, Dequantize) and all(v.constant is not None for v in node.inputs[1:]):
            found.update(_named(node))
    made = (*source.inputs, *(v for node in source for v in node.outputs))
    pairs = {v: found[v.name] for v in made if v.name in found and _alike(v, found[v.name].value)}
    for node in source:
        bounds = isinstance(node.primitive, Activation) and node.primitive.function in _BOUNDS
        if not bounds or node.output in pairs or (before := node.inputs[0]) not in pairs:
            continue
        if pairs[before].dequantize is not None and before.has_one_use and not source.is_output(before):
            pairs[node.output] = pairs.pop(before)
    return pairs


def _named(node: Node) -> Iterator[tuple[str, Counterpart]]:
    """Yield what the Dequantize *node* makes floats of by names of the float model; what moves integers is followed."""
    yield from ((name, Counterpart(node.output, node)) for name in _plain(node.output.name))
    value, floats = node.inputs[0], node.output
    while value.constant is None:
        yield from ((name, Counterpart(floats, node)) for name in _plain(value.name))
        maker = value.producer
        if maker is None or isinstance(maker.primitive, Quantize):
            break
        moved = [v for v in maker.inputs if v.layout.dtype == value.layout.dtype and v.constant is None]
        if len(moved) != 1 or node.inputs[1].layout.count != 1:
            return
        value = floats = moved[0]
    if value.producer is not None:
        yield value.producer.inputs[0].name, Counterpart(floats, node)


def _plain(name: str) -> Iterator[str]:
    yield from (name.removesuffix(ending) for ending in _ENDINGS if name.endswith(ending))


def _alike(value: Value, other: Value) -> bool:
    return value.layout.dtype.floating and value.layout.shape == other.layout.shape
