"""A body run on one element of sequences after the other: ONNX's SequenceMap, on the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.gathered import Gathered
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.interpret import ControlFlow, RunBody, trips
from clgraph.graph.primitive import primitive
from clgraph.graph.topology import Topology


@primitive
@frozen
class SequenceMap(ControlFlow):
    """Sequences of what *body* makes of the elements of input 0, a sequence, one after the other.

    Of the *own* inputs, further sequences of the same length are walked with it, and tensors are the same for every
    element; then comes what the body reads from around.
    """

    body: Topology
    own: int

    kind: ClassVar[str] = "sequence_map"

    def bodies(self) -> Mapping[str, Topology]:
        return {"body": self.body}

    def result_types(self) -> Sequence[str | None]:
        return [None if held is None else f"seq({held})" for held in ControlFlow.result_types(self)]

    def execute(self, inputs: Sequence[Any], run: RunBody) -> tuple[Any, ...]:
        own, around = inputs[: self.own], inputs[self.own :]
        if not isinstance(own[0], tuple):
            raise ShapeError("input 0 is not a sequence")
        lengths = sorted({len(given) for given in own if isinstance(given, tuple)})
        if len(lengths) > 1:
            raise ShapeError(f"the sequences have different lengths: {lengths}")
        results: list[tuple[Any, ...]] = []
        gathered = Gathered("the tensors of the sequences")
        run_trip = trips(self.body, run)
        for i in range(lengths[0]):
            elements = [given[i] if isinstance(given, tuple) else given for given in own]
            results.append(tuple(run_trip([*elements, *around])))
            gathered.add(results[-1])
        return tuple(tuple(made[j] for made in results) for j in range(len(self.body.outputs)))


@onnx("SequenceMap", since=(17,))
def import_sequence_map(node: OnnxNode) -> Sequence[str]:
    (body,), captured = node.bodies("body")
    if len(body.inputs) - len(captured) != len(node.inputs):
        raise node.unsupported(f"{len(node.inputs)} inputs do not fit the body's {len(body.inputs) - len(captured)}")
    return node.emit(SequenceMap(body, len(node.inputs)), *node.inputs, *captured, outputs=len(body.outputs))
