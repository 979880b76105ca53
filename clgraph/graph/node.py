"""Nodes and the values between them: what a program is made of, and the line of text that each prints as."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from itertools import islice
from typing import TYPE_CHECKING, Literal, Protocol
from weakref import ReferenceType, ref

import numpy as np

from clgraph.core.frozen import frozen, mutable
from clgraph.core.layout import Layout
from clgraph.core.memo import Remembering, remembered
from clgraph.graph.buffer import Buffer
from clgraph.graph.primitive import Array, PostOperation, Primitive
from clgraph.graph.refusals import refusals

if TYPE_CHECKING:
    from clgraph.graph.integers import Integers


class Uses(Iterable[tuple["Node", int]]):
    """The inputs that read a value. A walk may stop early, so that asking about one of many readers costs little."""

    __slots__ = ("_links",)

    def __init__(self, links: Iterable[tuple[ReferenceType[Node], int]]) -> None:
        """Show what *links* refer to and somebody still holds."""
        self._links = links

    def __iter__(self) -> Iterator[tuple[Node, int]]:
        for reader, slot in self._links:
            node = reader()
            if node is not None:
                yield node, slot

    def __bool__(self) -> bool:
        return next(iter(self), None) is not None


@mutable
class Value:
    """One tensor, made by a node (or a graph input, or a constant) and read by others, which it does not keep alive.

    Attributes:
        constant: The data, in the memory order of ``layout`` when the layout is not plain.
        integers: The 8-bit integers that the constant was made of, where fold_constants did so.
        sized: Whether the constant holds other elements for other sizes of a family: no pass may make attributes of it.
        buffer: Physical memory, once planned; ``offset`` bytes into it.
    """

    name: str
    layout: Layout
    constant: Array | None = None
    integers: Integers | None = None
    buffer: Buffer | None = None
    offset: int = 0
    sized: bool = False
    _producer: ReferenceType[Node] | None = field(default=None, init=False)
    _uses: dict[tuple[ReferenceType[Node], int], None] = field(default_factory=dict, init=False)

    @property
    def producer(self) -> Node | None:
        """The node that makes it; ``None`` for a graph input or a constant, or where nobody holds that node now."""
        return None if self._producer is None else self._producer()

    @producer.setter
    def producer(self, node: Node | None) -> None:
        self._producer = None if node is None else ref(node)

    @property
    def uses(self) -> Uses:
        """The inputs that read it, as (node, slot), in the order in which they were linked."""
        return Uses(self._uses)

    @property
    def has_one_use(self) -> bool:
        """Whether exactly one input reads it."""
        return len(list(islice(self.uses, 2))) == 1

    @property
    def has_many_uses(self) -> bool:
        """Whether several inputs read it."""
        return len(list(islice(self.uses, 2))) > 1

    @property
    def readers(self) -> tuple[Node, ...]:
        """The nodes that read the value, each once, in order of their uses."""
        return tuple(dict.fromkeys(node for node, _ in self.uses))

    def is_read_by(self, node: Node, slot: int) -> bool:
        """Whether input *slot* of *node* is noted to read it."""
        return (ref(node), slot) in self._uses

    def link(self, node: Node, slot: int) -> None:
        """Note that input *slot* of *node* reads it."""
        self._uses[ref(node), slot] = None

    def unlink(self, node: Node, slot: int) -> None:
        """Forget that input *slot* of *node* reads it, if it does."""
        self._uses.pop((ref(node), slot), None)

    def __repr__(self) -> str:
        return f"<{self.name} {self.layout}>"


@frozen
class Fused(Remembering):
    """A primitive applied inside another node, to its result (``post``) or to its first input (``pre``).

    Attributes:
        operands: Slots of ``Node.inputs`` that hold the primitive's other inputs, in order.
        slot: Which input of the primitive the running value is.
    """

    primitive: Primitive
    operands: tuple[int, ...] = ()
    slot: int = 0
    where: Literal["post", "pre"] = "post"

    @property
    @remembered
    def operation(self) -> PostOperation | None:
        """How kernels apply it to the running value; ``None``: they do not."""
        return self.primitive.as_post(self.slot)

    def apply(self, running: Array, inputs: Sequence[Array]) -> Array:
        """Compute the primitive's reference on the running value and the node's inputs."""
        others = [inputs[i] for i in self.operands]
        (result,) = self.primitive.computed(*others[: self.slot], running, *others[self.slot :])
        return result


class Chosen(Protocol):
    """The little that the graph needs of a chosen implementation; the rest is for the selector."""

    @property
    def in_place(self) -> bool:
        """Whether nothing runs, because the results lie in the memory of the inputs."""
        ...

    def __str__(self) -> str: ...


@mutable(weak=True)
class Node:
    """One operator application. Edges change only through the verbs of :class:`Program`.

    Attributes:
        inputs: The primitive's own inputs, then the operands of fused operations.
        arity: How many of ``inputs`` are the primitive's own.
        choice: The selected implementation; provisional before compile_graph.
        origin: Names of the ONNX nodes it stems from.
        annotation: The layering hint of the model (``layer_ann``), until partition has consumed it.
        placement: The device it runs on, from partition on; ``partitioned_by``, the annotations it had then, as text.
        scratch: Memory that its plan needs beside inputs and outputs, once planned.
    """

    name: str
    primitive: Primitive
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    arity: int
    fused: tuple[Fused, ...] = ()
    choice: Chosen | None = None
    origin: tuple[str, ...] = ()
    annotation: str | None = None
    placement: str | None = None
    partitioned_by: str | None = None
    scratch: tuple[Buffer, ...] = ()

    @property
    def output(self) -> Value:
        """The first output."""
        return self.outputs[0]

    @property
    def updates(self) -> frozenset[int]:
        """Slots of inputs that are memory of a run, which it may write to."""
        return self.primitive.updates

    @property
    def in_place(self) -> bool:
        """Whether it runs nothing, because its results lie in the memory of its inputs."""
        choice = self.choice
        return choice is not None and choice.in_place

    def join(self) -> None:
        """Enter the node in its values: as a reader of its inputs and as the producer of its outputs."""
        known = ref(self)
        for slot, value in enumerate(self.inputs):
            value._uses[known, slot] = None
        for value in self.outputs:
            value._producer = known

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Compute the outputs with NumPy, fused operations included. *inputs* match ``self.inputs``.

        What overflows or is no number is so in the results, as on a device, whatever the program has told NumPy to do.

        Raises:
            ShapeError: What the inputs hold makes no sense to the operator.
        """
        with refusals(lambda: f"node {self.name!r} ({self.primitive})"), np.errstate(all="ignore"):
            return self._computed(inputs)

    def _computed(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        own = list(inputs[: self.arity])
        for step in self.fused:
            if step.where == "pre":
                own[0] = step.apply(own[0], inputs)
        results = list(self.primitive.computed(*own))
        for step in self.fused:
            if step.where == "post":
                results[0] = step.apply(results[0], inputs)
        return tuple(results)

    def __repr__(self) -> str:
        return f"<{self.name}: {self.primitive}>"


def print_node(node: Node) -> str:
    """Return the line of one node: results, primitive, inputs, fused operations, and what is decided so far."""
    results = ", ".join(map(print_value, node.outputs))
    text = f"{results} = {node.primitive}({', '.join(v.name for v in node.inputs[: node.arity])})"
    text += "".join(print_fused(step, node) for step in node.fused)
    if node.annotation is not None:
        text += f' "{node.annotation}"'
    if node.placement is not None:
        text += f" @{node.placement}"
    return text + (f"  # {node.choice}" if node.choice is not None else "")


def print_value(value: Value) -> str:
    """Return name and layout of a value, and its place in memory once that is planned."""
    place = ""
    if value.buffer is not None and value.buffer.offset is not None:
        place = f" @{value.buffer.offset + value.offset}"
    return f"{value.name} {value.layout}{place}"


def print_fused(step: Fused, node: Node) -> str:
    """Return a fused operation as it stands in the line of its node."""
    operands = [node.inputs[i].name for i in step.operands]
    names = [*operands[: step.slot], "_", *operands[step.slot :]] if operands else []
    arrow = " + " if step.where == "post" else " < "
    return f"{arrow}{step.primitive}" + (f"({', '.join(names)})" if names else "")
