"""Boxes that no better one of their class covers, on CPU devices."""

from __future__ import annotations

from clgraph.implementations.cpu.cost import step_seconds
from clgraph.implementations.cpu.geometry import LANES
from clgraph.ops.box_suppression import SERVED, BoxSuppression, types_refusal
from clgraph.selector.descriptor import Descriptor, Int, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, Serves, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

_BOX = 5e-9
"""Seconds of a candidate: its score, its place in the heap, the boxes that it is compared with. An estimate."""


@descriptor("box_suppression_lines", library="moves", any_alignment=True)
class BoxSuppressionLinesDesc(Descriptor):
    """Fields as in ``box_suppression_lines.cl``."""

    boxes: Pointer
    scores: Pointer
    limit: Pointer
    overlap: Pointer
    least: Pointer
    out: Pointer
    classes: Int
    count: Int
    most: Int
    centered: Int


@implements(
    BoxSuppression,
    name="box_suppression.lines",
    serves=Serves(dtypes=SERVED, kinds=frozenset({"cpu"}), mixed=True),
)
class BoxSuppressionLines(Implementation[BoxSuppression]):
    """A ticket an image and class: of few boxes a launch through the queue takes longer than all of them."""

    @classmethod
    def limits(cls, q: Query[BoxSuppression]) -> str | None:
        if not all(x.is_dense_plain for x in (*q.inputs, *q.outputs)) or not q.outputs[0].count:
            return "serves dense plain tensors, and some boxes"
        return types_refusal(q)

    @classmethod
    def cost(cls, q: Query[BoxSuppression]) -> float:
        lines = q.inputs[1].shape[0] * q.inputs[1].shape[1]
        moved = sum(t.nbytes for t in (*q.inputs, *q.outputs))
        return step_seconds(q.device, q.inputs[1].count * _BOX, moved, lines)

    @classmethod
    def plan(cls, q: Query[BoxSuppression]) -> Plan:
        (images, classes, count), most = q.inputs[1].shape, q.outputs[0].shape[2]
        desc = BoxSuppressionLinesDesc(
            boxes=Ref("in0"),
            scores=Ref("in1"),
            limit=Ref("in2"),
            overlap=Ref("in3"),
            least=Ref("in4"),
            out=Ref("out0"),
            classes=classes,
            count=count,
            most=most,
            centered=int(q.primitive.centered),
        )
        scratch = 8 * count + 5 * 4 * (-(-most // LANES) * LANES)
        return Plan((Tile("box_suppression_lines", desc, images * classes, scratch=scratch),))
