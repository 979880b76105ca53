"""Recognise attention: two matrix products with a softmax between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from clgraph.errors import UnsupportedError
from clgraph.graph.node import Node, Value
from clgraph.graph.program import Milestone, Program
from clgraph.ops.attention import Attention
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.matmul import MatMul
from clgraph.ops.softmax import Softmax
from clgraph.passes.base import Context, Pass
from clgraph.passes.patterns.patterns import Match, linear_source, polynomial
from clgraph.passes.rewriting import apart, read_outside, substitute
from clgraph.selector.choose import choose


class FuseAttention(Pass):
    """Make one node of ``softmax(scale * q k + bias) v``, where its device has more than a general kernel for that.

    The scores must be read by nothing else, and the axes in front of the three matrices be the same.
    """

    name: ClassVar[str] = "fuse_attention"
    handles: ClassVar[Mapping[str, str]] = {
        "matmul": "part of attention",
        "softmax": "part of attention",
        "eltwise": "part of attention",
    }
    needs: ClassVar[Milestone] = Milestone.PLACED

    def run(self, program: Program, context: Context) -> int:
        changes, refused = 0, list[str]()
        for node in program:
            match = _attention(node) if node in program else None
            if match is None:
                continue
            reason = _refusal(program, match) or _better_apart(context, node, match)
            if reason is None:
                substitute(program, sorted(match.nodes, key=program.position), match.primitive, match.inputs)
                changes += 1
            else:
                refused.append(f"{node.name}: no {match.primitive}: {reason}")
        self.note(program, refused)
        return changes


def _refusal(program: Program, match: Match) -> str | None:
    outside = (read_outside(program, n.output, match.nodes) for n in match.nodes[:-1])
    return next(filter(None, outside), None) or apart(match.nodes)


def _better_apart(context: Context, node: Node, match: Match) -> str | None:
    """Say why the device of *node* had better run the parts of *match*, or return ``None``."""
    try:
        chosen = choose(context.query_in_place(node, match.primitive, match.inputs), denied=context.denied)
    except UnsupportedError as error:
        return str(error)
    return "only its general kernel serves it" if chosen.implementation.general else None


def _attention(node: Node) -> Match | None:
    """Return the attention whose last product *node* is."""
    softmax = node.inputs[0].producer if node.inputs else None
    if not _is_product(node) or node.primitive != MatMul() or softmax is None or softmax.fused:
        return None
    rank = node.output.layout.rank
    if softmax.primitive != Softmax((rank - 1,)):
        return None
    last = softmax.inputs[0].producer
    sides: list[tuple[Value, Value | None, tuple[Node, ...]]] = [(softmax.inputs[0], None, ())]
    if last is not None and last.primitive == Eltwise("add") and not last.fused:
        left, right = last.inputs
        sides += [(left, right, (last,)), (right, left, (last,))]
    for scores, bias, added in sides:
        product = linear_source(scores)
        scaled, made = polynomial(scores, product), product.producer
        if (
            made is None
            or scaled is None
            or not _is_product(made)
            or product.layout.shape != softmax.output.layout.shape
        ):
            continue
        if any(scaled.terms.get(p, 0.0) for p in scaled.terms if p != 1) or not scaled.terms.get(1):
            continue
        found = _fitting(made, node, scaled.terms[1])
        if found is not None:
            inputs = (*made.inputs, node.inputs[1], *([] if bias is None else [bias]))
            return Match((made, *scaled.nodes, *added, softmax, node), found, inputs)
    return None


def _is_product(node: Node) -> bool:
    return isinstance(node.primitive, MatMul) and len(node.inputs) == 2 and not node.fused


def _fitting(scores: Node, mixture: Node, scale: float) -> Attention | None:
    """Return the primitive if queries, keys and values have the same axes in front of their matrices."""
    assert isinstance(scores.primitive, MatMul)
    shapes = [v.layout.shape for v in (*scores.inputs, mixture.inputs[1])]
    alike = min(map(len, shapes)) >= 2 and len({s[:-2] for s in shapes}) == 1
    return Attention(scale, scores.primitive.transpose_b) if alike and not scores.primitive.transpose_a else None
