"""Topologies, written by a user or a front end: named primitives and edges, with shapes possibly open."""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import NoReturn, TypeVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout, Shape
from clgraph.core.notebook import html_table
from clgraph.errors import (
    DeviceMemoryError,
    InputError,
    ModelError,
    ShapeError,
    UnknownValueError,
    UnsupportedError,
)
from clgraph.graph.about import NOWHERE, About
from clgraph.graph.faults import faults
from clgraph.graph.host_types import describe_constant, tensor_type
from clgraph.graph.known_values import check_evaluated, deciding, make_known
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array, Primitive
from clgraph.graph.program import Program
from clgraph.graph.random_numbers import RANDOM_KEY
from clgraph.graph.refusals import refusals

S = TypeVar("S")
Dimension = int | str | None
"""A size, the name of a symbolic size, or unknown. A repeated name is no constraint."""

MOST_ELEMENTS = 1 << 48
"""Tensors of more are refused when shapes are bound: no device holds one, and sums of offsets stay within 64 bits."""


@frozen
class Signature:
    """Type and shape of an input or output as declared; what is no tensor of numbers has a ``host_type``, no dtype."""

    name: str
    dtype: DType | None
    shape: tuple[Dimension, ...] | None
    host_type: str = ""

    @property
    def type(self) -> str | None:
        """The type as ONNX spells it: ``tensor(float)``, ``seq(tensor(int64))``; ``None`` if undeclared."""
        return self.host_type or (None if self.dtype is None else tensor_type(self.dtype))

    @property
    def is_fixed(self) -> bool:
        """Whether the shape has no open dimension that a program would be compiled for."""
        return bool(self.host_type) or (self.shape is not None and all(isinstance(d, int) for d in self.shape))

    def __str__(self) -> str:
        shape = "" if self.host_type and self.shape is None else f" {_spell(self.shape)}"
        return f"{self.name} {self.host_type or self.dtype or 'unknown type'}{shape}"


@frozen
class Layer:
    """One primitive with the names it reads and makes."""

    name: str
    primitive: Primitive
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    origin: tuple[str, ...]
    annotation: str | None = None


