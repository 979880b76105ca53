"""Composite operators, which are replaced by layers of other operators once the shapes of their inputs are known."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence

from clgraph.core.layout import Layout
from clgraph.graph.interpret import interpret
from clgraph.graph.primitive import Array, Primitive
from clgraph.graph.topology import Inlinable, Topology


class Composition:
    """A topology that is written layer by layer, with the layouts of all its values at hand.

    Attributes:
        topology: What has been written.
        inputs: The names of the inputs, in the order of their layouts.
        values: What is known of the inputs' elements.
    """

    def __init__(self, inputs: Sequence[Layout], values: Sequence[Array | None] = ()) -> None:
        """Declare the inputs, and what is known of their elements."""
        self.topology = Topology()
        self.values = tuple(values)
        self._layouts: dict[str, Layout] = {}
        self._values: dict[str, Array] = {}
        self._count = Counter[str]()
        self.inputs = tuple(f"input{i}" for i in range(len(inputs)))
        for i, (name, layout) in enumerate(zip(self.inputs, inputs, strict=True)):
            self.topology.input(name, layout.shape, layout.dtype)
            self._layouts[name] = layout
            if i < len(values) and (value := values[i]) is not None:
                self._values[name] = value

    def layout(self, name: str) -> Layout:
        """Return the layout of a value."""
        return self._layouts[name]

    def constant(self, array: Array) -> str:
        """Add data; return its name."""
        self._count["constant"] += 1
        name = self.topology.constant(f"constant{self._count['constant']}", array)
        self._layouts[name], self._values[name] = Layout.of(array), array
        return name

    def add(self, primitive: Primitive, *inputs: str) -> str:
        """Add a layer of one result; return its name. Raises as the primitive's ``bind`` and ``infer``."""
        return self.add_all(primitive, *inputs)[0]

    def add_all(self, primitive: Primitive, *inputs: str) -> tuple[str, ...]:
        """Add a layer; return the names of its results."""
        layouts = [self._layouts[n] for n in inputs]
        bound = primitive.bind(layouts, [self._values.get(n) for n in inputs])
        results = bound.primitive.infer([layouts[i] for i in bound.keep])
        self._count[primitive.kind] += 1
        name = f"{primitive.kind}{self._count[primitive.kind]}"
        names = (name, *(f"{name}:{i}" for i in range(1, len(results))))
        self.topology.add(name, primitive, *inputs, outputs=names)
        self._layouts.update(zip(names, results, strict=True))
        return names

    def finish(self, *outputs: str) -> Topology:
        """Make *outputs* the results; return the topology."""
        for i, name in enumerate(outputs):
            self.topology.output(f"output{i}", name)
        return self.topology


class Composite(Inlinable):
    """Base of primitives that are written in terms of others when shapes are bound, and leave no node of their own."""

    __slots__ = ()

    @abstractmethod
    def compose(self, c: Composition) -> Sequence[str]:
        """Write the layers; return the names of the results.

        Raises:
            ShapeError: The inputs do not fit.
            UnknownValueError: A value that must be known is not.
        """

    def inline(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Topology:
        """Return the layers that replace the primitive."""
        c = Composition(inputs, values)
        return c.finish(*self.compose(c))

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        """Return the output layouts."""
        c = Composition(inputs)
        return tuple(c.layout(name) for name in self.compose(c))

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Compute the outputs by the references of what stands for the primitive."""
        body = self.inline([Layout.of(a) for a in inputs], inputs)
        results = interpret(body, dict(zip(body.inputs, inputs, strict=True)))
        return tuple(results[name] for name, _ in body.outputs)
