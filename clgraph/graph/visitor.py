"""Dispatch by kind of primitive, with a default: what a backend's visitor of operators is in ONNC."""

from __future__ import annotations

from typing import Generic, TypeVar

from clgraph.errors import UnsupportedError
from clgraph.graph.node import Node
from clgraph.graph.program import Program

R = TypeVar("R")


class Visitor(Generic[R]):
    """Calls ``visit_<kind>(node)`` where a subclass has it, else :meth:`visit_default`."""

    def visit(self, node: Node) -> R:
        """Return what the method for the kind of *node* returns."""
        method = getattr(self, f"visit_{node.primitive.kind}", self.visit_default)
        result: R = method(node)
        return result

    def visit_default(self, node: Node) -> R:
        """Handle every kind without a method of its own.

        Raises:
            UnsupportedError: Unless a subclass says otherwise.
        """
        name, kind = type(self).__name__, node.primitive.kind
        raise UnsupportedError(f"node {node.name!r}: {name} handles no {kind}; write visit_{kind} or visit_default")

    def visit_all(self, program: Program) -> list[R]:
        """Visit every node in the order of execution."""
        return [self.visit(node) for node in program]
