"""What sizes decide in a built program: elements of values, and attributes of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clgraph.core.dtype import DType
from clgraph.core.layout import Shape
from clgraph.errors import BindingError
from clgraph.families.built import Built
from clgraph.families.cone import Cone
from clgraph.graph.layer import Layer
from clgraph.graph.node import Value
from clgraph.graph.primitive import Array, Primitive
from clgraph.graph.program import Program


class Dependence:
    """Says which elements and attributes of a built program are others for other input sizes.

    Attributes:
        computed: Names of the results of built nodes that depend on constants alone.
        data: Names of the results of the other built nodes.
        decided: Names of the constants, and of the *computed* results, whose elements sizes decide.
    """

    def __init__(
        self, program: Program, built: Built, others: Sequence[Built], cone: Cone, deciding: Sequence[str]
    ) -> None:
        """Take the final *program* of what was *built*, and the rest as :func:`~clgraph.families.finder.rules_of`."""
        self._program, self._converted = program, program.converted
        self._built, self._others, self._cone, self._deciding = built, others, cone, deciding
        self._makers = {value: name for name, node in built.nodes.items() for value in node.outputs}
        self._sized = {id(a): name for name, a in built.constants.items() if self.depends(name)}
        self._known_sized = set(self._sized.values())
        self.computed = _computed(built)
        self.data = self._makers.keys() - self.computed
        self._computed_from_sizes = {name for name in self.computed if self.depends(name)}
        sized = {name for name, array in built.constants.items() if id(array) in self._sized}
        self.decided = sized | self._computed_from_sizes

    def depends(self, value: str) -> bool:
        """Whether sizes decide the elements of *value*, a constant or computed from constants alone.

        What is made where a layer was inlined may be the same for all that were built, and another for a member; where
        the layer holds no sizes, it is compared.
        """
        waiting, seen = [value], {value}
        while waiting:
            name = waiting.pop()
            node = self._makers.get(name)
            if node is None:
                made = name in self._built.constants and self._cone.may_size(name)
                if made or self._cone.depends(name, self._deciding) or self._varies(name):
                    return True
                continue
            if any(o.nodes[node].primitive != self._built.nodes[node].primitive for o in self._others):
                return True
            fresh = [name for name in self._built.nodes[node].inputs if name not in seen]
            seen.update(fresh)
            waiting += fresh
        return False

    def takes_sizes(self, node: str, primitive: Primitive, layer: Layer) -> bool:
        """Whether attributes of a built node of *layer* may depend on sizes in another way than by holding them."""
        if layer.name != node:
            return primitive.holds_sizes or (layer.primitive.takes_sizes() and not layer.primitive.holds_sizes)
        return self._takes_values(layer) or (layer.primitive.takes_sizes() and not primitive.holds_sizes)

    def is_free(self, node: str, layer: Layer) -> bool:
        """Whether attributes of a built node of *layer*, of its name or inside of it, depend on no sizes."""
        if layer.primitive.takes_sizes() or self._takes_values(layer, node):
            return False
        primitive = self._built.nodes[node].primitive
        same = all(o.nodes[node].primitive == primitive for o in self._others)
        return layer.name == node or (same and not primitive.holds_sizes)

    def results(self) -> Iterator[tuple[str, str]]:
        """Yield results that are known, where sizes decide them, with the names of the built values that they are."""
        for result, value in self._program.outputs:
            if value.constant is None:
                continue
            name, known = self._built.results[result]
            others = [o.results[result][1] for o in self._others]
            same = known is not None and all(o is not None and _same(o, known) for o in others)
            if self.depends(name) if known is None else not same or self._cone.depends(name, self._deciding):
                yield result, name

    def fixed_shapes(self) -> dict[str, Shape]:
        """Return the shapes of the constants that sizes do not decide, by name."""
        return {name: a.shape for name, a in self._built.constants.items() if name not in self._known_sized}

    def name_of(self, value: Value) -> str | None:
        """Return the name of the built value that a constant is, perhaps in another type, where sizes decide it."""
        name, source = self._sized.get(id(value.constant)), value.name
        while source in self._converted:
            source = self._converted[source]
        converted = source != value.name
        if name is None and (source in self._computed_from_sizes or (converted and source in self._known_sized)):
            name = source
            known = self._built.constants.get(name)
            shape = self._built.shapes[name] if known is None else known.shape
            if not value.layout.is_dense_plain or value.layout.shape != shape:
                raise BindingError(f"the constant {name!r} depends on sizes, and was transformed")
            if not _computed_alike(self._built.dtypes[name], value.layout.dtype):
                raise BindingError(f"the constant {name!r} depends on sizes, and was made {value.layout.dtype}")
        return name

    def read(self) -> set[str]:
        """Return the names of what nodes read that do not depend on constants alone."""
        nodes = self._built.nodes.values()
        return {name for node in nodes if self.computed.isdisjoint(node.outputs) for name in node.inputs}

    def _takes_values(self, layer: Layer, node: str = "") -> bool:
        """Whether a value that sizes decide became an attribute of the node of *layer*, or of *node* inside of it."""
        kept = self._built.nodes[layer.name].inputs if node in ("", layer.name) else ()
        known = [name for name in layer.inputs if name not in self.data and name not in kept]
        return any(self._cone.depends(name, self._deciding) for name in known)

    def _varies(self, constant: str) -> bool:
        array = self._built.constants.get(constant)
        others = [o.constants.get(constant) for o in self._others]
        return array is not None and any(o is None or not _same(o, array) for o in others)


def _computed_alike(built: DType, now: DType) -> bool:
    """Whether constants of one type may be computed in the other: floats in floats."""
    return built == now or (built.floating and now.floating)


def _same(one: Array, other: Array) -> bool:
    return one is other or (one.shape == other.shape and one.tobytes() == other.tobytes())


def _computed(built: Built) -> set[str]:
    """Return the results of built nodes that depend on constants alone."""
    found: set[str] = set()
    for node in built.nodes.values():
        if all(name in built.constants or name in found for name in node.inputs):
            found.update(node.outputs)
    return found