@dataclass(eq=False)
class Topology:
    """Inputs, constants, layers in execution order, and outputs.

    ``declared`` holds what a model file says about its outputs, ``metadata`` what its author wrote beside the graph,
    ``about`` what it says of itself, ``op_types`` the ONNX operator type of each node by the name that layers have it
    in their origin, ``expanded`` the operators that were read by the functions of their schemas, by the names of their
    nodes. ``overridable`` are constants that may be fed, ``deciding`` those that decide what layers there are. A stage
    of another has a ``label``; one of a file that has some of its data in other files is ``scattered``.
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
    label: str = ""
    scattered: bool = False
    _made: set[str] = field(default_factory=set)

    def input(self, name: str, shape: Sequence[Dimension] | None, dtype: object = np.float32) -> str:
        """Declare an input; a dimension may be a name or ``None``, and so may the whole shape. Returns *name*.

        The *dtype* ``None`` of what a body reads stays open until it is run; ``tensor(string)``, say, is a host type.
        """
        self._claim(name)
        host_type = dtype if isinstance(dtype, str) and dtype.endswith(")") else ""
        known = dtype if dtype is None or isinstance(dtype, DType) else None if host_type else DType.of(dtype)
        self.inputs[name] = Signature(name, known, None if shape is None else tuple(shape), host_type)
        return name

    @property
    def fed(self) -> dict[str, Signature]:
        """The inputs that who runs it feeds: all but the key that random numbers come from."""
        return {name: signature for name, signature in self.inputs.items() if name != RANDOM_KEY}

    @property
    def keeps_keys(self) -> bool:
        """Whether a layer takes past keys and values, or joins an input with something as an output, as caches do."""
        made = {value for _, value in self.outputs}
        return any(
            x.primitive.keeps_keys
            or (x.primitive.kind == "concat" and x.inputs[0] in self.inputs and x.outputs[0] in made)
            for x in self.layers
        )

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
            if source not in self._made:
                raise ModelError(f"layer {name!r} reads {source!r}, which no input, constant or earlier layer makes")
        names = tuple(outputs) or (name,)
        for made in names:
            self._claim(made)
        self.layers.append(Layer(name, primitive, inputs, names, tuple(origin) or (name,), annotation))
        return names[0]

    def output(self, name: str, value: str | None = None) -> None:
        """Make *value* (the value called *name* when not given) a result called *name*."""
        if (value or name) not in self._made:
            raise ModelError(f"output {name!r} is {value or name!r}, which no input, constant or layer makes")
        self.outputs.append((name, value or name))

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
            declared, what = inputs[name].shape, f"input {name!r} has shape {_spell(inputs[name].shape)}"
            try:
                dims = tuple(d if d is None or isinstance(d, str) else operator.index(d) for d in given)
            except TypeError as error:
                raise InputError(f"input {name!r}: a shape is sizes, names and None, not {given!r}") from error
            if any(isinstance(d, int) and d < 0 for d in dims):
                raise InputError(f"input {name!r}: a size in {_spell(dims)} is negative; None leaves one open")
            if declared is not None and len(dims) != len(declared):
                raise InputError(f"{what}; {_spell(dims)} does not fit it: it has another number of axes")
            if declared is not None and not anew:
                dims = tuple(
                    w if isinstance(w, int) and not isinstance(d, int) else d
                    for d, w in zip(dims, declared, strict=True)
                )
                if any(isinstance(w, int) and w != d for d, w in zip(dims, declared, strict=True)):
                    way = "in Python, Model.reshape replaces declared sizes"
                    raise InputError(f"{what}; {_spell(dims)} does not fit it ({way})")
            inputs[name] = replace(inputs[name], shape=dims)
        declared_outputs = (
            {n: replace(s, shape=None) for n, s in self.declared.items()} if anew else dict(self.declared)
        )
        return replace(self, inputs=inputs, declared=declared_outputs, _made=set(self._made))

    def shape_of(self, name: str, shapes: Mapping[str, Sequence[int]]) -> Shape:
        """Return the bound shape of input *name*.

        Raises:
            InputError: The rank or a fixed size differs, or a dimension stays open.
        """
        declared = self.inputs[name].shape
        given = shapes.get(name)
        if given is None:
            if declared is None or not self.inputs[name].is_fixed:
                what = f"input {name!r} has shape {_spell(declared)}"
                raise InputError(f"{what}; give it one: --shape {name}=SIZES, or shapes={{{name!r}: (...)}}")
            given = [d for d in declared if isinstance(d, int)]
        try:
            bound = tuple(operator.index(d) for d in given)
        except TypeError as error:
            raise InputError(f"input {name!r}: a shape is some whole numbers, not {given!r}") from error
        if declared is not None and (
            len(bound) != len(declared)
            or any(isinstance(d, int) and d != b for d, b in zip(declared, bound, strict=True))
        ):
            raise InputError(f"input {name!r} has shape {_spell(declared)}; {list(bound)} does not fit it")
        if any(d < 0 for d in bound):
            raise InputError(f"input {name!r}: a size in {list(bound)} is negative")
        if _is_absurd(bound):
            raise DeviceMemoryError(f"input {name!r}: {list(bound)} is more than 2^48 elements, which no device holds")
        return bound

    def build(
        self, shapes: Mapping[str, Sequence[int]] | None = None, values: Mapping[str, Array] | None = None
    ) -> Program:
        """Bind the input shapes, infer every layout and compute what depends on shapes alone.

        Args:
            values: What inputs will hold whose values decide sizes. They stay inputs, which nothing reads.

        Raises:
            InputError: *shapes* names no input, does not fit, or leaves a dimension open.
            UnknownValueError: A size depends on a value that is not known; ``inputs`` names those that would tell.
            ShapeError, UnsupportedError: A layer does not fit its inputs; the message names it.
        """
        shapes, known = shapes or {}, values or {}
        self._check_names({*shapes, *known})
        inputs = [Value(n, Layout(_dtype(s), self.shape_of(n, shapes))) for n, s in self.inputs.items()]
        made = {v.name: v for v in inputs}
        made |= {n: Value(n, Layout.of(a), constant=a) for n, a in (self.constants | dict(known)).items()}
        nodes: list[Node] = []
        for layer in self.layers:
            try:
                bind_layer(layer, made, nodes)
            except Exception:  # rules may raise of any class; contexts that are entered took a sixth of a build
                _refuse(layer, made, nodes)
        return Program(inputs, [(name, made[source]) for name, source in self.outputs], nodes)

    def __repr__(self) -> str:
        inputs, outputs = ", ".join(map(str, self.inputs.values())), ", ".join(name for name, _ in self.outputs)
        return f"<Topology of {len(self.layers)} layers, ({inputs}) -> ({outputs})>"

    def _repr_html_(self) -> str:
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
        return lines

    def _check_names(self, given: Iterable[str]) -> None:
        if unknown := sorted(set(given) - set(self.inputs)):
            raise InputError(f"no input is called {unknown[0]!r}; the inputs are {', '.join(map(repr, self.inputs))}")

    def _claim(self, name: str) -> None:
        if name in self._made:
            raise ModelError(f"two things are called {name!r}")
        self._made.add(name)


class Inlinable(Primitive):
    """Base of primitives that layers may stand for once layouts and some values are known."""

    __slots__ = ()

    @abstractmethod
    def inline(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Topology | None:
        """Return the layers that stand for the primitive now; ``None``: itself.

        The inputs of the topology are the primitive's last ones, its outputs the primitive's. Raises as ``bind``.
        """


def inlined(primitive: Primitive, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Topology | None:
    """Return the layers that stand for *primitive* on these inputs; ``None``: itself."""
    return primitive.inline(inputs, values) if isinstance(primitive, Inlinable) else None


def bind_layer(layer: Layer, values: dict[str, Value], nodes: list[Node]) -> None:
    """Enter the layer's results into *values* and its node into *nodes*, unless the results are known already.

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
            _inline(layer, body, values, nodes)
            return
        bound = layer.primitive.bind(layouts, constants)
    except UnknownValueError as error:
        if error.value:
            raise
        if constants[error.slot] is None and make_known([sources[error.slot]], nodes):
            bind_layer(layer, values, nodes)
            return
        raise UnknownValueError(str(error), slot=error.slot, value=layer.inputs[error.slot]) from error
    primitive, kept = bound.primitive, tuple([sources[i] for i in bound.keep])
    if len(kept) < len(sources):
        layouts, constants = [v.layout for v in kept], [v.constant for v in kept]
    if type(primitive).evaluate is not Primitive.evaluate and all(c is not None for c in constants):
        check_evaluated(primitive, kept)
    known = primitive.evaluate(layouts, constants)
    if known is not None:
        for name, array in zip(layer.outputs, known, strict=False):
            values[name] = Value(name, Layout.of(array), constant=np.asarray(array))
        return
    inferred, names = primitive.infer(layouts), layer.outputs
    for layout in inferred:
        if _is_absurd(layout.shape):
            raise DeviceMemoryError(
                f"the result {list(layout.shape)} is more than 2^48 elements, which no device holds"
            )
    if len(names) < len(inferred):
        names = (*names, *(f"{layer.name}:{i}" for i in range(len(names), len(inferred))))
    outputs = tuple([Value(name, layout) for name, layout in zip(names, inferred, strict=True)])
    for value in outputs:
        values[value.name] = value
    node = Node(layer.name, primitive, kept, outputs, len(kept), origin=layer.origin)
    node.annotation = layer.annotation
    nodes.append(node)


