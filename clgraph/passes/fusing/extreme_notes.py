"""Extremes of a tensor that the kernel which writes it records: the work of note_extremes."""

from __future__ import annotations

from dataclasses import replace

from clgraph.graph.node import Fused, Node, Value
from clgraph.graph.program import Program
from clgraph.ops.concat import Concat
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
    """Let what makes a tensor record the extreme that *node* starts to compute of it; say whether it does."""
    p = node.primitive
    if not isinstance(p, Reduce) or p.function not in EXTREMA or node.fused or not _is_part(program, node):
        return False
    makers = _noting(program, context, node)
    if not makers:
        return False
    note = program.insert(EmptyNote(), makers[0].inputs[:1], sources=[node], before=makers[0]).output
    for made in makers:
        value = made.output
        peer = program.insert(NoteExtreme(p.function), [value, note], sources=[made])
        peer.output.name = value.name
        program.rewire(value, peer.output, uses=[u for u in value.uses if u[0] is not peer])
        program.fuse(peer, made)
    # What is read last has all that notes in front of it.
    whole = makers[0].output if len(makers) == 1 else node.inputs[0]
    read = program.insert(NotedExtreme(p.function), [note, whole], sources=[node], before=node)
    program.rewire(node.output, read.output)
    program.erase(node)
    return True


def _noting(program: Program, context: Context, node: Node) -> list[Node]:
    """Return, in order, what writes the tensor that *node* reads and can note: its maker, or those of its parts."""
    made = _maker(node.inputs[0])
    if made is None:
        return []
    if _take(program, context, [made], node, blocks=False):
        return [made]
    parts = {_maker(v) for v in made.inputs} if isinstance(made.primitive, Concat) and not made.fused else {None}
    if None in parts:
        return []
    # What it copies has the format of its result, whatever is cheapest for the parts alone.
    joined = proposals(context, made, context.query(made))
    makers = [n for n in program if n in parts]
    blocks = bool(joined) and joined[0].query.outputs[0].format.blocks != ()
    return makers if _take(program, context, makers, node, blocks=blocks) else []


def _maker(value: Value) -> Node | None:
    """Return what makes *value*, which may be moved behind it."""
    while (made := value.producer) is not None and isinstance(made.primitive, Reshape | Transpose | Reorder):
        if made.fused or made.inputs[0].layout.dtype != value.layout.dtype:
            return None
        value = made.inputs[0]
    return made if made is not None and len(made.outputs) == 1 else None


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


def _take(program: Program, context: Context, makers: list[Node], node: Node, *, blocks: bool) -> bool:
    """Whether the kernels of *makers* record extremes, and *node* takes longer than clearing and reading the record.

    Args:
        blocks: Their results have blocks of channels.
    """
    reduces = context.query(node)
    if any(program.is_output(m.output) for m in makers) or apart([*makers, node]) is not None:
        return False
    more = [_noting_seconds(program, context, made, node, blocks=blocks) for made in makers]
    (note,) = EmptyNote().infer(())
    p = node.primitive
    assert isinstance(p, Reduce)
    asked = NotedExtreme(p.function)
    own = Query(asked, (note, reduces.inputs[0]), asked.infer((note, reduces.inputs[0])), reduces.device, 2)
    seconds, found = estimate(context, node, reduces), proposals(context, node, own)
    if seconds is None or not found or None in more:
        return False
    return seconds > sum(s for s in more if s is not None) + 2 * found[0].seconds


def _noting_seconds(program: Program, context: Context, made: Node, node: Node, *, blocks: bool) -> float | None:
    """Return what recording the extreme that *node* computes adds to *made*, ``None`` where its kernel cannot."""
    q, p = context.query(made), node.primitive
    if q.device.kind != "cpu" or sharing_proposals(program, made, q):
        return None
    assert isinstance(p, Reduce)
    (note,) = EmptyNote().infer(())
    noting = Fused(NoteExtreme(p.function), (len(q.inputs),))
    before, after = (
        [p for p in proposals(context, made, asked) if p.query.outputs[0].format.blocks or not blocks]
        for asked in (q, replace(q, inputs=(*q.inputs, note), fused=(*q.fused, noting)))
    )
    if not before or not after or before[0].implementation is not after[0].implementation:
        return None
    return after[0].seconds - before[0].seconds
