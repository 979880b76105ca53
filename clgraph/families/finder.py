"""Finds the rules by which members are derived: where the attributes and constants of a representative stem from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

from clgraph.core.layout import Shape
from clgraph.errors import BindingError
from clgraph.families.built import Built, varying
from clgraph.families.cone import Cone
from clgraph.families.dependence import Dependence
from clgraph.families.rules import Guards, Rule, alike, constants_of, held_in, regrouped, splits
from clgraph.families.uses import ConstantUses
from clgraph.graph.layer import Layer
from clgraph.graph.node import Node, Value
from clgraph.graph.permute import Axes, held
from clgraph.graph.program import Program
from clgraph.ops.pad import Pad
from clgraph.ops.reshape import Reshape
from clgraph.ops.resize import Resize
from clgraph.ops.slice import Slice
from clgraph.ops.split import Split
from clgraph.passes.chosen import choice_of
from clgraph.selector.choose import Choice
from clgraph.selector.query import Query

MOST_AXES = 6
"""Of a tensor whose orders are tried."""


def rules_of(
    program: Program,
    built: Built,
    others: Sequence[Built],
    extremes: Sequence[Built],
    cone: Cone,
    deciding: Sequence[str],
) -> tuple[tuple[Rule, ...], Guards, dict[str, bool]]:
    """Return the rules of the nodes of *program*, the final program of what was *built*, in order; guards; folded ones.

    The last are the values that sizes decide and that some node has otherwise: a member's have to be the same. Of some
    nothing but a value may be left.

    Args:
        others: The same topology built for other shapes.
        extremes: The same for much larger or smaller ones, in which other sizes than in *built* may be 1, or equal.

    Raises:
        BindingError: There is no rule for a node.
    """
    finder = _Finder(program, built, others, cone, deciding)
    rules = [finder.rule(node) for node in program]
    first: dict[Query[Any], int] = {}
    for number, rule in enumerate(rules):
        choice = rule.node.choice
        if isinstance(choice, Choice) and not choice.in_place:
            twin = first.setdefault(choice.query, number)
            if twin != number and choice_of(rules[twin].node).implementation is choice.implementation:
                rules[number] = replace(rule, twin=twin)
    return tuple(rules), *finder.guards(extremes)


class _Finder:
    """Finds the rules of one node after the other."""

    def __init__(
        self, program: Program, built: Built, others: Sequence[Built], cone: Cone, deciding: Sequence[str]
    ) -> None:
        self._built, self._others, self._cone, self._deciding = built, others, cone, deciding
        self._node_of = {id(node.primitive): name for name, node in built.nodes.items()}
        self._program = program
        self._made = {v.name for v in program.inputs} | set(deciding)
        self._bound: set[str] = set()
        self._traced: set[str] = set()
        self._sizes = Dependence(program, built, others, cone, deciding)
        self._uses = ConstantUses(built, self._sizes.computed, program.merged)
        self._results = tuple(self._sizes.results())

    def rule(self, node: Node) -> Rule:
        rule = self._attributes(node)
        constants, layers = [], []
        for slot, value in enumerate(node.inputs):
            if value.constant is not None and (name := self._sizes.name_of(value)) is not None:
                self._uses.found(name, node)
                constants.append((slot, name))
                layers += self._layers(name)
        rule = replace(rule, constants=tuple(constants), before=(*rule.before, *self._above(layers)))
        for fused in node.fused:
            if fused.primitive.holds_sizes:
                raise BindingError(f"node {node.name!r} has {fused.primitive} fused, which holds sizes")
        shapes, dtypes = self._built.shapes, self._built.dtypes
        names = tuple(v.name if shapes.get(v.name) == v.layout.shape else None for v in node.outputs)
        known = tuple(None if name is None else (name, dtypes[name]) for name in names)
        self._made.update(name for name in names if name is not None)
        constant, plain = constants_of(node)
        return replace(rule, known=known, constant=constant, plain=plain)

    def _attributes(self, node: Node) -> Rule:
        primitive = node.primitive
        name = self._node_of.get(id(primitive))
        if name is None and node.name in self._built.nodes and self._built.nodes[node.name].primitive == primitive:
            name = node.name
        if name is not None:
            self._traced.add(name)
            if isinstance(primitive, Reshape) and self._is_grouped(name, node.inputs[0]):
                return Rule(node, groups=(node.inputs[0].layout.shape, node.output.layout.shape))
            layer = self._cone.layer_of(name)
            if layer is None:
                raise BindingError(f"node {name!r} stems from no layer")
            if self._sizes.is_free(name, layer):
                return Rule(node)
            return Rule(node, self._above([layer]), layer=name)
        if isinstance(primitive, Reshape):
            if self._built.shapes.get(node.output.name) == node.output.layout.shape:
                return Rule(node, self._above(self._layers(node.output.name)), shape_of=node.output.name)
            if (found := self._axes(node)) is not None:
                return Rule(node, self._above(self._layers(found[0])), sizes=found)
            return Rule(node, groups=(node.inputs[0].layout.shape, node.output.layout.shape))
        if node.inputs and primitive.resized(*(node.inputs[0].layout.shape,) * 2) is not None:
            return Rule(node)
        if (layer := self._cone.layer_of(node.name)) is not None and (axes := self._held(node)) is not None:
            return Rule(node, self._above([layer]), layer=node.name, held=axes)
        # The parts of a split make up its input, or it does not fit the member.
        if primitive.holds_sizes and not isinstance(primitive, Split):
            raise BindingError(f"node {node.name!r}: {primitive} holds sizes, and was made by a pass")
        return Rule(node)

    def _axes(self, node: Node) -> tuple[str, Axes] | None:
        """Return axes of a built value of *node*'s origin that a reshape makes, where groups of axes do not tell."""
        source, target = node.inputs[0].layout.shape, node.output.layout.shape
        if not splits(source, target):
            return None
        for built in self._built.nodes.values():
            for name in () if set(node.origin).isdisjoint(built.origin) else built.outputs:
                shape = self._built.shapes[name]
                if sorted(shape) == sorted(target):
                    return name, tuple(shape.index(size) for size in target)
        return None

    def _held(self, node: Node) -> Axes | None:
        """Return the order of axes that a built slice, pad or resize of this name is held in, where it is one."""
        built = self._built.nodes.get(node.name)
        if built is None or not isinstance(built.primitive, Slice | Pad | Resize) or len(built.shapes[0]) > MOST_AXES:
            return None
        shape, read = built.shapes[0], node.inputs[0].layout.shape
        orders = (axes for axes in permutations(range(len(shape))) if held(shape, axes) == read)
        return next((axes for axes in orders if held_in(built.primitive, axes) == node.primitive), None)

    def _is_grouped(self, name: str, read: Value) -> bool:
        """Whether groups of axes tell what a built reshape makes of other sizes, so that no layer need be bound.

        What is *read* is not what it was built on where two reshapes became one.
        """
        source, target = read.layout.shape, self._built.nodes[name].shapes[1]
        if self._built.shapes.get(read.name) != source:
            return False
        try:
            return all(regrouped(source, target, o.shapes[read.name]) == o.nodes[name].shapes[1] for o in self._others)
        except BindingError:
            return False

    def guards(self, extremes: Sequence[Built]) -> tuple[Guards, dict[str, bool]]:
        """Return what is to be checked behind all nodes, and what was folded: whether no constant is left of it.

        Args:
            extremes: They show where a size is 1, or equal, by chance.
        """
        shapes, primitives = dict[str, tuple[tuple[str, ...], tuple[Shape, ...]]](), []
        expanded = self._cone.expanded(self._deciding, self._sizes.data)
        layers = list(expanded.values())
        for name, node in self._built.nodes.items():
            others = [e.nodes[name] for e in extremes if name in e.nodes]
            stays = name in self._traced
            if any(node.differs(o) if stays else alike(node.shapes, o.shapes) for o in others):
                shapes[name] = node.around, node.shapes
                for value in node.around:
                    layers += self._layers(value)
            if stays:
                continue
            varies = any(o.nodes[name].primitive != node.primitive for o in self._others)
            reads_data = self._sizes.computed.isdisjoint(node.outputs)
            if varies and not node.primitive.holds_sizes and reads_data:
                raise BindingError(f"node {name!r}: {node.primitive} depends on sizes, and was replaced")
            layer = self._cone.layer_of(name)
            takes = layer is not None and self._sizes.takes_sizes(name, node.primitive, layer)
            if layer is not None and not varies and (takes or (reads_data and layer.name in expanded)):
                primitives.append((name, node.primitive))
                layers.append(layer)
            if not varies and not takes:
                continue
            shapes[name] = node.around, node.shapes
            for value in node.around:
                layers += self._layers(value)
        folded, merged = self._folded()
        for name in (*folded, *(name for pair in merged for name in pair), *(name for _, name in self._results)):
            layers += self._layers(name)
        checked = tuple((name, *found) for name, found in shapes.items())
        return Guards(self._above(layers), checked, tuple(primitives), merged=tuple(merged), results=self._results), {
            n: self._vanished(n) for n in folded
        }

    def _vanished(self, folded: str) -> bool:
        """Whether *folded* was an operand, and no final node in its readers' place reads what it may have become.

        A constant that is left may be as large as the representative's sizes say. Weights that were packed under
        another name are told from it by their sizes, of which none may be a multiple of one that varies.
        """
        readers = [node for node in self._built.nodes.values() if folded in node.inputs]
        origins = {name for node in readers for name in node.origin}
        read = [v for node in self._program if not origins.isdisjoint(node.origin) for v in node.inputs]
        left = [v for v in read if v.constant is not None and v.layout.count > 1 and self._sizes.name_of(v) is None]
        fixed, varied = self._sizes.fixed_shapes(), varying(self._built, self._others)
        return all(n.primitive.elementwise for n in readers) and all(
            fixed.get(v.name) == v.layout.shape or all(n % m for n in v.layout.shape for m in varied) for v in left
        )

    def _folded(self) -> tuple[set[str], list[tuple[str, str]]]:
        """Return the constants that sizes decide and that some node has otherwise, and pairs that have to be equal."""
        sized = self._sizes.decided
        read = self._sizes.read() & sized
        folded = self._uses.folded(read)
        merged = [(name, kept) for name in read - folded if (kept := self._uses.kept(name)) != name]
        # What else is equal to one that sizes decide reads that one, and stays what it is.
        folded.update(kept for name, kept in self._program.merged.items() if kept in sized and name not in sized)
        return folded, merged

    def _layers(self, value: str) -> list[Layer]:
        if value in self._made:
            return []
        layer = self._cone.made_by(value)
        return [] if layer is None else [layer]

    def _above(self, layers: Sequence[Layer]) -> tuple[Layer, ...]:
        wanted = [layer for layer in layers if layer.name not in self._bound]
        found = self._cone.above(wanted, self._made)
        self._bound.update(layer.name for layer in found)
        return found
