"""The nodes of a member: those of the representative's program, with the member's attributes and shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout, Shape
from clgraph.families.cone import Bindings, beginning
from clgraph.families.rules import Guards, Rule
from clgraph.families.taken import Taken
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array, Primitive
from clgraph.graph.program import Program


@dataclass(frozen=True)
class Recipe:
    """All that a member's nodes are derived by.

    Attributes:
        program: The representative's, planned.
        rules: One a node, in its order.
        guards: What is checked behind them.
        constants: Of the topology, that layers read.
    """

    program: Program
    rules: tuple[Rule, ...]
    guards: Guards
    constants: Mapping[str, Value]

    @cached_property
    def taken(self) -> tuple[Taken, ...]:
        """What members take over from each node, in order."""
        return tuple(map(Taken.of, self.rules))

    @cached_property
    def _constants(self) -> list[tuple[Value, Layout]]:
        """The constants of the program with their layouts: equal ones are one object, which compares sooner."""
        layouts: dict[Layout, Layout] = {}
        return [(v, layouts.setdefault(v.layout, v.layout)) for v in self.program.constants]

    @cached_property
    def _likes(self) -> tuple[int | None, ...]:
        """For each node the number of the first one of which the same is inferred, if its inputs are the same, too.

        Layers of a transformer and repeated blocks are like the first; ``None`` for that one and where layers tell.
        """
        first: dict[object, int] = {}
        found: list[int | None] = []
        for number, rule in enumerate(self.rules):
            if rule.layer is not None or rule.shape_of is not None:
                found.append(None)
                continue
            own = tuple([v.layout for v in rule.node.inputs[: rule.node.arity]])
            finals = tuple([(v.layout.dtype, v.layout.format, v.layout.halo) for v in rule.node.outputs])
            at = first.setdefault((rule.groups or rule.node.primitive, own, finals), number)
            found.append(at if at != number else None)
        return tuple(found)

    def member(self, shapes: Sequence[Shape], known: Mapping[str, Array]) -> tuple[Program, Bindings]:
        """Return the program of a member, in which nothing shares memory yet and nothing is chosen.

        Values have the formats and halos of the representative's.

        Args:
            shapes: Of the inputs.
            known: What inputs hold whose values decide sizes.

        Raises:
            BindingError: The member differs in more than sizes.
            ShapeError: An operator does not fit its inputs.
        """
        inputs = [Value(v.name, Layout(v.layout.dtype, s)) for v, s in zip(self.program.inputs, shapes, strict=True)]
        bindings = beginning(((v.name, v.layout) for v in inputs), self.constants, known)
        made: dict[Value, Value] = dict(zip(self.program.inputs, inputs, strict=True))
        made |= {v: Value(v.name, layout, constant=v.constant) for v, layout in self._constants}
        nodes: list[Node] = []
        inferences: list[_Inference] = []
        constants: dict[str, Value] = {}
        for rule, like in zip(self.rules, self._likes, strict=True):
            nodes.append(_node(rule, bindings, made, constants, None if like is None else inferences[like], inferences))
        self.guards.check(bindings)
        outputs = [(name, made[v]) for name, v in self.program.outputs]
        return Program(inputs, outputs, nodes), bindings


@frozen
class _Inference:
    """What was inferred of one node: from the layouts of its own inputs, those of its results, plain and as they are.

    Attributes:
        results: A pair for each result.
    """

    own: list[Layout]
    primitive: Primitive
    results: list[tuple[Layout, Layout]]


def _infer(rule: Rule, bindings: Bindings, own: list[Layout]) -> _Inference:
    """Return what follows from the layouts of a node's inputs; results have the representative's types and formats."""
    primitive = rule.primitive(bindings, own)
    results = []
    for value, inferred in zip(rule.node.outputs, primitive.infer(own), strict=True):
        old, layout = value.layout, inferred
        if old.halo or old.dtype is not inferred.dtype or old.format is not inferred.format:
            layout = Layout(old.dtype, inferred.shape, old.format, old.halo)
        results.append((inferred, layout))
    return _Inference(own, primitive, results)


def _node(
    rule: Rule,
    bindings: Bindings,
    made: dict[Value, Value],
    constants: dict[str, Value],
    like: _Inference | None,
    inferences: list[_Inference],
) -> Node:
    """Return the node of a member that *rule* makes; enter its results into *made*, what was inferred behind the rest.

    Args:
        constants: What nodes before it read that is computed from sizes, by the name of the built value.
        like: Of another node with the same rule.
    """
    if rule.before:
        bindings.bind(rule.before)
    node = rule.node
    inputs = [made[v] for v in node.inputs]
    for slot, name in rule.constants:
        if name not in constants:
            array = np.ascontiguousarray(bindings.array(name))
            array.flags.writeable = False
            constants[name] = Value(name, Layout.of(array), constant=array)
        inputs[slot] = constants[name]
    own = [v.layout for v in inputs[: node.arity]]
    inference = like if like is not None and like.own == own else _infer(rule, bindings, own)
    inferences.append(inference)
    outputs = []
    for value, known, (inferred, layout) in zip(node.outputs, rule.known, inference.results, strict=True):
        new = made[value] = Value(value.name, layout)
        outputs.append(new)
        if known is not None:
            bindings.values[known] = Value(known, inferred)
    return Node(
        node.name,
        inference.primitive,
        tuple(inputs),
        tuple(outputs),
        node.arity,
        node.fused,
        None,
        node.origin,
        node.annotation,
        node.placement,
        node.partitioned_by,
    )
