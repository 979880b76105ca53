"""What a topology is for one set of shapes, before any pass: a snapshot to compare others with."""

from __future__ import annotations

from collections.abc import Sequence

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Shape
from clgraph.families.rules import alike
from clgraph.graph.primitive import Array, Primitive
from clgraph.graph.program import Program
from clgraph.ops.conv_transpose import ConvTranspose
from clgraph.ops.convolution import Convolution
from clgraph.ops.pad import Pad


@frozen
class BuiltNode:
    """A node of a built program.

    Attributes:
        primitive: With all attributes.
        inputs, outputs: Names of values.
        around: The values whose sizes passes may compare when they look at the node, and their *shapes*.
        origin: Names of the layers or ONNX nodes that it stems from.
    """

    primitive: Primitive
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    around: tuple[str, ...]
    shapes: tuple[Shape, ...]
    origin: tuple[str, ...]

    def differs(self, other: BuiltNode) -> str | None:
        """Say which sizes around it are 1 or equal that are not around *other*, or return ``None``.

        Of a pad that makes its input larger, sizes of the result are not compared with those of the input: an axis is
        as long in both where nothing is added there, as along one side of pictures that are padded to multiples. A
        node that stays a pad gets its own, whatever is added where.
        """
        if self.pads and other.pads:
            return alike(self.shapes[:1], other.shapes[:1]) or alike(self.shapes[1:], other.shapes[1:])
        return alike(self.shapes, other.shapes)

    @property
    def pads(self) -> bool:
        """Whether it is a pad that adds elements."""
        return isinstance(self.primitive, Pad) and self.shapes[0] != self.shapes[-1]


@frozen
class Built:
    """The nodes of a built program by name, shapes and types of its values, and the constants that its nodes read.

    Attributes:
        results: The value that each result of the program is, and its elements where they are known.
    """

    nodes: dict[str, BuiltNode]
    shapes: dict[str, Shape]
    dtypes: dict[str, DType]
    constants: dict[str, Array]
    outputs: tuple[Shape, ...]
    results: dict[str, tuple[str, Array | None]]

    @staticmethod
    def of(program: Program) -> Built:
        """Return what *program* is now: passes will edit it."""
        nodes: dict[str, BuiltNode] = {}
        shapes, constants = {v.name: v.layout.shape for v in program.inputs}, dict[str, Array]()
        dtypes: dict[str, DType] = {}
        for node in program:
            values = (*node.inputs, *node.outputs)
            if isinstance(node.primitive, Convolution | ConvTranspose):
                # No decision compares the sizes of windows with those of tensors.
                values = (node.inputs[0], *node.outputs)
            nodes[node.name] = BuiltNode(
                node.primitive,
                tuple(v.name for v in node.inputs),
                tuple(v.name for v in node.outputs),
                tuple(v.name for v in values),
                tuple(v.layout.shape for v in values),
                node.origin,
            )
            shapes.update((v.name, v.layout.shape) for v in node.outputs)
            dtypes.update((v.name, v.layout.dtype) for v in (*node.inputs, *node.outputs))
            constants.update((v.name, v.constant) for v in node.inputs if v.constant is not None)
        results = {name: (v.name, v.constant) for name, v in program.outputs}
        return Built(nodes, shapes, dtypes, constants, tuple(v.layout.shape for _, v in program.outputs), results)


def special(built: Built, witness: Built) -> str | None:
    """Say what holds for the sizes of *built* by chance, or return ``None``: what decides by it would not hold.

    Passes decide by sizes that are equal, or 1: whether a tensor is broadcast, whether a transpose moves anything. In
    each node, sizes that are equal or 1 must be so in the witness, too. The nodes must be of the same kinds, and read
    the same: what stands for a layer may be another for other sizes.
    """
    if built.nodes.keys() != witness.nodes.keys():
        missing = next(iter(built.nodes.keys() ^ witness.nodes.keys()))
        return f"node {missing!r} exists for some sizes only"
    seen: set[tuple[bool, tuple[Shape, ...], tuple[Shape, ...]]] = set()
    for name, node in built.nodes.items():
        other = witness.nodes[name]
        if (node.primitive.kind, node.inputs) != (other.primitive.kind, other.inputs):
            found = [f"{n.primitive} of {', '.join(map(repr, n.inputs))}" for n in (node, other)]
            return f"node {name!r} is {found[0]} here and {found[1]} there"
        pair = node.pads, node.shapes, other.shapes
        if pair not in seen and (why := node.differs(other)):
            return f"node {name!r}: {why}"
        seen.add(pair)
    return None


def differ(built: Built, other: Built, constant: str) -> bool:
    """Whether the value *constant*, which nodes of both read, holds other elements in each."""
    one, its = built.constants[constant], other.constants[constant]
    return one is not its and (one.shape != its.shape or one.tobytes() != its.tobytes())


def varying(built: Built, others: Sequence[Built]) -> set[int]:
    """Return the sizes in *built* that *others* have otherwise, of all values that have as many axes there."""
    pairs = [(shape, o.shapes[name]) for o in others for name, shape in built.shapes.items() if name in o.shapes]
    axes = [zip(mine, its, strict=True) for mine, its in pairs if len(mine) == len(its)]
    return {size for sizes in axes for size, other in sizes if size not in (0, other)}
