"""The steps of a program's nodes, and the kernels and libraries that they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from clgraph.graph.node import Node
from clgraph.graph.program import Program
from clgraph.passes.chosen import choice_of
from clgraph.selector.libraries import run_in
from clgraph.selector.library import Library, compose
from clgraph.selector.plan import Launch, Step, Tile
from clgraph.selector.sources import kernel_text

StepsInLibraries = Sequence[tuple[Step, str]]


def steps_of(node: Node) -> list[Step]:
    """Return the steps of a node on a device that have anything to do."""
    choice = choice_of(node)
    if choice.in_place:
        return []
    return [s for s in choice.plan().steps if not _idle(s)]


def steps_in_libraries(nodes: Iterable[Node]) -> dict[Node, StepsInLibraries]:
    """Return the steps of *nodes*, by node, each with the library that it runs in: where it is no tile an empty text.

    The tiles of a placement are one sequence (:func:`clgraph.selector.libraries.run_in`), whatever lies between them.
    """
    found = [(node, steps_of(node)) for node in nodes]
    declared: dict[str | None, list[str]] = {}
    for node, steps in found:
        if steps:
            declared.setdefault(node.placement, []).extend([s.library for s in steps if isinstance(s, Tile)])
    libraries = {placement: iter(run_in(names)) for placement, names in declared.items()}
    return {
        node: [(step, next(libraries[node.placement]) if isinstance(step, Tile) else "") for step in steps]
        for node, steps in found
    }


def _idle(step: Step) -> bool:
    return not (step.tickets if isinstance(step, Tile) else all(step.grid) if isinstance(step, Launch) else True)


def launch_text(step: Launch) -> str:
    """Return the complete text of a kernel of its own."""
    return f"{step.jit}{kernel_text(step.source)}"


def kernel_texts(program: Program, placement: str) -> list[str]:
    """Return the texts of the kernels, not of libraries, that the plans of nodes on *placement* name, each once."""
    nodes = (node for node in program if node.placement == placement)
    return list(dict.fromkeys(launch_text(s) for node in nodes for s in steps_of(node) if isinstance(s, Launch)))


def texts(
    program: Program, placements: Mapping[str, Any], library_of: Callable[[str, int], Library] = compose
) -> dict[tuple[str, str], tuple[str, bool]]:
    """Return every kernel text that the plans name, as (what, is a library) by (placement, text).

    Args:
        library_of: Returns a library by name and SIMD width.
    """
    found: dict[tuple[str, str], tuple[str, bool]] = {}
    libraries: dict[tuple[str, str], Library] = {}
    for node, steps in steps_in_libraries(program).items():
        placement = node.placement or ""
        for step, name in steps if placement in placements else ():
            if isinstance(step, Launch):
                found[placement, launch_text(step)] = (f"{step.entry} ({step.source}) of {node.name!r}", False)
            elif name and (key := (placement, name)) not in libraries:
                library = libraries[key] = library_of(name, placements[placement].info.simd)
                found[placement, library.text] = (f"library {library.name}", True)
    return found
