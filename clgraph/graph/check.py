"""The invariants of a program, checked after every pass under test and with ``verify`` on."""

from __future__ import annotations

from clgraph.core.aligned import ALIGNMENT
from clgraph.errors import ProgramError
from clgraph.graph.buffer import Buffer
from clgraph.graph.node import Node, Value
from clgraph.graph.program import Milestone, Program


def check(program: Program) -> None:
    """Raise ``ProgramError`` unless everything that ``program.milestone`` promises holds.

    Edges symmetric, acyclic and in order, names unique, layouts what the primitives infer, outputs kept, provenance
    present; from PLACED on placements, from SELECTED on implementations, at PLANNED memory and subgraphs. At any
    milestone, what runs nothing shares one buffer with what it reads: nobody else writes its results; and values lie at
    multiples of their elements' size in buffers, and at 0 before they have any.
    """
    made = {id(v) for v in program.inputs}
    names: set[str] = set()
    for node in program:
        if node.name in names:
            raise ProgramError(f"two nodes are called {node.name}")
        names.add(node.name)
        _check_edges(node, made)
        _check_node(node, program.milestone)
        made |= {id(v) for v in node.outputs}
    for name, value in program.outputs:
        if id(value) not in made and value.constant is None:
            raise ProgramError(f"output {name!r} reads {value.name}, which nothing in the program makes")
    for value in program.values:
        if value.offset % value.layout.dtype.itemsize or (value.offset and value.buffer is None):
            raise ProgramError(f"{value.name} lies {value.offset} bytes behind the beginning of {value.buffer}")
        for node, slot in value.uses:
            if node not in program or slot >= len(node.inputs) or node.inputs[slot] is not value:
                raise ProgramError(f"{value.name} lists {node.name} as a reader, which does not read it")
    if program.milestone >= Milestone.PLANNED:
        scratch = [b for node in program for b in node.scratch]
        for buffer in dict.fromkeys([*(v.buffer for v in program.values if v.constant is None), *scratch]):
            _check_buffer(program, buffer)
    _check_subgraphs(program)


def _check_buffer(program: Program, buffer: Buffer | None) -> None:
    """Check that *buffer* lies where kernels expect it in the memory that a run has."""
    if buffer is None or buffer.offset is None or (arena := program.arenas.get(buffer.placement)) is None:
        return
    if buffer.offset % ALIGNMENT or not 0 <= buffer.offset <= arena.nbytes - buffer.nbytes:
        raise ProgramError(f"{buffer} lies outside of {arena} of {buffer.placement}, or at no multiple of {ALIGNMENT}")


def _check_subgraphs(program: Program) -> None:
    """Check that the subgraphs of a planned *program* hold its nodes, in order and where they are placed."""
    held = [(node, subgraph.placement) for subgraph in program.subgraphs for node in subgraph.nodes]
    if program.milestone >= Milestone.PLANNED and held != [(node, node.placement) for node in program]:
        listed = ", ".join(s.id for s in program.subgraphs)
        raise ProgramError(
            f"the subgraphs {listed} do not hold the program's nodes: it has changed since it was planned"
        )


def _check_edges(node: Node, made: set[int]) -> None:
    for slot, value in enumerate(node.inputs):
        if not value.is_read_by(node, slot):
            raise ProgramError(f"{node.name}: input {slot} ({value.name}) does not list it as a reader")
        if value.constant is None and id(value) not in made:
            raise ProgramError(f"{node.name} reads {value.name} before it is made")
    for value in node.outputs:
        if value.producer is not node:
            raise ProgramError(f"{node.name} makes {value.name}, which names another producer")


def _check_node(node: Node, milestone: Milestone) -> None:
    if not node.origin:
        raise ProgramError(f"{node.name} has lost its provenance")
    for step in node.fused:
        if any(not node.arity <= i < len(node.inputs) for i in step.operands):
            raise ProgramError(f"{node.name}: {step.primitive} reads inputs {step.operands} that are not operands")
    inferred = node.primitive.infer([v.layout for v in node.inputs[: node.arity]])
    for value, layout in zip(node.outputs, inferred, strict=True):
        if value.layout.shape != layout.shape or (not node.fused and value.layout.dtype != layout.dtype):
            raise ProgramError(f"{node.name}: {value.name} is {value.layout}, but {node.primitive} makes {layout}")
    if milestone >= Milestone.PLACED and node.placement is None:
        raise ProgramError(f"{node.name} has no placement at milestone {milestone.name}")
    if milestone >= Milestone.SELECTED and node.choice is None:
        raise ProgramError(f"{node.name} has no implementation at milestone {milestone.name}")
    if node.in_place:
        _check_in_place(node)
    if milestone >= Milestone.PLANNED:
        for value in (*node.inputs, *node.outputs):
            _check_place(node, value)


def _check_in_place(node: Node) -> None:
    """Check that the results of *node*, which runs nothing, lie where what it reads is written in every run."""
    buffers = {id(v.buffer) for v in (*node.inputs, *node.outputs)}
    if len(buffers) > 1 or node.output.buffer is None:
        values = ", ".join(f"{v.name} in {v.buffer}" for v in (*node.inputs, *node.outputs))
        raise ProgramError(f"{node.name} runs nothing, but its values do not lie in one buffer: {values}")
    if fixed := next((v for v in node.inputs if v.constant is not None), None):
        raise ProgramError(f"{node.name} runs nothing, but {fixed.name} is a constant, which no run writes")


def _check_place(node: Node, value: Value) -> None:
    if value.constant is not None:
        return
    if value.buffer is None or value.buffer.offset is None:
        raise ProgramError(f"{node.name}: {value.name} has no place in memory")
    if not 0 <= value.offset <= value.buffer.nbytes - value.layout.nbytes:
        raise ProgramError(
            f"{node.name}: {value.name}, {value.layout.nbytes} bytes at {value.offset}, lies outside of {value.buffer}"
        )
