"""Insert the reorders and transforms of constants that kernels declare. Answers clDNN's post_optimize_weights."""

from __future__ import annotations

from typing import ClassVar

from clgraph.core.format import Format
from clgraph.core.packing import pack, unpack
from clgraph.errors import UnsupportedError
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array, Primitive
from clgraph.graph.program import Milestone, Program
from clgraph.ops.reorder import Reorder
from clgraph.passes.base import Context, Pass
from clgraph.passes.chosen import choice_of
from clgraph.passes.selection import select, unserved
from clgraph.selector.implementation import IMPLEMENTATIONS, overrides


class PostOptimizeWeights(Pass):
    """Insert a reorder behind every constant that an implementation declares in another format, or a transform.

    Readers that ask for the same of the same constant share one node, except across placements and different
    annotations. A node whose constant has been transformed becomes the primitive that reads the result.
    propagate_constants runs what was inserted and keeps the results only. What the device of the node refuses is
    computed at once by its reference, which ``Program.notes`` says with the reason. Counts the inputs rewired.
    """

    name: ClassVar[str] = "post_optimize_weights"
    required: ClassVar[bool] = True
    needs: ClassVar[Milestone] = Milestone.SELECTED

    def run(self, program: Program, context: Context) -> int:
        made: dict[tuple[Value, Format | Primitive, str | None, str | None], Value] = {}
        changes, notes = 0, list[str]()
        for node in program:
            choice = choice_of(node)
            primitive = node.primitive
            for slot, wanted in choice.implementation.weights(choice.query).items():
                value = node.inputs[slot]
                if value.constant is None or value.layout.format == wanted:
                    continue
                key = (value, wanted, node.placement, node.annotation)
                if key not in made:
                    inserted = wanted if isinstance(wanted, Primitive) else Reorder(value.layout.dtype, wanted)
                    made[key] = _result(program, context, program.insert(inserted, [value], sources=[node]), notes)
                program.rewire(value, made[key], uses=((node, slot),))
                changes += 1
                if isinstance(wanted, Primitive):
                    primitive = choice.implementation.transformed(choice.query)
            node.primitive = primitive
            node.choice = choice.with_query(context.query(node))
        self.note(program, notes)
        return changes

    def describe(self, kind: str) -> str:
        asks = any(overrides(i, "weights") for i in IMPLEMENTATIONS.of(kind))
        return "its constants are packed as its implementations ask" if asks else "asks for no packed weights"


def _result(program: Program, context: Context, node: Node, notes: list[str]) -> Value:
    """Return the result of *node*, which reads a constant: its device's, or a constant where its device refuses it.

    Raises:
        UnsupportedError: There is no reference either, or a kernel was forced.
    """
    try:
        node.choice = select(context, node)
    except UnsupportedError as error:
        if node.name in context.forced or not node.primitive.has_reference:
            raise
        notes.append(f"{node.name} is computed on the host: {unserved(context, node, context.query(node)) or error}")
        program.erase(node)
        (source,), result = node.inputs, node.output
        assert source.constant is not None
        data = source.constant
        what = ("reference", node.primitive, source.layout, result.layout)
        packed = context.packed.once(what, [data], lambda: _computed(node, data))
        return Value(result.name, result.layout, constant=packed)
    return node.output


def _computed(node: Node, data: Array) -> Array:
    source, result = node.inputs[0].layout, node.output.layout
    (array,) = node.reference(data if source.is_dense_plain else unpack(data, source))
    return array if result.is_dense_plain else pack(array, result)
