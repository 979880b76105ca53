"""How the nodes of a representative's program get their attributes and constants anew for a member."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from math import prod
from typing import Any

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout, Shape
from clgraph.errors import BindingError
from clgraph.families.cone import Bindings, Expansion, repeats_one
from clgraph.graph.layer import Layer
from clgraph.graph.node import Node
from clgraph.graph.permute import Axes
from clgraph.graph.primitive import Array, Primitive
from clgraph.ops.reshape import Reshape
from clgraph.selector.query import DeviceInfo, Query


@frozen
class Rule:
    """What a node becomes for a member: at most one of *layer* to *sizes* is given, else it stays or says itself.

    Attributes:
        before: Layers that are bound first.
        layer: The primitive is that of the built node of this name.
        shape_of: A reshape to the shape of the built value of this name.
        groups: A reshape of the first shape to the second, group of axes by group.
        sizes: A reshape to these axes of the built value of this name.
        held: With *layer*: the primitive on an input that is held in this order of its axes.
        constants: Slots whose constants are computed from sizes, with the names of the built values.
        constant: The slots of constants; ``plain``: the plain layouts of those that are laid out otherwise.
        twin: The number of an earlier node with the same problem and implementation; ``None`` where there is none.
        known: Name and element type of the built value that a result is, of the same shape: layers may read its layout.
    """

    node: Node
    before: tuple[Layer, ...] = ()
    layer: str | None = None
    shape_of: str | None = None
    groups: tuple[Shape, Shape] | None = None
    sizes: tuple[str, Axes] | None = None
    held: Axes | None = None
    constants: tuple[tuple[int, str], ...] = ()
    known: tuple[tuple[str, DType] | None, ...] = ()
    constant: frozenset[int] = frozenset()
    plain: Mapping[int, Layout] = field(default_factory=dict)
    twin: int | None = None

    def query(self, node: Node, device: DeviceInfo, known: Query[Any] | None = None) -> Query[Any]:
        """Return the problem of *node*, which the member has in the place of this one.

        Args:
            known: Its problem before layouts were changed: if none of its own was, that is returned with all that has
                been derived from it.
        """
        inputs, outputs = tuple([v.layout for v in node.inputs]), tuple([v.layout for v in node.outputs])
        same = known is not None and known.primitive is node.primitive
        if known is not None and same and known.inputs == inputs and known.outputs == outputs:
            return known
        return Query(node.primitive, inputs, outputs, device, node.arity, node.fused, self.constant)

    def as_asked(self, q: Query[Any]) -> Query[Any]:
        """Return the problem with its constants plain, as implementations are asked before weights are packed."""
        if not self.plain:
            return q
        return q.with_layouts(tuple([self.plain.get(i, x) for i, x in enumerate(q.inputs)]), q.outputs)

    def primitive(self, bindings: Bindings, inputs: Sequence[Layout]) -> Primitive:
        """Return the node's primitive for a member; raises ``BindingError`` where there is no telling."""
        if self.layer is not None:
            found = bindings.primitive(self.layer)
            return found if self.held is None else held_in(found, self.held)
        if self.shape_of is not None:
            return Reshape(bindings.shape(self.shape_of), zero_is_zero=True)
        if self.groups is not None:
            return Reshape(regrouped(*self.groups, inputs[0].shape), zero_is_zero=True)
        if self.sizes is not None:
            shape = bindings.shape(self.sizes[0])
            return Reshape(tuple(shape[axis] for axis in self.sizes[1]), zero_is_zero=True)
        made = self.node.primitive
        return (made.resized(self.node.inputs[0].layout.shape, inputs[0].shape) if inputs else None) or made


def held_in(primitive: Primitive, axes: Axes) -> Primitive:
    """Return what a slice, pad or resize is on an input that is held in the order *axes*."""
    made = primitive.permuted(axes, ())
    if made is None:
        raise BindingError(f"{primitive} is made for no other order of its axes")
    return made.primitive


