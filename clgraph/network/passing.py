"""Inputs that no kernel reads: unused ones, and those that are results unchanged."""

from __future__ import annotations

from clgraph.graph.node import Value
from clgraph.graph.program import Program
from clgraph.network.borrowing import views_of


def unread(program: Program) -> set[Value]:
    """Return the inputs of *program* that neither a node nor an output uses."""
    return {v for v in program.inputs if not v.readers and not program.is_output(v)}


def passed_on(program: Program) -> dict[Value, Value]:
    """Return the input of each result of *program* that has just its bytes; nothing else is made of these inputs."""
    found: dict[Value, Value] = {}
    for value in program.inputs:
        views = views_of(value)
        if not all(_runs_nothing(program, view, value) for view in views):
            continue
        found.update((view, value) for view in views if program.is_output(view))
    return found


def _runs_nothing(program: Program, view: Value, value: Value) -> bool:
    """Whether *view* has the elements of *value*, and is a result or what nodes that run nothing make one of."""
    if not (view.readers or program.is_output(view)):
        return False
    found, given = view.layout, value.layout
    alike = (found.dtype, found.nbytes) == (given.dtype, given.nbytes)
    return alike and all(node.in_place for node in view.readers)
