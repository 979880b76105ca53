"""The beginnings of sequences turned round: ONNX's ReverseSequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.selector.general import General, bits_jit, launch, table
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.views import View, space


@primitive
@frozen
class ReverseSequence(Primitive):
    """x with the first ``lengths[i]`` elements along *time* of row i of *batch* in reverse order."""

    batch: int = 1
    time: int = 0

    kind: ClassVar[str] = "reverse_sequence"
    holds_sizes: ClassVar[bool] = False

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        x, lengths = inputs
        if (
            {self.batch, self.time} != {0, 1}
            or x.rank < 2
            or lengths != Layout(DType.I64, x.shape[self.batch : self.batch + 1])
        ):
            raise ShapeError(f"lengths {lengths} are none of the sequences in {x}")
        return (x.plain(),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, lengths = inputs
        y = x.copy()
        turned, source = y.swapaxes(0, self.batch), x.swapaxes(0, self.batch)
        for i, length in enumerate(lengths):
            turned[i, :length] = source[i, :length][::-1]
        return (y,)


@onnx("ReverseSequence", since=(10, 28))
def import_reverse_sequence(node: OnnxNode) -> Primitive:
    return ReverseSequence(node.attribute("batch_axis", 1), node.attribute("time_axis", 0))


@implements(
    ReverseSequence, name="reverse_sequence.ref", serves=Serves(dtypes=frozenset(DType), mixed=True), general=True
)
class ReverseSequenceRef(General[ReverseSequence]):
    """One work-item an element, any rank."""

    @classmethod
    def plan(cls, q: Query[ReverseSequence]) -> Plan:
        (x, lengths), (y,) = q.own, q.outputs
        s = space(y.shape, [View.of(y), View.of(x)], [[0], [1], range(2, y.rank)])
        jit = bits_jit(y.dtype.itemsize, len(s.dims))
        numbers = table(s.dims, *s.views, [q.primitive.time, lengths.all_pitches[0]])
        args = ("in0", "in1", "out0", numbers)
        return Plan((launch("reverse_sequence/reverse_sequence_ref", jit, y.count, *args),))
