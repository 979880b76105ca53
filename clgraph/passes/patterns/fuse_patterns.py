"""Recognise operators that exporters spell with many nodes. ONNX Runtime's fusions (GeluFusion …) do the like."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import ClassVar

from clgraph.graph.node import Node
from clgraph.graph.program import Program
from clgraph.ops.activation import Activation
from clgraph.ops.convolution import Convolution
from clgraph.ops.eltwise import Eltwise
from clgraph.passes.base import Context, Pass
from clgraph.passes.patterns.pattern_gates import clip_to_hard_sigmoid, gelu, hard_sigmoid, hard_swish, swish
from clgraph.passes.patterns.pattern_layer_normalization import layer_normalization
from clgraph.passes.patterns.patterns import Match, Product, product
from clgraph.passes.rewriting import apart, read_outside, substitute


class FusePatterns(Pass):
    """Replace spelled-out swish, hard sigmoid, hard swish, gelu (erf, tanh), layer and RMS normalisation by one node.

    Gates are functions of floats: integers have a clip, and no hard sigmoid. Explicit padding with zeros in front of a
    convolution becomes its pads. A pattern is left alone, and ``Program.notes`` says why, when a result inside it is
    read elsewhere or is a graph output, or when its nodes carry different annotations or placements. Attention is
    fuse_attention's, which has to know devices.
    """

    name: ClassVar[str] = "fuse_patterns"
    handles: ClassVar[Mapping[str, str]] = {
        "eltwise": "part of gelu, swish, hard-swish, layer normalization",
        "activation": "part of gelu, swish, hard-swish, layer normalization",
        "reduce": "part of layer normalization",
        "pad": "goes into the convolution behind it",
        "convolution": "takes the pad in front of it",
    }

    def run(self, program: Program, context: Context) -> int:
        changes, refused = 0, list[str]()
        for node in program:
            match = _match(node) if node in program else None
            if match is None:
                continue
            reason = _refusal(program, match)
            if reason is None:
                order = sorted(match.nodes, key=program.position)
                named = node if isinstance(match.primitive, Convolution) else None
                substitute(program, order, match.primitive, match.inputs, named)
                changes += 1
            else:
                refused.append(f"{node.name}: no {match.primitive}: {reason}")
        self.note(program, refused)
        return changes


def _match(node: Node) -> Match | None:
    """Return what the first rule that knows *node* as the end of a pattern says of it."""
    if isinstance(node.primitive, Activation | Eltwise) and node.output.layout.dtype.floating:
        spelled = product(node)
        if (match := next((m for rule in GATES if (m := rule(node, spelled)) is not None), None)) is not None:
            return match
    return next((m for rule in RULES if (m := rule(node)) is not None), None)


def _refusal(program: Program, match: Match) -> str | None:
    results = [n.output for n in match.nodes]
    last = max(match.nodes, key=program.position).output
    outside = (read_outside(program, v, match.nodes) for v in results if v is not last)
    return next(filter(None, outside), None) or apart(match.nodes)


def pad_convolution(node: Node) -> Match | None:
    """A convolution of a tensor padded with zeros."""
    pad = node.inputs[0].producer if node.inputs else None
    if not isinstance(node.primitive, Convolution) or pad is None or node.fused:
        return None
    p = pad.primitive
    if p.kind != "pad":
        return None
    # Imported only where there is one.
    from clgraph.ops.pad import Pad

    if not isinstance(p, Pad) or p.mode != "constant" or p.value != 0 or any(min(x) < 0 for x in p.pads):
        return None
    if any(map(any, p.pads[:2])):
        return None
    pads = tuple((a + c, b + d) for (a, b), (c, d) in zip(node.primitive.pads, p.pads[2:], strict=True))
    return Match((pad, node), replace(node.primitive, pads=pads), (pad.inputs[0], *node.inputs[1:]))


GATES: tuple[Callable[[Node, Product], Match | None], ...] = (
    swish,
    hard_swish,
    hard_sigmoid,
    clip_to_hard_sigmoid,
    gelu,
)
RULES: tuple[Callable[[Node], Match | None], ...] = (layer_normalization, pad_convolution)
