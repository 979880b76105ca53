"""What a member takes over from a node of the representative, as it is asked about for every member: found once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from clgraph.core.frozen import frozen
from clgraph.families.rules import Rule
from clgraph.graph.node import Node
from clgraph.passes.chosen import choice_of
from clgraph.selector.choose import Choice
from clgraph.selector.implementation import Implementation, overrides
from clgraph.selector.query import DeviceInfo, Query


@frozen
class Taken:
    """A rule, with the implementation that the representative has for the node.

    Attributes:
        in_place: Whether nothing runs, because the results lie in the memory of the inputs.
        reads_zeros: Whether the implementation reads zeros around its inputs.
        asks_weights: Whether it asks for constants in formats of its own.
        problem: What that was chosen for, as members ask: weights that nodes had packed were no constants then.
    """

    rule: Rule
    choice: Choice
    problem: Query[Any]
    implementation: type[Implementation[Any]]
    in_place: bool
    reads_zeros: bool
    asks_weights: bool

    @staticmethod
    def of(rule: Rule) -> Taken:
        """Return what members take over from the node of *rule*, which has been chosen for."""
        choice = choice_of(rule.node)
        found = choice.implementation
        runs = not choice.in_place
        reads_zeros, asks_weights = runs and overrides(found, "halo"), runs and overrides(found, "weights")
        problem = replace(choice.query, constant=rule.constant)
        return Taken(rule, choice, problem, found, not runs, reads_zeros, asks_weights)

    def query(self, node: Node, device: DeviceInfo) -> Query[Any]:
        """Return the problem of a member's *node*: the very one that the representative has, where it is equal."""
        made = self.rule.query(node, device)
        return self.choice.query if not self.in_place and made == self.problem else made

    @property
    def node(self) -> Node:
        """The representative's node."""
        return self.rule.node
