"""The broadcasting of operator sets before 7: the second operand lies at an axis of the first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.attributes import positive_axis
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import OnnxNode
from clgraph.graph.primitive import primitive
from clgraph.ops.reshape import Reshape


@primitive
@frozen
class Align(Composite):
    """``y`` is b in a shape that broadcasts, as NumPy has it, to where b lies in a.

    Inputs: a, b. The axes of b are consecutive ones of a, of the same sizes or of size 1; a b of one element fits
    everywhere.

    Attributes:
        axis: Of a, at which those of b begin; ``None``: they are the last ones.
        broadcasts: Otherwise b has the shape of a.
    """

    axis: int | None = None
    broadcasts: bool = True

    kind: ClassVar[str] = "align"

    def compose(self, c: Composition) -> Sequence[str]:
        wide, narrow = (c.layout(name).shape for name in c.inputs)
        b = c.inputs[1]
        if narrow == wide:
            return (b,)
        if not self.broadcasts:
            raise ShapeError(
                f"{list(narrow)} is not {list(wide)}: before operator set 7 shapes differ only where broadcast=1"
            )
        if c.layout(b).count == 1:
            return (c.add(Reshape(()), b) if narrow else b,)
        axis = len(wide) - len(narrow) if self.axis is None else positive_axis(self.axis, len(wide))
        covered = wide[axis : axis + len(narrow)] if axis >= 0 else ()
        if len(covered) != len(narrow) or any(n not in (1, w) for n, w in zip(narrow, covered, strict=True)):
            at = "its last axes" if self.axis is None else f"axis {self.axis}"
            raise ShapeError(f"{list(narrow)} does not lie in {list(wide)} at {at}")
        behind = len(wide) - axis - len(narrow)
        return (c.add(Reshape((*narrow, *[1] * behind), zero_is_zero=True), b) if behind else b,)


def aligned(node: OnnxNode) -> str:
    """Return the second input of a node of an operator set before 7 in a shape that broadcasts as NumPy has it."""
    align = Align(node.attribute("axis", None), bool(node.attribute("broadcast", 0)))
    return node.emit(align, *node.inputs)[0]
