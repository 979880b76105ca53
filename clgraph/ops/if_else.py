"""One of two bodies, by a condition: ONNX's If."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.attributes import known
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.interpret import ControlFlow, RunBody, trips
from clgraph.graph.primitive import Array, primitive
from clgraph.graph.topology import Inlinable, Topology


@primitive
@frozen
class IfElse(ControlFlow, Inlinable):
    """The outputs of *then* where input 0, one bool, is true, else those of *other*; leaves no node where it is known.

    The further inputs are those of both bodies.
    """

    then: Topology
    other: Topology

    kind: ClassVar[str] = "if_else"

    def value_slots(self) -> tuple[int, ...]:
        return (0,)

    def bodies(self) -> Mapping[str, Topology]:
        return {"then": self.then, "else": self.other}

    @property
    def keeps_keys_inside(self) -> bool:
        return self.then.keeps_keys or self.other.keeps_keys

    def inline(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Topology:
        return self.chosen(known(values, 0, "condition"))

    def execute(self, inputs: Sequence[Any], run: RunBody) -> tuple[Array, ...]:
        body = self.chosen(inputs[0])
        return tuple(trips(body, run)(inputs[1:]))

    def chosen(self, condition: Array) -> Topology:
        """Return the body that *condition* chooses; raises ``ShapeError`` where it is not one value."""
        if condition.size != 1:
            raise ShapeError(f"the condition is one value, not {list(condition.shape)}")
        return self.then if condition.item() else self.other


@onnx("If", since=(1, 11, 13, 16, 19, 21, 23, 24, 25))
def import_if(node: OnnxNode) -> Sequence[str]:
    (then, other), captured = node.bodies("then_branch", "else_branch")
    if len(then.outputs) != len(other.outputs) or len(then.outputs) < node.output_count:
        raise node.unsupported(f"the branches make {len(then.outputs)} and {len(other.outputs)} results")
    return node.emit(IfElse(then, other), node.inputs[0], *captured, outputs=len(then.outputs))
