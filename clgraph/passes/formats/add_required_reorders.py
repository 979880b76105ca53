"""Convert what no implementation reads or writes as it is. Answers clDNN's add_required_reorders."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import ClassVar

from clgraph.core.layout import Layout
from clgraph.errors import UnsupportedError
from clgraph.graph.node import Node, Value
from clgraph.graph.program import Milestone, Program
from clgraph.ops.reorder import Reorder
from clgraph.passes.base import Context, Pass
from clgraph.passes.rewriting import apart, mover
from clgraph.passes.selection import proposals, select


class AddRequiredReorders(Pass):
    """Insert reorders around every node that nothing serves in its present layouts, and make graph outputs plain.

    The proposal that is cheapest together with its reorders is taken. After this pass every node has a choice, but
    those that their device refuses in any layout: confirm_placement looks for another one.

    YOLOv8 on a CPU needs it: one half of a split is read with a halo, which the split's kernels do not write.
    """

    name: ClassVar[str] = "add_required_reorders"
    required: ClassVar[bool] = True
    needs: ClassVar[Milestone] = Milestone.PLACED
    reaches: ClassVar[Milestone | None] = Milestone.FORMATTED

    def run(self, program: Program, context: Context) -> int:
        before = len(program)
        for node in program:
            if not node.in_place:
                with suppress(UnsupportedError):
                    serve(program, context, node)
        for value in dict.fromkeys(v for _, v in program.outputs):
            if value.producer is not None and not value.layout.is_dense_plain:
                made = _reorder(program, context, value, value.layout.plain(), value.producer)
                program.outputs = [(n, made if v is value else v) for n, v in program.outputs]
        return len(program) - before

    def describe(self, kind: str) -> str:
        return "gets reorders around it where no implementation serves its layouts"


def serve(program: Program, context: Context, node: Node) -> None:
    """Choose for *node* as its layouts are, else with reorders around it.

    Raises:
        UnsupportedError: Its device serves it in no layouts; names the node and lists who refused and why.
    """
    node.choice = None
    try:
        node.choice = select(context, node)
    except UnsupportedError:
        offered = proposals(context, node)
        if not offered:
            raise
        best = min(offered, key=lambda p: p.seconds + _conversion(context, node, p.query.inputs, p.query.outputs))
        for slot, layout in enumerate(best.query.inputs):
            if (value := node.inputs[slot]).constant is None and not _serves(value.layout, layout):
                made = _reorder(program, context, value, layout, mover(value, node), before=node)
                program.rewire(value, made, uses=((node, slot),))
        for value, layout in zip(node.outputs, best.query.outputs, strict=True):
            if value.layout.format != layout.format:
                convert_result(program, context, node, value, layout)
        node.choice = select(context, node)


def _serves(have: Layout, want: Layout) -> bool:
    """Whether a tensor that lies as *have* can be read where *want* is required."""
    return have.format == want.format and all(
        h[0] >= w[0] and h[1] >= w[1] for h, w in zip(have.halos, want.halos, strict=True)
    )


def _conversion(context: Context, node: Node, inputs: tuple[Layout, ...], outputs: tuple[Layout, ...]) -> float:
    """Estimate the seconds of moving what lies otherwise than wanted."""
    device = context.device(node)
    pairs = [(v.layout, x) for v, x in zip(node.inputs, inputs, strict=True) if v.constant is None]
    moved = [want.nbytes for have, want in pairs if not _serves(have, want)]
    pairs = [(v.layout, x) for v, x in zip(node.outputs, outputs, strict=True)]
    moved += [want.nbytes for have, want in pairs if have.format != want.format]
    return sum(2 * n / device.bytes_per_second + device.launch_seconds for n in moved)


def _reorder(
    program: Program, context: Context, value: Value, layout: Layout, source: Node, before: Node | None = None
) -> Value:
    """Return *value* as *layout*: an existing reorder's result, or that of a new one."""
    for reader in value.readers:
        early = before is None or program.position(reader) < program.position(before)
        alike = isinstance(reader.primitive, Reorder) and not reader.fused and reader.output.layout == layout
        if alike and early and apart((reader, source)) is None:
            return reader.output
    made = program.insert(Reorder(layout.dtype, layout.format, layout.halo), [value], sources=[source], before=before)
    with suppress(UnsupportedError):
        made.choice = select(context, made)
    return made.output


def convert_result(program: Program, context: Context, node: Node, value: Value, layout: Layout) -> None:
    """Let *node* write *layout* and give the readers what they had: layout, place in a shared buffer, output name."""
    old, buffer, offset = value.layout, value.buffer, value.offset
    readers = value.readers
    value.layout = replace(old, format=layout.format, halo=layout.halo, pitches=())
    value.buffer, value.offset = None, 0
    if not readers and not program.is_output(value):
        return
    made = program.insert(Reorder(old.dtype, old.format, old.halo), [value], sources=[node])
    program.rewire(value, made.output, uses=[use for use in value.uses if use[0] is not made])
    program.outputs = [(n, made.output if v is value else v) for n, v in program.outputs]
    made.output.layout, made.output.buffer, made.output.offset = old, buffer, offset
    with suppress(UnsupportedError):
        made.choice = select(context, made)
