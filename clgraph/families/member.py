"""The nodes of a member: those of the representative's program, with the member's attributes and shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout, Shape
from clgraph.families.cone import Bindings, Expansion, beginning
from clgraph.families.rules import Guards, Rule, check_expansion
from clgraph.families.taken import Taken
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array, Primitive
from clgraph.graph.program import Program

_Named = tuple[tuple[int, str, DType], ...]
"""The results of a node, by number, that have the name of a built value, which has that element type."""


@dataclass(frozen=True)
class MemberRecipe:
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

    @cached_property
    def _named(self) -> tuple[_Named, ...]:
        """For each node the results, by number, that have the name of a built value."""
        return tuple(tuple((i, *found) for i, found in enumerate(r.known) if found is not None) for r in self.rules)

    @cached_property
    def _expansions(self) -> Mapping[str, Expansion]:
        return dict(self.guards.expansions)

    @cached_property
    def _asked(self) -> tuple[_Named, ...]:
        """Those of them whose layouts layers, rules or guards ask for: of a hundred nodes two or three."""
        asked = {name for rule in self.rules for layer in rule.before for name in layer.inputs}
        asked |= {rule.shape_of for rule in self.rules if rule.shape_of is not None}
        asked |= {name for rule in self.rules for _, name in rule.constants} | self.guards.asked
        return tuple(tuple(found for found in named if found[1] in asked) for named in self._named)

    def member(
        self, shapes: Sequence[Shape], known: Mapping[str, Array], *, all_names: bool = False
    ) -> tuple[Program, Bindings]:
        """Return the program of a member, in which nothing shares memory yet and nothing is chosen.

        Values have the formats and halos of the representative's.

        Args:
            shapes: Of the inputs.
            known: What inputs hold whose values decide sizes.
            all_names: Return the layouts of all results that have the name of a built value, not of those asked for.

        Raises:
            BindingError: The member differs in more than sizes.
            ShapeError: An operator does not fit its inputs.
        """
        fed = [Value(v.name, Layout(v.layout.dtype, s)) for v, s in zip(self.program.inputs, shapes, strict=True)]
        bindings = beginning(((v.name, v.layout) for v in fed), self.constants, known)
        made: dict[Value, Value] = dict(zip(self.program.inputs, fed, strict=True))
        made |= {v: Value(v.name, layout, constant=v.constant) for v, layout in self._constants}
        nodes: list[Node] = []
        inferences: list[_Inference] = []
        constants: dict[tuple[str, DType], Value] = {}
        named = self._named if all_names else self._asked
        for rule, like, names in zip(self.rules, self._likes, named, strict=True):
            if rule.before:
                bindings.bind(rule.before)
                self._check_expansions(rule, bindings)
            node = rule.node
            inputs = [made[v] for v in node.inputs]
            for slot, name in rule.constants:
                key = name, node.inputs[slot].layout.dtype
                if key not in constants:
                    constants[key] = _constant(*key, bindings)
                inputs[slot] = constants[key]
            own = [v.layout for v in inputs]
            if len(own) > node.arity:
                del own[node.arity :]
            found = None if like is None else inferences[like]
            if found is None or found[0] != own:
                found = _infer(rule, bindings, own)
            inferences.append(found)
            _, primitive, inferred, layouts = found
            outputs = tuple([Value(v.name, layout) for v, layout in zip(node.outputs, layouts, strict=True)])
            made.update(zip(node.outputs, outputs, strict=True))
            for number, name, dtype in names:
                layout = inferred[number]
                bindings.values[name] = Value(name, layout if layout.dtype is dtype else Layout(dtype, layout.shape))
            nodes.append(
                Node(
                    node.name,
                    primitive,
                    tuple(inputs),
                    outputs,
                    node.arity,
                    node.fused,
                    None,
                    node.origin,
                    node.annotation,
                    node.placement,
                    node.partitioned_by,
                )
            )
        self.guards.check(bindings)
        sized = dict(self.guards.results)
        results = [
            (name, _constant(sized[name], v.layout.dtype, bindings) if name in sized else made[v])
            for name, v in self.program.outputs
        ]
        return Program(fed, results, nodes), bindings

    def _check_expansions(self, rule: Rule, bindings: Bindings) -> None:
        """Raise ``BindingError`` where other operators stand for a layer that *rule* has bound.

        Nodes infer nothing before: one that takes other operands may fail on those that it is given.
        """
        for layer in rule.before:
            if (wanted := self._expansions.get(layer.name)) is not None:
                check_expansion(layer.name, bindings.expansions[layer.name], wanted)


_Inference = tuple[list[Layout], Primitive, tuple[Layout, ...], list[Layout]]
"""What was inferred of a node: its own inputs' layouts, its primitive, its results' layouts, plain and as they are."""


def _infer(rule: Rule, bindings: Bindings, own: list[Layout]) -> _Inference:
    """Return what follows from the layouts of a node's inputs; results have the representative's types and formats."""
    primitive = rule.primitive(bindings, own)
    inferred, layouts = primitive.infer(own), []
    for value, layout in zip(rule.node.outputs, inferred, strict=True):
        old = value.layout
        if old.halo or old.dtype is not layout.dtype or old.format is not layout.format:
            layouts.append(Layout(old.dtype, layout.shape, old.format, old.halo))
        else:
            layouts.append(layout)
    return own, primitive, inferred, layouts


def _constant(name: str, dtype: DType, bindings: Bindings) -> Value:
    """Return the constant of the built value *name*, which is computed from sizes, as elements of *dtype*.

    What passes compute in float32 in place of a narrower type is not rounded to that on the way.
    """
    narrower = bindings.dtype(name).itemsize < dtype.itemsize
    # ascontiguousarray would give a scalar an axis.
    array = np.array(bindings.widened(name) if narrower else bindings.array(name), dtype.numpy, order="C")
    array.flags.writeable = False
    return Value(name, Layout.of(array), constant=array)
