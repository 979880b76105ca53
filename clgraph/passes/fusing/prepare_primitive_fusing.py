"""Move elementwise work into what makes or reads its input. Answers clDNN's prepare_primitive_fusing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from clgraph.graph.node import Fused, Node, Value
from clgraph.graph.primitive import PRIMITIVES
from clgraph.graph.program import Program, Stage
from clgraph.ops.activation import Activation
from clgraph.ops.concat import Concat
from clgraph.ops.matmul import MatMul
from clgraph.passes.base import Context, Pass
from clgraph.passes.fusing.bottlenecks import fuse_bottleneck
from clgraph.passes.fusing.convolution_groups import merge_groups
from clgraph.passes.fusing.parts import activate_parts
from clgraph.passes.fusing.pool_first import pool_first
from clgraph.passes.fusing.weight_scaling import followers, scale_weights
from clgraph.passes.memory.sharing import sharing_proposals
from clgraph.passes.rewriting import apart, read_outside
from clgraph.passes.selection import proposals, still_serves
from clgraph.selector.implementation import IMPLEMENTATIONS, Implementation
from clgraph.selector.query import Query

MOST_FUSED = 32
"""Operations that are fused into one node: further ones cost as much to add as all before, and save next to nothing."""


class PreparePrimitiveFusing(Pass):
    """Fold, then fuse behind producers, then fuse in front of consumers, in eight steps.

    1. A factor in front of a matrix product moves behind it, where it can be fused.
    2. Multiplication and addition of per-channel constants behind a convolution or matrix product with constant weights
       become part of the weights and the bias, computed in float64 and rounded once.
    3. Average pooling moves in front of the 1x1 convolution that it follows (``pool_first``).
    4. Groups of a convolution that are no whole blocks are merged, and channel shuffles behind convolutions become an
       order of output channels (``convolution_groups``).
    5. An activation behind a concat moves in front of it, where what makes its parts can take it (``parts``).
    6. A depthwise convolution and the 1x1 convolutions around it become one node (``bottlenecks``).
    7. An activation or elementwise operator becomes a post-operation of the node that makes its input; of two, the
       later one, so that the other operand is there in time.
    8. What could not follow a producer (a scale, shift and activation behind a concat) becomes a pre-operation of the
       one node that reads it as its first input.

    A fusion is refused when the result in between is read elsewhere (so no operand depends on the node over another
    path) or is a graph output, when annotations or placements differ, when the running value has not the result's full
    shape and type (but where all that is left of it is 8 bits), when no implementation serves it, when it would
    cost more than the two nodes apart, or when the node would have more than ``MOST_FUSED`` operations.
    ``Program.notes`` lists what was fused and every refusal in words.
    """

    name: ClassVar[str] = "prepare_primitive_fusing"
    needs: ClassVar[Stage] = Stage.PLACED

    def run(self, program: Program, context: Context) -> int:
        table: list[str] = []
        for node in program:
            if isinstance(node.primitive, MatMul):
                _pull_scales(program, node, table)
        for node in program:
            if node in program:
                _scale(program, context, node, table)
        for node in program:
            if node in program and (moved := pool_first(program, node, table)) is not None:
                _scale(program, context, moved, table)
        for node in program:
            if node in program:
                merge_groups(program, context, node, table)
        for node in program:
            if isinstance(node.primitive, Concat):
                activate_parts(program, context, node, table)
        for node in program:
            if node in program:
                fuse_bottleneck(program, context, node, table)
        fused, gain = len(table), _Gain(context)
        for node in program:
            if node.primitive.elementwise:
                fused += _follow(program, gain, node, table)
        for node in reversed(tuple(program)):
            if node in program and node.primitive.elementwise:
                fused += _precede(program, gain, node, table)
        if table:
            program.notes[self.name] = "\n".join(dict.fromkeys(table))
        return fused

    def describe(self, kind: str) -> str:
        fuses = any(i.serves.fuses for i in IMPLEMENTATIONS.of(kind))
        takes = "takes post-operations that its implementations list" if fuses else "takes no post-operations"
        if not PRIMITIVES[kind].elementwise:
            return takes
        return f"elementwise: becomes a post-operation of its producer where it has as_post(); {takes}"


def _scale(program: Program, context: Context, node: Node, table: list[str]) -> None:
    chain, total = followers(program, node)
    if chain:
        names = ", ".join(n.name for n in chain)
        scale_weights(program, node, chain, total, context.packed)
        table.append(f"{names}: into the weights and bias of {node.name}")


def _pull_scales(program: Program, node: Node, table: list[str]) -> None:
    """Multiply the result of a matrix product instead of an operand that nothing else reads."""
    for slot, value in enumerate(node.inputs[:2]):
        scale, layout = value.producer, value.layout
        if scale is None or scale.fused or not isinstance(scale.primitive, Activation) or not layout.dtype.floating:
            continue
        linear = scale.primitive.function == "linear" and scale.primitive.beta == 0
        alone = read_outside(program, value, [node]) is None and len(value.uses) == 1 and node.arity == 2
        if not linear or not alone or node.fused or apart([scale, node]) is not None:
            continue
        program.rewire(value, scale.inputs[0], uses=[(node, slot)])
        after = program.insert(scale.primitive, [node.output], sources=[scale])
        program.rewire(node.output, after.output, uses=[u for u in node.output.uses if u[0] is not after])
        program.outputs = [(name, after.output if v is node.output else v) for name, v in program.outputs]
        program.erase(scale)
        table.append(f"{scale.name}: from in front of {node.name} to behind it")


def _follow(program: Program, gain: _Gain, peer: Node, table: list[str]) -> bool:
    """Fuse *peer* behind the later producer of its inputs, or note why not."""
    producers = [(program.position(v.producer), i) for i, v in enumerate(peer.inputs[: peer.arity]) if v.producer]
    reasons: list[str] = []
    for _, slot in sorted(producers, reverse=True):
        into = peer.inputs[slot].producer
        assert into is not None
        reason = _why_not_behind(program, gain, peer, slot, into)
        if reason is None:
            table.append(f"{peer.name}: behind {into.name}")
            program.fuse(peer, into)
            return True
        reasons.append(f"{peer.name}: not behind {into.name}: {reason}")
    table += reasons
    return False


def _why_not_behind(program: Program, gain: _Gain, peer: Node, slot: int, into: Node) -> str | None:
    value = peer.inputs[slot]
    if value is not into.output or len(into.outputs) > 1:
        return "it has several results"
    others = [v for i, v in enumerate(peer.inputs) if i != slot]
    if (why := _kept_apart(program, value, peer, into)) is not None:
        return why
    rounded = peer.primitive.kind == "static_quantize"
    if value.layout.shape != peer.output.layout.shape or (
        value.layout.dtype != peer.output.layout.dtype and not rounded
    ):
        return f"{value.layout} is not yet the full result {peer.output.layout}"
    if peer.primitive.as_post(slot) is None:
        return f"{peer.primitive} has no post-operation for its input {slot}"
    q = gain.context.query(into)
    if sharing_proposals(program, into, q):
        return f"the parts of {into.name} can lie in one buffer, and it runs nothing then"
    extra = tuple(v.layout for v in others)
    operands = {i: len(q.inputs) + n for n, i in enumerate(i for i in range(len(peer.inputs)) if i != slot)}
    own = tuple(operands[i] for i in range(peer.arity) if i != slot)
    steps = [Fused(peer.primitive, own, slot)]
    steps += [Fused(f.primitive, tuple(operands[i] for i in f.operands), f.slot) for f in peer.fused]
    constant = q.constant | {operands[i] for i, v in enumerate(peer.inputs) if v.constant is not None and i != slot}
    fused = replace(q, inputs=q.inputs + extra, fused=(*q.fused, *steps), constant=frozenset(constant))
    if rounded:
        fused = replace(fused, outputs=(replace(q.outputs[0], dtype=peer.output.layout.dtype),))
    return gain.refusal(into, q, peer, fused)


def _precede(program: Program, gain: _Gain, peer: Node, table: list[str]) -> bool:
    """Fuse *peer* in front of the one node that reads its result first, or note why not."""
    readers = peer.output.readers
    if len(readers) > 1:
        table.append(f"{peer.name}: in front of nothing: {len(readers)} nodes read its result")
    if len(readers) != 1 or len(peer.outputs) > 1:
        return False
    (into,) = readers
    if into.primitive.elementwise:
        return False
    if into.inputs[0] is not peer.output:
        table.append(f"{peer.name}: not in front of {into.name}: it is not what that reads first")
        return False
    shape = peer.output.layout.shape
    slot = next((i for i, v in enumerate(peer.inputs[: peer.arity]) if v.layout.shape == shape), 0)
    reason = _why_not_in_front(program, gain, peer, into, slot)
    if reason is None:
        table.append(f"{peer.name}: in front of {into.name}")
        program.fuse(peer, into, slot)
        return True
    table.append(f"{peer.name}: not in front of {into.name}: {reason}")
    return False


def _why_not_in_front(program: Program, gain: _Gain, peer: Node, into: Node, slot: int) -> str | None:
    value, running = peer.output, peer.inputs[slot]
    if (why := _kept_apart(program, value, into, peer)) is not None:
        return why
    if running.constant is not None or running.layout.shape != value.layout.shape:
        return f"{running.name} has not the full shape of {value.layout}"
    if running.layout.dtype != value.layout.dtype or peer.primitive.as_post(slot) is None:
        return f"{peer.primitive} has no pre-operation for {running.layout}"
    q = gain.context.query(into)
    others = [i for i in range(len(peer.inputs)) if i != slot]
    place = {i: len(q.inputs) + n for n, i in enumerate(others)}
    steps = [Fused(peer.primitive, tuple(place[i] for i in others if i < peer.arity), slot, "pre")]
    steps += [Fused(f.primitive, tuple(place[i] for i in f.operands), f.slot, "pre") for f in peer.fused]
    inputs = (running.layout, *q.inputs[1:], *(peer.inputs[i].layout for i in others))
    constant = q.constant | {place[i] for i in others if peer.inputs[i].constant is not None}
    fused = replace(q, inputs=inputs, fused=(*steps, *q.fused), constant=frozenset(constant))
    return gain.refusal(into, q, peer, fused)


def _kept_apart(program: Program, between: Value, reader: Node, other: Node) -> str | None:
    """Say why *reader* cannot become one node with *other*, which makes the value between them, or return ``None``."""
    if (why := read_outside(program, between, [reader]) or apart([other, reader])) is not None:
        return why
    if len(between.uses) > 1:
        return f"{reader.name} reads {between.name} twice"
    fused = len(reader.fused) + len(other.fused) + 1
    return f"the node would have {fused} fused operations, of at most {MOST_FUSED}" if fused > MOST_FUSED else None


@dataclass(slots=True)
class _Gain:
    """Says whether a fusion pays, and remembers what each node would run on: that it still serves is gain enough."""

    context: Context
    best: dict[Node, type[Implementation[Any]]] = field(default_factory=dict)

    def refusal(self, into: Node, apart_query: Query[Any], peer: Node, fused: Query[Any]) -> str | None:
        """Say why *fused* is no gain: nobody serves it, or the two nodes apart are faster. ``None`` when it is one."""
        alone = () if into in self.best else proposals(self.context, into, apart_query)
        if alone:
            self.best[into] = alone[0].implementation
        if into in self.best and still_serves(self.best[into], fused):
            return None
        together = proposals(self.context, into, fused)
        if not together:
            return f"no implementation of {into.primitive.kind} on {fused.device.name} serves it"
        implementation, seconds = together[0].implementation, together[0].seconds
        alone, following = proposals(self.context, into, apart_query), proposals(self.context, peer)
        if alone and following and seconds > (apart := alone[0].seconds + following[0].seconds):
            return f"{implementation.name} would take {seconds:.2g} s, the two apart {apart:.2g} s"
        self.best[into] = implementation
        return None