def _refuse(layer: Layer, values: Mapping[str, Value], nodes: Sequence[Node]) -> NoReturn:
    """Raise what a build ends with where a rule of *layer* has raised what is being handled."""
    try:
        with faults(f"a rule of {layer.primitive.kind}", layer.name, layer.origin), refusals():
            raise  # by no name: an error and the frame that knows it would keep all that was built
    except (ShapeError, UnsupportedError, DeviceMemoryError) as refusal:
        shapes = ", ".join(str(values[n].layout) for n in layer.inputs)
        what = f"node {layer.name!r} ({layer.primitive}) on ({shapes}): {refusal}"
        if isinstance(refusal, UnknownValueError):
            raise UnknownValueError(what, deciding(values[refusal.value], nodes)) from refusal
        raise type(refusal)(what) from refusal


def _inline(layer: Layer, body: Topology, values: dict[str, Value], nodes: list[Node]) -> None:
    """Bind the layers of *body* in place of *layer*: what makes its results takes their names, the others stand below.

    What the body reads from around are its last inputs. A body that a model holds has ONNX nodes of its own.
    """
    names = dict(zip(body.inputs, layer.inputs[len(layer.inputs) - len(body.inputs) :], strict=True))
    for name, array in body.constants.items():
        names[name] = f"{layer.name}/{name}"
        values[names[name]] = Value(names[name], Layout.of(array), constant=array)
    results = list(zip(layer.outputs, (name for _, name in body.outputs), strict=False))
    wanted = {name: outer for outer, name in reversed(results)}
    for inner in body.layers:
        names.update((name, wanted.get(name, f"{layer.name}/{name}")) for name in inner.outputs)
        last = bool(results) and results[0][1] in inner.outputs
        renamed = Layer(
            layer.name if last else f"{layer.name}/{inner.name}",
            inner.primitive,
            tuple(names[n] for n in inner.inputs),
            tuple(names[n] for n in inner.outputs),
            tuple(dict.fromkeys((*layer.origin, *inner.origin))) if body.op_types else layer.origin,
            inner.annotation or layer.annotation,
        )
        bind_layer(renamed, values, nodes)
    for outer, name in results:
        values[outer] = values[names[name]]


def _is_absurd(shape: Shape) -> bool:
    return max(shape, default=0) > MOST_ELEMENTS or prod(shape) > MOST_ELEMENTS


def _dtype(signature: Signature) -> DType:
    if signature.dtype is None:
        raise InputError(f"input {signature.name!r} has no element type: {signature.host_type or 'it is undeclared'}")
    return signature.dtype


def by_name(shapes: Mapping[str, S] | None) -> dict[str, S]:
    """Return *shapes* as a dictionary; raises ``InputError`` where they are none, or a shape is a text."""
    if shapes is not None and not isinstance(shapes, Mapping):
        kind = type(shapes).__name__
        raise InputError(f"shapes go by the inputs' names, as {{'x': (1, 3, 224, 224)}}, not as {kind}")
    for name, shape in (shapes or {}).items():
        if isinstance(shape, str):
            raise InputError(f"input {name!r}: a shape is sizes, names and None, not {shape!r}")
    return dict(shapes or {})


def _spell(shape: tuple[Dimension, ...] | None) -> str:
    return "unknown" if shape is None else "[" + ", ".join("?" if d is None else str(d) for d in shape) + "]"
