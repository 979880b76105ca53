"""Extremes of a tensor that the kernel which writes it records: the work of note_extremes."""

from __future__ import annotations

from dataclasses import replace

from clgraph.graph.node import Fused, Node
from clgraph.graph.program import Program
from clgraph.ops.noted_extreme import EXTREMA, EmptyNote, NotedExtreme, NoteExtreme
from clgraph.ops.reduce import Reduce
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.ops.transpose import Transpose
from clgraph.passes.base import Context
from clgraph.passes.memory.sharing import sharing_proposals
from clgraph.passes.rewriting import apart
from clgraph.passes.selection import estimate, proposals
from clgraph.selector.query import Query


def note_extreme(program: Program, context: Context, node: Node) -> bool:
    """Let the producer record the extreme that *node* starts to compute of its result; say whether it does."""
    p = node.primitive
    if not isinstance(p, Reduce) or p.function not in EXTREMA or node.fused or not _is_part(program, node):
        return False
    value = node.inputs[0]
    while (made := value.producer) is not None and isinstance(made.primitive, Reshape | Transpose | Reorder):
        if made.fused or made.inputs[0].layout.dtype != value.layout.dtype:
            return False
        value = made.inputs[0]
    if made is None or value is not made.output or len(made.outputs) > 1 or apart([made, node]) is not None:
        return False
    if program.is_output(value) or not _takes(program, context, made, node):
        return False
    note = program.insert(EmptyNote(), made.inputs[:1], sources=[node], before=made).output
    peer = program.insert(NoteExtreme(p.function), [value, note], sources=[made])
    read = program.insert(NotedExtreme(p.function), [note, peer.output], sources=[node], before=node)
    peer.output.name = value.name
    program.rewire(value, peer.output, uses=[u for u in value.uses if u[0] is not peer])
    program.fuse(peer, made)
    program.rewire(node.output, read.output)
    program.erase(node)
    return True


def _is_part(program: Program, node: Node) -> bool:
    """Whether *node* is the first of two reductions that compute one extreme of a whole tensor: only those read it."""
    value, p = node.output, node.primitive
    return (
        value.layout.rank == 2
        and bool(value.readers)
        and not program.is_output(value)
        and all(
            isinstance(n.primitive, Reduce)
            and n.primitive.function == getattr(p, "function", "")
            and n.primitive.reduced(2) == (0, 1)
            and not any(f.where == "pre" for f in n.fused)
            for n in value.readers
        )
    )


def _takes(program: Program, context: Context, made: Node, node: Node) -> bool:
    """Whether *made*'s kernel can record extremes, and *node* takes longer than clearing and reading the record."""
    q, reduces = context.query(made), context.query(node)
    if q.device.kind != "cpu" or sharing_proposals(program, made, q):
        return False
    p = node.primitive
    assert isinstance(p, Reduce)
    (note,) = EmptyNote().infer(())
    noting = Fused(NoteExtreme(p.function), (len(q.inputs),))
    before = proposals(context, made, q)
    after = proposals(context, made, replace(q, inputs=(*q.inputs, note), fused=(*q.fused, noting)))
    if not before or not after or before[0].implementation is not after[0].implementation:
        return False
    asked = NotedExtreme(p.function)
    own = Query(asked, (note, reduces.inputs[0]), asked.infer((note, reduces.inputs[0])), q.device, 2)
    seconds, found = estimate(context, node, reduces), proposals(context, node, own)
    return seconds is not None and bool(found) and seconds > after[0].seconds - before[0].seconds + 2 * found[0].seconds
