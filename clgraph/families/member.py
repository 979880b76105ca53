"""The nodes of a member: those of the representative's program, with the member's attributes and shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from clgraph.core.layout import Layout, Shape
from clgraph.families.cone import Bindings, beginning
from clgraph.families.rules import Guards, Rule
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array
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
        nodes = [_node(rule, bindings, made) for rule in self.rules]
        self.guards.check(bindings)
        outputs = [(name, made.get(v) or _constant(v)) for name, v in self.program.outputs]
        return Program(inputs, outputs, nodes), bindings


def _node(rule: Rule, bindings: Bindings, made: dict[Value, Value]) -> Node:
    """Return the node of a member that *rule* makes, and enter its results into *made*."""
    if rule.before:
        bindings.bind(rule.before)
    node = rule.node
    inputs = [made.get(v) or _constant(v) for v in node.inputs]
    for slot, name in rule.constants:
        array = np.ascontiguousarray(bindings.array(name))
        array.flags.writeable = False
        inputs[slot] = Value(node.inputs[slot].name, Layout.of(array), constant=array)
    layouts = [v.layout for v in inputs[: node.arity]]
    primitive = rule.primitive(bindings, layouts)
    outputs = []
    for value, known, inferred in zip(node.outputs, rule.known, primitive.infer(layouts), strict=True):
        old, layout = value.layout, inferred
        if old.halo or old.dtype is not inferred.dtype or old.format is not inferred.format:
            layout = Layout(old.dtype, inferred.shape, old.format, old.halo)
        new = made[value] = Value(value.name, layout)
        outputs.append(new)
        if known is not None:
            bindings.values[known] = Value(known, inferred)
    return Node(
        node.name,
        primitive,
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


def _constant(value: Value) -> Value:
    """Return a constant of the representative for another program."""
    return Value(value.name, value.layout, constant=value.constant)
