"""Make one node of convolutions or matrix products that read the same tensor. clDNN has no such pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array
from clgraph.graph.program import Milestone, Program
from clgraph.ops.concat import Concat
from clgraph.ops.convolution import Convolution
from clgraph.ops.matmul import MatMul
from clgraph.ops.split import Split
from clgraph.passes.base import Context, Pass
from clgraph.passes.memory.sharing import unit_of
from clgraph.passes.rewriting import apart
from clgraph.passes.selection import proposals
from clgraph.selector.query import Query

GAIN = 0.9
"""Share of the time apart that the time together may take: estimates are not exact, and splitting has its price."""


class FuseSiblings(Pass):
    """Compute sibling 1x1 convolutions, or the queries, keys and values of attention, by one node and a split.

    Siblings are the same primitive with the same post-operations on the same first input, with constant weights: these
    are concatenated once. A split cuts the result, and prepare_buffer_fusing lets its parts lie there. Refused, with a
    note, where

    * a result is an output of the graph, or a part of a concat, which it had better be written into,
    * post-operations have operands, or something is fused in front,
    * a convolution that pads reads it on a CPU: its border of zeros would be a copy of the part,
    * a part would not start at a multiple of 64 bytes, 16 on a GPU,
    * annotations or placements differ, or a kernel is forced,
    * it is not estimated faster: launches are what it saves on a GPU, idle workers on a CPU.

    Counts the nodes that went.
    """

    name: ClassVar[str] = "fuse_siblings"
    handles: ClassVar[Mapping[str, str]] = {
        "convolution": "one node of several that read the same tensor",
        "matmul": "one node of several that read the same tensor",
    }
    needs: ClassVar[Milestone] = Milestone.PLACED

    def run(self, program: Program, context: Context) -> int:
        notes, gone = list[str](), 0
        for value in program.values:
            families: dict[Any, list[Node]] = {}
            for node in value.readers:
                if (key := _family(node, value)) is not None:
                    families.setdefault(key, []).append(node)
            for family in families.values():
                gone += _join(program, context, family, notes) if len(family) > 1 else 0
        self.note(program, notes)
        return gone


def _family(node: Node, value: Value) -> Any:
    """Return what siblings have in common with *node*, ``None`` for a node that can have none."""
    p = node.primitive
    if node.inputs[0] is not value or any(v.constant is None for v in node.inputs[1 : node.arity]):
        return None
    weights = node.inputs[1].layout if len(node.inputs) > 1 else value.layout
    if not weights.format.is_plain or len(weights.shape) < 2:
        return None
    if isinstance(p, Convolution) and p.groups == 1 and p.bands == 1 and not any(k > 1 for k in weights.shape[2:]):
        return (p, node.fused)
    bias = node.inputs[2].layout if node.arity > 2 else None
    if isinstance(p, MatMul) and len(weights.shape) == 2 and not p.transpose_a and value.layout.rank > 1:
        return (p, node.fused) if bias is None or bias.count in (1, *bias.shape[-1:]) else None
    return None


def _join(program: Program, context: Context, family: list[Node], notes: list[str]) -> int:
    """Put one node and a split in the place of those of *family* that can be joined; return how many went."""
    able: list[Node] = []
    for node in family:
        reason = _refusal(program, context, node)
        if reason is None and able:
            reason = apart([able[0], node])
        if reason is None:
            able.append(node)
        else:
            notes.append(f"{node.name}: not joined with its siblings: {reason}")
    unit = unit_of(context.device(family[0]))
    able.sort(key=lambda node: _unaligned(node, unit) is not None)
    while len(able) > 1 and (why := _unaligned(able[-2], unit)) is not None:
        notes.append(f"{able.pop(-2).name}: not joined with its siblings: {why}")
    if len(able) < 2:
        return 0
    names = ", ".join(n.name for n in able)
    apart_seconds, joint_seconds = _seconds(context, able)
    if joint_seconds is None or apart_seconds is None or joint_seconds > GAIN * apart_seconds:
        times = f"{joint_seconds or 0:.2g} s together, {apart_seconds or 0:.2g} s apart"
        notes.append(f"{names}: not joined: {times}" if joint_seconds else f"{names}: not joined: nothing serves it")
        return 0
    first, label = able[0], f"{able[0].name}/siblings"
    inputs = [first.inputs[0], *(program.constant(f"{label}/{what}", a) for what, a in _constants(context, able))]
    place = min(able, key=program.position)
    joint = program.insert(first.primitive, inputs, sources=able, name=label, before=place)
    joint.fused = first.fused
    sizes = tuple(n.output.layout.shape[_axis(n)] for n in able)
    split = program.insert(Split(_axis(first), sizes), [joint.output], sources=able, name=f"{label}/split")
    for node, part in zip(able, split.outputs, strict=True):
        name = node.output.name
        program.rewire(node.output, part)
        program.erase(node)
        part.name = name
    notes.append(f"{names}: joined")
    return len(able)


def _refusal(program: Program, context: Context, node: Node) -> str | None:
    if program.is_output(node.output):
        return f"{node.output.name} is an output of the graph"
    if any(f.where == "pre" or f.operands for f in node.fused):
        return "something with operands or in front of it is fused"
    if joins := [r for r in node.output.readers if isinstance(r.primitive, Concat)]:
        return f"its result can lie in that of {joins[0].name}"
    if context.device(node).kind == "cpu" and (padding := [r for r in node.output.readers if _pads(r)]):
        return f"{padding[0].name} reads a border around it, which a part of a buffer does not have"
    return "its kernel is forced" if node.name in context.forced else None


def _pads(node: Node) -> bool:
    return isinstance(node.primitive, Convolution) and any(map(any, node.primitive.pads))


def _axis(node: Node) -> int:
    """Return the axis of the result along which siblings lie one behind the other."""
    return 1 if isinstance(node.primitive, Convolution) else node.output.layout.rank - 1


def _unaligned(node: Node, unit: int) -> str | None:
    """Say why no part can start behind the result of *node* where channels or columns are neighbours."""
    size, item = node.output.layout.shape[_axis(node)], node.output.layout.dtype.itemsize
    return f"{size} channels are no multiple of {unit} bytes" if size * item % unit else None


def _seconds(context: Context, nodes: Sequence[Node]) -> tuple[float | None, float | None]:
    """Return the estimates for *nodes* apart and as one."""
    each = [proposals(context, node) for node in nodes]
    total = sum(found[0].seconds for found in each) if all(each) else None
    found = proposals(context, nodes[0], _joint_query(context, nodes))
    return total, found[0].seconds if found else None


def _joint_query(context: Context, nodes: Sequence[Node]) -> Query[Any]:
    first, q = nodes[0], context.query(nodes[0])
    axis, columns = _axis(first), sum(n.output.layout.shape[_axis(n)] for n in nodes)
    (y,), w, along = q.outputs, q.inputs[1], _weights_axis(first)
    inputs = [q.inputs[0], w.with_shape(_resized(w.shape, along, columns))]
    if any(n.arity > 2 for n in nodes):
        inputs.append(w.with_shape((columns,)))
    joint = replace(q, arity=len(inputs), constant=frozenset(range(1, len(inputs))))
    return joint.with_layouts(tuple(inputs), (y.plain().with_shape(_resized(y.shape, axis, columns)),))


def _resized(shape: tuple[int, ...], axis: int, size: int) -> tuple[int, ...]:
    return (*shape[:axis], size, *shape[axis + 1 :])


def _weights_axis(node: Node) -> int:
    p = node.primitive
    return 1 if isinstance(p, MatMul) and not p.transpose_b else 0


def _constants(context: Context, nodes: Sequence[Node]) -> list[tuple[str, Array]]:
    """Return the weights of *nodes* one behind the other, and the biases where any node has one."""
    weights, axis = [_data(n.inputs[1]) for n in nodes], _weights_axis(nodes[0])
    made = [("weights", context.packed.once(("siblings", axis), weights, lambda: np.concatenate(weights, axis)))]
    if any(n.arity > 2 for n in nodes):
        sizes = [n.output.layout.shape[_axis(n)] for n in nodes]
        biases = [_data(n.inputs[2]) if n.arity > 2 else np.zeros(1, n.output.layout.dtype.numpy) for n in nodes]
        spread = [np.broadcast_to(b.reshape(-1), (size,)) for b, size in zip(biases, sizes, strict=True)]
        made.append(("bias", np.concatenate(spread)))
    return made


def _data(value: Value) -> Array:
    assert value.constant is not None
    return value.constant
