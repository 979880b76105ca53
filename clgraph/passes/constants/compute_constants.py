"""Compute large constant subgraphs on the device, before passes test for constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

from clgraph.core.dtype import spelled
from clgraph.core.frozen import frozen
from clgraph.errors import UnsupportedError
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.passes.base import Context, Pass
from clgraph.passes.constants.constant_programs import batches, leaving, logical
from clgraph.passes.constants.copying import Copier
from clgraph.passes.manager import PassManager
from clgraph.passes.packed_weights import PackedWeights, Recipe
from clgraph.passes.rewriting import constant_part

COMPARED_BYTES = 1 << 19
"""Of a constant that is known by its data: exporters spell the places of each assignment to a slice out, of a row and a
column that are constants of their own, and what is made of these may be a hundred times larger."""


@frozen
class ComputeConstants(Pass):
    """Replace what depends on constants alone, and was too large to fold, by data.

    Such a weight (a product of two initialisers, one filled by ConstantOfShape) would count as a value that is made in
    every run: no kernel could ask for it in a format of its own, and none of the fast ones would be chosen. The nodes
    become programs that go through the required passes and run once. Without ``execute`` (a dry run) the references
    compute them. What cannot be computed alone stays for propagate_constants, and a note says why.

    Attributes:
        passes: Returns the passes of these programs.
    """

    passes: Callable[[], Sequence[Pass]]

    name: ClassVar[str] = "compute_constants"

    def run(self, program: Program, context: Context) -> int:
        nodes = constant_part(program)
        recipes = _recipes(nodes, context.packed)
        done = 0
        for batch in batches(nodes):
            wanted = leaving(batch, program)
            known = [context.packed.find(recipes[v]) for v in wanted]
            try:
                found = known if all(k is not None for k in known) else self._computed(batch, wanted, context)
            except UnsupportedError as error:
                program.notes[self.name] = f"some constants are computed later: {error}"
                continue
            for value, data in zip(wanted, found, strict=True):
                assert data is not None
                kept = context.packed.remember(recipes[value], data)
                program.rewire(value, Value(value.name, value.layout, constant=kept))
            for node in reversed(batch):
                program.erase(node)
            done += len(batch)
        return done

    def describe(self, kind: str) -> str:
        return "runs once, on the device, where everything it reads is constant"

    def _computed(self, batch: Sequence[Node], wanted: Sequence[Value], context: Context) -> list[Array]:
        if context.execute is None:
            return _by_references(batch, wanted)
        copier = Copier()
        nodes = [copier.node(node) for node in batch]
        part = Program([], [(str(i), copier.value(v)) for i, v in enumerate(wanted)], nodes)
        PassManager(self.passes()).run(part, replace(context, forced={}, budgets=None, packed=PackedWeights()))
        made = [value for _, value in part.outputs]
        if all(value.constant is not None for value in made):  # by propagate_constants: a run would copy them
            return [logical(value) for value in made]
        results = context.execute(part, {})
        return [results[str(i)] for i in range(len(wanted))]


def _recipes(nodes: Sequence[Node], packed: PackedWeights) -> dict[Value, Recipe | None]:
    """Return what the results of *nodes* are known by: what computes them, of which constants."""
    found: dict[Value, Recipe | None] = {}
    for node in nodes:
        read = tuple(found[v] if v.constant is None else _recipe(v.constant, packed) for v in node.inputs)
        recipe = None if None in read else packed.made_of(node.primitive, node.fused, *read)
        found.update((v, recipe and packed.made_of(recipe, slot)) for slot, v in enumerate(node.outputs))
    return found


def _recipe(constant: Array, packed: PackedWeights) -> Recipe | None:
    """Return what *constant* is known by: a short one, of which a model may hold many that are equal, by its data."""
    if constant.nbytes <= COMPARED_BYTES:
        import hashlib  # loads OpenSSL

        data = hashlib.sha256(constant.tobytes()).digest()
        return packed.made_of("data", spelled(constant.dtype), constant.shape, data)
    return packed.recipe("as it is", [constant])


def _by_references(batch: Sequence[Node], wanted: Sequence[Value]) -> list[Array]:
    known: dict[Value, Array] = {}
    for node in batch:
        inputs = [known[v] if v.constant is None else v.constant for v in node.inputs]
        known.update(zip(node.outputs, node.reference(*inputs), strict=True))
    return [known[v] for v in wanted]
