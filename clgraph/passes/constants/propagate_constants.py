"""Run the constant parts of the graph once and keep their results. Answers clDNN's propagate_constants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.core.mapped import release
from clgraph.core.progress import counted
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array
from clgraph.graph.program import Milestone, Program
from clgraph.passes.base import Context, Pass
from clgraph.passes.chosen import choice_of
from clgraph.passes.constants.constant_programs import BATCH_BYTES, batches, leaving, on_device, on_host
from clgraph.passes.packed_weights import PackedWeights, Recipe
from clgraph.passes.rewriting import constant_part


@frozen
class PropagateConstants(Pass):
    """Replace what depends on constants alone by data computed on the device; the raw constants are dropped.

    The constant nodes become programs of their own, which go through the memory passes and ``Context.execute``; a
    result that is not dense and plain comes back as the flat memory of its layout. Without ``execute`` (a dry run) the
    references compute them and ``core.packing.pack`` lays them out; a note says so. What another program of the model
    has computed already is taken from ``Context.packed``. Equal constants become one. Counts the nodes replaced and the
    constants merged.

    Attributes:
        batch_bytes: About how many bytes of results one such program holds on the device at once.
    """

    batch_bytes: int = BATCH_BYTES

    name: ClassVar[str] = "propagate_constants"
    required: ClassVar[bool] = True
    needs: ClassVar[Milestone] = Milestone.SELECTED

    def run(self, program: Program, context: Context) -> int:
        constant_nodes = constant_part(program)
        recipes = _recipes(constant_nodes, context.packed)
        wanted = leaving(constant_nodes, program)
        missing = [v for v in wanted if not _found(program, context.packed, v, recipes)]
        first = {recipes.get(v, v): v for v in reversed(missing)}
        needed = _needed(constant_nodes, first.values())
        count, parts = len(constant_nodes), list(batches(needed, self.batch_bytes))
        computed = set(needed)
        others = [node for node in constant_nodes if node not in computed]
        # The parts alone hold their nodes: weights that a batch has read are gone before the next takes memory.
        del constant_nodes, needed, computed
        for batch in counted("constants", parts, lambda part: f"{len(part)} nodes"):
            results = on_host(batch, program) if context.execute is None else on_device(batch, program, context)
            for value, data in results:
                kept = context.packed.remember(recipes.get(value), data)
                program.rewire(value, Value(value.name, value.layout, constant=kept))
            _leave(program, batch)
        for value in missing:
            _found(program, context.packed, value, recipes)
        notes = ["dry run: constants were computed by the references on the host"] if context.execute is None else []
        if shared := len(wanted) - len(missing):
            notes.append(f"{shared} of {len(wanted)} constants were there from another program of the model")
        if wanted and notes:
            program.notes[self.name] = "; ".join(notes)
        for node in reversed(others):
            program.erase(node)
        return count + share_equal_constants(program)

    def describe(self, kind: str) -> str:
        return "runs once, on the device, where everything it reads is constant"


def _recipes(nodes: Sequence[Node], packed: PackedWeights) -> dict[Value, Recipe]:
    """Return the recipes that identify results of *nodes* among the packed weights, if all inputs have recipes."""
    found: dict[Value, Recipe] = {}
    for node in nodes:
        read: list[tuple[Recipe, Layout]] = []
        for value in node.inputs:
            made = found.get(value) if value.constant is None else packed.recipe("as it is", [value.constant])
            if made is None:
                break
            read.append((made, value.layout))
        else:
            choice = choice_of(node)
            what = packed.made_of(node.primitive, node.fused, choice.implementation.name, node.placement, *read)
            found.update((v, packed.made_of(what, slot, v.layout)) for slot, v in enumerate(node.outputs))
    return found


def _found(program: Program, packed: PackedWeights, value: Value, recipes: Mapping[Value, Recipe]) -> bool:
    """Replace *value* by the constant that another program has made by the same recipe; say whether there is one."""
    found = packed.find(recipes.get(value))
    if found is not None and (value.uses or program.is_output(value)):
        program.rewire(value, Value(value.name, value.layout, constant=found))
    return found is not None


def _leave(program: Program, batch: list[Node]) -> None:
    """Erase the nodes of *batch*, whose results are known, and release the memory of the constants that they read."""
    read = dict.fromkeys(v for node in batch for v in node.inputs)
    for constant in (v.constant for v in read if v.constant is not None):
        release(constant)
    while batch:
        program.erase(batch.pop())


def _needed(nodes: Sequence[Node], results: Iterable[Value]) -> list[Node]:
    """Return those of *nodes* that *results* are computed by, in their order."""
    wanted = set(results)
    needed = []
    for node in reversed(nodes):
        if not wanted.isdisjoint(node.outputs):
            needed.append(node)
            wanted.update(node.inputs)
    return needed[::-1]


def share_equal_constants(program: Program) -> int:
    """Let readers of constants with equal layout and data read one of them; return how many went."""
    found: dict[tuple[Layout, bytes], list[tuple[Value, Array]]] = {}
    merged = 0
    for value in program.constants:
        if value.constant is None or program.is_output(value):
            continue
        flat = value.constant.reshape(-1)
        sample = flat[:: max(1, flat.size // 64)].tobytes()
        alike = found.setdefault((value.layout, sample), [])
        same = next((v for v, data in alike if data is value.constant or _same_bits(data, value.constant)), None)
        if same is None:
            alike.append((value, value.constant))
        else:
            program.rewire(value, same, uses=tuple(value.uses))
            program.merged[value.name] = same.name
            merged += 1
    return merged


def _same_bits(first: Array, second: Array) -> bool:
    """Whether both arrays have the same bits: -0 differs from 0, a NaN equals itself."""
    flat, other = (np.ascontiguousarray(a).reshape(-1).view(np.uint8) for a in (first, second))
    return np.array_equal(flat, other)
