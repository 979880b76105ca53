"""Topologies, written by a user or a front end: named primitives and edges, with shapes possibly open."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout, Shape
from clgraph.errors import InputError, ModelError, UnknownValueError
from clgraph.graph.about import NOWHERE, About
from clgraph.graph.fed_indices import FedIndices, fed_indices
from clgraph.graph.host_types import describe_constant
from clgraph.graph.known_values import make_known
from clgraph.graph.layer import Layer, enter, refuse
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import EVALUATED_ELEMENTS, Array, Primitive
from clgraph.graph.program import Program
from clgraph.graph.random_numbers import RANDOM_KEY
from clgraph.graph.shapes_by_name import by_name
from clgraph.graph.signature import Dimension, Signature


@dataclass(eq=False)
class Topology:
    """Inputs, constants, layers in execution order, and outputs.

    ``declared`` holds what a model file says about its outputs, ``metadata`` what its author wrote beside the graph,
    ``about`` what it says of itself, ``op_types`` the ONNX operator type of each node by the name that layers have it
    in their origin. By the names of their nodes, ``expanded`` holds the operators that were read by the functions of
    their schemas, ``noted`` what importers say of data that they read otherwise than it is written. ``overridable`` are
    constants that may be fed, ``deciding`` those that decide what layers there are. A stage of another has a ``label``;
    one of a file that has some of its data in other files is ``scattered``, and one whose loops stand in it as layers
    ``unrolled``.
    """

    inputs: dict[str, Signature] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    layers: list[Layer] = field(default_factory=list)
    outputs: list[tuple[str, str]] = field(default_factory=list)
    declared: dict[str, Signature] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    about: About = NOWHERE
    overridable: dict[str, Signature] = field(default_factory=dict)
    deciding: frozenset[str] = frozenset()
    op_types: dict[str, str] = field(default_factory=dict)
    expanded: dict[str, str] = field(default_factory=dict)
    noted: dict[str, str] = field(default_factory=dict)
    label: str = ""
    scattered: bool = False
    unrolled: bool = False
    _names: set[str] | None = field(default=None, init=False, repr=False)

    def input(
        self, name: str, shape: Sequence[Dimension] | None, dtype: object = np.float32, *, sparse: bool = False
    ) -> str:
        """Declare an input; a dimension may be a name or ``None``, and so may the whole shape. Returns *name*.

        The *dtype* ``None`` of what a body reads stays open until it is run; ``tensor(string)``, say, is a host type.
        """
        self._claim(name)
        host_type = dtype if isinstance(dtype, str) and dtype.endswith(")") else ""
        known = dtype if dtype is None or isinstance(dtype, DType) else None if host_type else DType.of(dtype)
        self.inputs[name] = Signature(name, known, None if shape is None else tuple(shape), host_type, sparse)
        return name

    @property
    def names(self) -> set[str]:
        """What inputs, constants and layers make, each under a name of its own."""
        if self._names is None:
            self._names = {*self.inputs, *self.constants, *(name for layer in self.layers for name in layer.outputs)}
        return self._names

    @property
    def fed(self) -> dict[str, Signature]:
        """The inputs that a caller feeds: all except the key of random numbers, which every run draws itself."""
        return {name: signature for name, signature in self.inputs.items() if name != RANDOM_KEY}

    @property
    def keeps_keys(self) -> bool:
        """Whether a layer takes past keys and values, or joins an input with something as an output, as caches do.

        A layer that bodies stand for does what one of them does.
        """
        made = {value for _, value in self.outputs}
        return any(s.stacks_keys for s in self.inputs.values()) or any(
            x.primitive.keeps_keys
            or (isinstance(x.primitive, Inlinable) and x.primitive.keeps_keys_inside)
            or (x.primitive.kind == "concat" and x.inputs[0] in self.inputs and x.outputs[0] in made)
            for x in self.layers
        )

    @property
    def indices(self) -> tuple[FedIndices, ...]:
        """The inputs whose elements are indices into constants, in layers that an output needs."""
        return fed_indices(self.inputs, self.constants, self.needed())

    @property
    def unread(self) -> frozenset[str]:
        """The inputs that neither an output nor a layer which an output needs reads."""
        read = {value for _, value in self.outputs}.union(*(layer.inputs for layer in self.needed()))
        return frozenset(name for name in self.inputs if name not in read)

    def constant(self, name: str, array: Array) -> str:
        """Add data under *name* (kept as it is, not copied). Returns *name*."""
        self._claim(name)
        self.constants[name] = array
        return name

    def add(
        self,
        name: str,
        primitive: Primitive,
        *inputs: str,
        outputs: Sequence[str] = (),
        origin: Sequence[str] = (),
        annotation: str | None = None,
    ) -> str:
        """Add a layer; the first output is called *name* unless *outputs* says otherwise. Returns the first output.

        Raises:
            ModelError: An input is made by no earlier layer, or a name is taken.
        """
        for source in inputs:
            if source not in self.names:
                raise ModelError(f"layer {name!r} reads {source!r}, which no input, constant or earlier layer makes")
        names = tuple(outputs) or (name,)
        for made in names:
            self._claim(made)
        self.layers.append(Layer(name, primitive, inputs, names, tuple(origin) or (name,), annotation))
        return names[0]

    def output(self, name: str, value: str | None = None) -> None:
        """Make *value* (the value called *name* when not given) a result called *name*."""
        if (value or name) not in self.names:
            raise ModelError(f"output {name!r} is {value or name!r}, which no input, constant or layer makes")
        self.outputs.append((name, value or name))

    def needed(self) -> list[Layer]:
        """Return the layers that an output needs, in the order in which they run."""
        read = {value for _, value in self.outputs}
        kept = []
        for layer in reversed(self.layers):
            if not read.isdisjoint(layer.outputs):
                kept.append(layer)
                read.update(layer.inputs)
        return kept[::-1]

    def pruned(self) -> Topology:
        """Return it without the layers that no output needs."""
        return replace(self.plain(), layers=self.needed())

    def plain(self) -> Topology:
        """Return the topology as a :class:`Topology`, for ``replace``: subclasses may take other arguments."""
        if type(self).__init__ is Topology.__init__:
            return self
        return Topology(**{x.name: getattr(self, x.name) for x in fields(Topology) if x.init})

    def with_shapes(self, shapes: Mapping[str, Sequence[Dimension]], *, anew: bool = False) -> Topology:
        """Return the same layers and constants with other shapes of some inputs; a dimension may stay open.

        Args:
            anew: Sizes take the place of those that are declared; without, they fill what is open.

        Raises:
            InputError: *shapes* names no input, does not fit its axes or sizes, or has a negative size.
        """
        self._check_names(by_name(shapes))
        inputs = dict(self.inputs)
        for name, given in shapes.items():
            inputs[name] = inputs[name].reshaped(given, anew=anew)
        declared_outputs = (
            {n: replace(s, shape=None) for n, s in self.declared.items()} if anew else dict(self.declared)
        )
        return replace(self.plain(), inputs=inputs, declared=declared_outputs)

    def shape_of(self, name: str, shapes: Mapping[str, Sequence[int]]) -> Shape:
        """Return the bound shape of input *name*; raises as :meth:`Signature.bound`."""
        return self.inputs[name].bound(shapes.get(name))

    def build(
        self,
        shapes: Mapping[str, Sequence[int]] | None = None,
        values: Mapping[str, Array] | None = None,
        most: int = EVALUATED_ELEMENTS,
    ) -> Program:
        """Bind the input shapes, infer every layout and compute what depends on shapes alone.

        Args:
            values: What inputs will hold whose values decide sizes. They stay inputs, which nothing reads.
            most: Elements of a result that is computed whether or not a size depends on it.

        Raises:
            InputError: *shapes* names no input, does not fit, or leaves a dimension open.
            UnknownValueError: A size depends on a value that is not known; ``inputs`` names those that would tell.
            ShapeError, UnsupportedError: A layer does not fit its inputs; the message names it.
        """
        shapes, known = shapes or {}, values or {}
        self._check_names({*shapes, *known})
        inputs = [Value(n, s.layout(shapes.get(n))) for n, s in self.inputs.items()]
        made = {v.name: v for v in inputs}
        made |= {n: Value(n, Layout.of(a), constant=a) for n, a in (self.constants | dict(known)).items()}
        nodes: list[Node] = []
        for layer in self.layers:
            try:
                bind_layer(layer, made, nodes, most)
            except Exception:  # rules may raise of any class; contexts that are entered took a sixth of a build
                refuse(layer, made, nodes)
        return Program(inputs, [(name, made[source]) for name, source in self.outputs], nodes)

    def __repr__(self) -> str:
        inputs, outputs = ", ".join(map(str, self.inputs.values())), ", ".join(name for name, _ in self.outputs)
        return f"<Topology of {len(self.layers)} layers, ({inputs}) -> ({outputs})>"

    def _repr_html_(self) -> str:
        from clgraph.core.notebook import html_table

        rows = [(la.name, la.primitive, ", ".join(la.inputs), ", ".join(la.outputs)) for la in self.layers]
        return html_table(repr(self)[1:-1], ("layer", "primitive", "reads", "makes"), rows)

    def __str__(self) -> str:
        """Print one line an input, constant, layer and output, the bodies of a layer below it."""
        return "\n".join(["topology", *self.lines()])

    def lines(self, indent: str = "") -> list[str]:
        """Return the lines that it prints as, each behind *indent*."""
        lines = [f"{indent}  input {signature}" for signature in self.inputs.values()]
        lines += [f"{indent}  const {name} {describe_constant(array)}" for name, array in self.constants.items()]
        for layer in self.layers:
            made = f"{', '.join(layer.outputs)} = {layer.primitive}({', '.join(layer.inputs)})"
            lines.append(f"{indent}  {made}" + (f' "{layer.annotation}"' if layer.annotation is not None else ""))
            lines += layer.primitive.print_below(f"{indent}    ")
        lines += [f"{indent}  output {name}" + (f" = {v}" if v != name else "") for name, v in self.outputs]
        lines += [f"{indent}  note {name}: {text}" for name, text in self.noted.items()]
        return lines

    def _check_names(self, given: Iterable[str]) -> None:
        if unknown := sorted(set(given) - set(self.inputs)):
            names = ", ".join(map(repr, self.inputs))
            of = next((s for s in self.inputs.values() if unknown[0] in (s.shape or ())), None)
            size = f"; it is a size of {of}: give the whole shape of {of.name!r}" if of is not None else ""
            raise InputError(f"no input is called {unknown[0]!r}; the inputs are {names}{size}")

    def _claim(self, name: str) -> None:
        if name in self.names:
            raise ModelError(f"two things are called {name!r}")
        self.names.add(name)


class Inlinable(Primitive):
    """Base of primitives that may be replaced by layers once layouts and some values are known."""

    __slots__ = ()

    @property
    def keeps_keys_inside(self) -> bool:
        """Whether the layers that may replace the primitive keep keys (``keeps_keys``)."""
        return False

    @abstractmethod
    def inline(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Topology | None:
        """Return the layers that replace the primitive on these inputs; ``None`` if it stays as it is.

        The inputs of the topology are the primitive's last ones, its outputs the primitive's. Raises as ``bind``.
        """


def inlined(primitive: Primitive, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Topology | None:
    """Return the layers that replace *primitive* on these inputs; ``None`` if it stays as it is."""
    return primitive.inline(inputs, values) if isinstance(primitive, Inlinable) else None


def bind_layer(layer: Layer, values: dict[str, Value], nodes: list[Node], most: int = EVALUATED_ELEMENTS) -> None:
    """Enter the layer's results into *values* and its node into *nodes*, unless the results are known already.

    Args:
        most: Elements of a result that is computed whether or not a size depends on it.

    Raises:
        UnknownValueError: A size depends on a value that is not known.
        ShapeError, UnsupportedError: The layer does not fit its inputs.
    """
    sources = [values[n] for n in layer.inputs]
    if layer.primitive.data_dependent and not layer.primitive.value_slots():
        make_known(sources, nodes)
    layouts, constants = [v.layout for v in sources], [v.constant for v in sources]
    try:
        if (body := inlined(layer.primitive, layouts, constants)) is not None:
            _inline(layer, body, values, nodes, most)
            return
        bound = layer.primitive.bind(layouts, constants)
    except UnknownValueError as error:
        if error.value:
            raise
        if constants[error.slot] is None and make_known([sources[error.slot]], nodes):
            bind_layer(layer, values, nodes, most)
            return
        raise UnknownValueError(str(error), slot=error.slot, value=layer.inputs[error.slot]) from error
    enter(layer, bound, values, nodes, most)


def body_layers(layer: Layer, body: Topology) -> tuple[list[Layer], dict[str, str]]:
    """Return the layers of *body* in place of *layer*, and what each of the body's values is called there.

    What makes the layer's results takes their names, the others stand below. What the body reads from around are its
    last inputs. A body that a model holds has ONNX nodes of its own.
    """
    names = dict(zip(body.inputs, layer.inputs[len(layer.inputs) - len(body.inputs) :], strict=True))
    names.update((name, f"{layer.name}/{name}") for name in body.constants)
    results = list(zip(layer.outputs, (name for _, name in body.outputs), strict=False))
    wanted = {name: outer for outer, name in reversed(results)}
    found = []
    for inner in body.layers:
        names.update((name, wanted.get(name, f"{layer.name}/{name}")) for name in inner.outputs)
        last = bool(results) and results[0][1] in inner.outputs
        found.append(
            Layer(
                layer.name if last else f"{layer.name}/{inner.name}",
                inner.primitive,
                tuple(names[n] for n in inner.inputs),
                tuple(names[n] for n in inner.outputs),
                tuple(dict.fromkeys((*layer.origin, *inner.origin))) if body.op_types else layer.origin,
                inner.annotation or layer.annotation,
            )
        )
    return found, names


def _inline(layer: Layer, body: Topology, values: dict[str, Value], nodes: list[Node], most: int) -> None:
    """Bind the layers of *body* in place of *layer*."""
    layers, names = body_layers(layer, body)
    for name, array in body.constants.items():
        values[names[name]] = Value(names[name], Layout.of(array), constant=array)
    for each in layers:
        bind_layer(each, values, nodes, most)
    for outer, (_, name) in zip(layer.outputs, body.outputs, strict=False):
        values[outer] = values[names[name]]