@frozen
class Guards:
    """What went into the representative's program without leaving a trace: it has to be the same for a member.

    Attributes:
        before: Layers that are bound first.
        shapes: Built nodes that passes have replaced: sizes around them that are equal, or 1, must be so for a member.
        primitives: Such nodes whose attributes are computed from sizes, and came out the same for all that were built.
        constants: Values that sizes decide, and that were folded.
        merged: Such values with equal ones that are read in their place.
        uniform: Folded ones of which nothing is left but their only value, as of zeros that were added: with the shape.
        results: Those of the program that sizes alone decide, with the built values that a member computes for them.
        expansions: Layers that were inlined, and what stands for them: the nodes that all members have, and what reads
            what. A name inside means the same only where these are the same.
    """

    before: tuple[Layer, ...]
    shapes: tuple[tuple[str, tuple[str, ...], tuple[Shape, ...]], ...]
    primitives: tuple[tuple[str, Primitive], ...]
    constants: tuple[tuple[str, Array], ...] = ()
    merged: tuple[tuple[str, str], ...] = ()
    expansions: tuple[tuple[str, Expansion], ...] = ()
    uniform: tuple[tuple[str, Shape, Array], ...] = ()
    results: tuple[tuple[str, str], ...] = ()

    @property
    def asked(self) -> set[str]:
        """The built values whose layouts or elements :meth:`check` asks for."""
        read = {name for layer in self.before for name in layer.inputs}
        read |= {name for _, around, _ in self.shapes for name in around}
        read |= {name for name, _ in self.constants} | {name for name, _, _ in self.uniform}
        read |= {name for _, name in self.results}
        return read | {name for pair in self.merged for name in pair}

    def check(self, bindings: Bindings) -> None:
        """Raise :class:`~clgraph.errors.BindingError` where the member differs."""
        bindings.bind(self.before)
        for layer, expansion in self.expansions:
            check_expansion(layer, bindings.expansions[layer], expansion)
        for node, around, shapes in self.shapes:
            if why := alike(shapes, tuple(bindings.shape(name) for name in around)):
                raise BindingError(f"node {node!r}: {why}")
        for node, primitive in self.primitives:
            if (other := bindings.primitive(node)) != primitive:
                raise BindingError(f"node {node!r} is {other}, which was {primitive} when it was replaced")
        for name, array in self.constants:
            if not _same(bindings.array(name), array):
                raise BindingError(f"the constant {name!r} depends on sizes, and was folded")
        for name, shape, value in self.uniform:
            array = bindings.array(name)
            if alike((shape,), (array.shape,)) or not is_uniform(array) or not _same(array.flat[:1], value):
                raise BindingError(
                    f"the constant {name!r} is not {value[0]} everywhere, or has other axes, and was folded"
                )
        for name, kept in self.merged:
            if not _same(bindings.array(name), bindings.array(kept)):
                raise BindingError(f"the constant {name!r} is no longer {kept!r}, which is read in its place")


def check_expansion(layer: str, found: Expansion, wanted: Expansion) -> None:
    """Raise ``BindingError`` where something else than *wanted* stands for *layer*."""
    if found != wanted:
        raise BindingError(f"other operators stand for {layer!r}, or in another order")


def is_uniform(array: Array) -> bool:
    """Whether there are elements, and all have the same bits."""
    if repeats_one(array):
        return True
    flat = array.ravel()
    return bool(flat.size) and flat.tobytes() == flat[:1].tobytes() * flat.size


def _same(first: Array, second: Array) -> bool:
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    mine, its = first.__array_interface__, second.__array_interface__
    # Masks of a model's layers are views of one vector.
    one = mine["data"] == its["data"] and mine["strides"] == its["strides"]
    if repeats_one(first) and repeats_one(second):
        first, second = first.flat[:1], second.flat[:1]
    return one or first.tobytes() == second.tobytes()


def constants_of(node: Node) -> tuple[frozenset[int], Mapping[int, Layout]]:
    """Return the slots of constants, and the plain layouts of those that are laid out otherwise."""
    laid_out = {i: v.layout for i, v in enumerate(node.inputs) if v.constant is not None}
    return frozenset(laid_out), {i: x.plain() for i, x in laid_out.items() if not x.is_dense_plain}


def alike(shapes: tuple[Shape, ...], others: tuple[Shape, ...]) -> str | None:
    """Say which sizes are 1 or equal in *shapes* but not in *others*, or return ``None``."""
    if [len(s) for s in shapes] != [len(s) for s in others]:
        return "its tensors have other axes for other sizes"
    same = {1: 1, 0: 0}
    for mine, other in zip(shapes, others, strict=True):
        for size, its in zip(mine, other, strict=True):
            if same.setdefault(size, its) != its:
                return f"a size of {size} is {its} here and {same[size]} there"
    return None


def regrouped(source: Shape, target: Shape, shape: Shape) -> Shape:
    """Return what a reshape makes of *shape* that makes *target* of *source*, the smallest groups of axes apart.

    Axes of size 1 stay that: a representative has none by chance.

    Raises:
        BindingError: A group whose sizes differ from those of *source* becomes several larger axes.
    """
    found: list[int] = []
    for read, written in _groups(source, target):
        old, new, made = source[read], shape[read], target[written]
        if old == new:
            found += made
        elif made == old:
            found += new
        elif sum(size != 1 for size in made) == 1:
            found += [size if size == 1 else prod(new) for size in made]
        elif len(made) == 1:
            found.append(prod(new))
        else:
            raise BindingError(f"{list(new)} as axes like {list(made)} is ambiguous")
    return tuple(found)


def splits(source: Shape, target: Shape) -> bool:
    """Whether a reshape of *source* to *target* makes several axes larger than 1 of others."""
    groups = [(source[read], target[written]) for read, written in _groups(source, target)]
    return any(old != made and sum(size != 1 for size in made) > 1 for old, made in groups)


def _groups(source: Shape, target: Shape) -> Iterator[tuple[slice, slice]]:
    """Yield which axes of *source* become which of *target*, as few together as can be.

    Raises:
        BindingError: They have not as many elements.
    """
    i = j = 0
    while i < len(source) or j < len(target):
        first, begin = i, j
        here = source[i] if i < len(source) else 1
        there = target[j] if j < len(target) else 1
        i, j = min(i + 1, len(source)), min(j + 1, len(target))
        while here != there:
            if here < there and i < len(source):
                here, i = here * source[i], i + 1
            elif there < here and j < len(target):
                there, j = there * target[j], j + 1
            else:
                raise BindingError(f"a reshape of {list(source)} to {list(target)} has no groups")
        yield slice(first, i), slice(begin, j)
