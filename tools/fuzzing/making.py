"""A graph that is being made at random: its values, and where new ones come from, mostly from constants."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

Array = NDArray[Any]
Shape = tuple[int, ...]

OPSET = 18
SIZES = (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 24, 32)
MOST_ELEMENTS = 4096
LARGE = ((260, 256), (1, 16, 65, 64), (70000,), (257, 16, 17), (2, 33, 1000))
"""Shapes of more elements than what is folded while a program is compiled (2^16)."""
HUGE_INTEGERS = (2**53 + 1, 2**53 - 1, -(2**53) - 1, 2**62 + 3, 2**63 - 1, -(2**63) + 1, 0, 1, -1, 7)
STEPPED = ("Floor", "Ceil", "Round", "Sign", "QuantizeLinear", "DynamicQuantizeLinear")
SPECIAL = (np.nan, np.inf, -np.inf)


@dataclass(frozen=True, slots=True)
class Tensor:
    """A value of the graph.

    Attributes:
        loose: Control flow is in front of it: how far it may be from the exact value is known roughly only.
        stepped: A function with steps is in front of it, which takes what is a little off a whole step off: neither of
            the two stands behind the other.
    """

    name: str
    dtype: np.dtype[Any]
    shape: Shape
    loose: bool = False
    stepped: bool = False

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@dataclass
class Making:
    """Nodes, initializers and inputs so far.

    Attributes:
        random: Of the step that is under way.
        constants: The share of new values that are initializers or made by nodes without inputs.
        values: What steps may read.
        opset: Version of the operator set.
    """

    random: np.random.Generator
    constants: float
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initializers: list[onnx.TensorProto] = field(default_factory=list)
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    feeds: dict[str, Array] = field(default_factory=dict)
    values: list[Tensor] = field(default_factory=list)
    count: int = 0
    opset: int = OPSET

    def name(self, what: str) -> str:
        """Return a name that is not taken."""
        self.count += 1
        return f"{what}{self.count}"

    def chance(self, share: float) -> bool:
        """Return True in that *share* of the calls."""
        return bool(self.random.random() < share)

    def one(self, items: Sequence[Any]) -> Any:
        """Return one of *items*."""
        return items[int(self.random.integers(len(items)))]

    def number(self, low: int, high: int) -> int:
        """Return an integer from *low* to *high*."""
        return int(self.random.integers(low, high + 1))

    def add(self, op_type: str, *inputs: Tensor | None, shape: Sequence[int], dtype: Any = None, **more: Any) -> Tensor:
        """Add a node of one result, of the first input's type unless *dtype* is given."""
        (made,) = self.split(op_type, *inputs, shapes=[shape], dtype=dtype, **more)
        return made

    def split(
        self,
        op_type: str,
        *inputs: Tensor | None,
        shapes: Sequence[Sequence[int]],
        dtype: Any = None,
        domain: str = "",
        **attributes: Any,
    ) -> list[Tensor]:
        """Add a node with a result for each of *shapes*."""
        if dtype is None:
            assert inputs[0] is not None
            dtype = inputs[0].dtype
        given = [t for t in inputs if t is not None]
        loose = op_type in ("If", "Loop") or any(t.loose for t in given)
        stepped = op_type in STEPPED or any(t.stepped for t in given)
        sizes = [tuple(int(d) for d in shape) for shape in shapes]
        made = [Tensor(self.name("v"), np.dtype(dtype), shape, loose, stepped) for shape in sizes]
        names = ["" if t is None else t.name for t in inputs]
        node = helper.make_node(op_type, names, [t.name for t in made], self.name("n"), domain=domain, **attributes)
        self.nodes.append(node)
        self.values += made
        return made

    def constant(self, array: Any, dtype: Any = None) -> Tensor:
        """Add an initializer that later steps do not read."""
        data = np.asarray(array, dtype)
        name = self.name("c")
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(data).reshape(data.shape), name))
        return Tensor(name, data.dtype, data.shape)

    def integers(self, *numbers: int) -> Tensor:
        """Add an int64 vector."""
        return self.constant(np.array(numbers, np.int64))

    def shape(self, rank: int | None = None) -> Shape:
        """Return sizes of not too many elements together."""
        rank = self.number(0, 4) if rank is None else rank
        dims = [int(self.one(SIZES)) for _ in range(rank)]
        while math.prod(dims) > MOST_ELEMENTS:
            dims[dims.index(max(dims))] = self.number(1, 4)
        return tuple(dims)

    def array(self, shape: Shape, dtype: Any = np.float32) -> Array:
        """Return numbers: normal ones; integers, of which some are as large as they get."""
        kind = np.dtype(dtype)
        if kind.kind == "f":
            return np.asarray(self.random.normal(size=shape)).astype(kind)
        if kind.kind == "b":
            return np.asarray(self.random.integers(0, 2, shape)).astype(kind)
        if kind.itemsize == 8 and self.chance(0.5):
            lowest = np.iinfo(kind).min
            known = [n for n in HUGE_INTEGERS if n >= lowest]
            picked = [known[i] for i in np.ravel(self.random.integers(0, len(known), shape))]
            return np.array(picked, kind).reshape(shape)
        low, high = (0, 200) if kind.kind == "u" else (-100, 100)
        return np.asarray(self.random.integers(low, high, shape)).astype(kind)

    def source(self, shape: Shape, dtype: Any = np.float32, *, keep: bool = True, array: Array | None = None) -> Tensor:
        """Add a value that nothing in the graph is needed for: an initializer, one that is generated, or an input.

        Args:
            keep: Let later steps read it.
            array: Its elements; random ones when not given.
        """
        data = self.array(shape, dtype) if array is None else np.asarray(array)
        if not self.chance(self.constants):
            name = self.name("x")
            kind = helper.np_dtype_to_tensor_dtype(data.dtype)
            self.inputs.append(helper.make_tensor_value_info(name, kind, data.shape))
            self.feeds[name] = data
            made = Tensor(name, data.dtype, data.shape)
        elif array is None and self.chance(0.25):
            made = self.generated(shape, data.dtype)
        elif self.chance(0.15):
            made = self.add("Constant", shape=data.shape, dtype=data.dtype, value=numpy_helper.from_array(data))
        else:
            made = self.constant(data)
        if keep and made not in self.values:
            self.values.append(made)
        return made

    def generated(self, shape: Shape, dtype: Any) -> Tensor:
        """Add a value that nodes without other inputs than its shape make."""
        kind = np.dtype(dtype)
        wanted = self.integers(*shape)
        value = np.asarray(self.array((1,), kind))
        choice = self.number(0, 3)
        if choice == 0 and kind.kind in "fi" and math.prod(shape):
            bounds = [self.constant(np.array(n, np.int64)) for n in (0, math.prod(shape), 1)]
            row = self.add("Range", *bounds, shape=(math.prod(shape),), dtype=np.int64)
            if kind.kind == "f":
                row = self.add("Cast", row, shape=row.shape, dtype=kind, to=helper.np_dtype_to_tensor_dtype(kind))
                row = self.add("Sin", row, shape=row.shape)
            elif kind != np.int64:
                row = self.add("Cast", row, shape=row.shape, dtype=kind, to=helper.np_dtype_to_tensor_dtype(kind))
            return self.add("Reshape", row, wanted, shape=shape) if shape else row_to_scalar(self, row)
        if choice == 1:
            return self.add("Expand", self.constant(value.reshape(())), wanted, shape=shape)
        filled = numpy_helper.from_array(value)
        return self.add("ConstantOfShape", wanted, shape=shape, dtype=kind, value=filled)

    def large(self, dtype: Any = np.float32) -> Tensor:
        """Add a constant that is too large to be folded: generated, or an initializer."""
        shape = self.one(LARGE)
        return self.generated(shape, dtype) if self.chance(0.7) else self.source(shape, dtype)

    def pick(
        self, kinds: str = "f", ranks: Sequence[int] = range(9), most: int = 1 << 18, *, close: str = ""
    ) -> Tensor:
        """Return a value, one of the newest most likely, or a new one.

        Args:
            kinds: Of its type, as NumPy's ``dtype.kind`` has them.
            close: ``loose`` or ``stepped``: what it must not be.
        """
        found = [t for t in self.values if t.dtype.kind in kinds and t.rank in ranks and t.count <= most]
        found = [t for t in found if t.dtype != np.float16 and not (close and getattr(t, close))]
        if found and self.chance(0.8):
            return found[-min(len(found), 1 + int(self.random.exponential(2)))]
        dtype = {"f": np.float32, "b": np.bool_, "i": np.int64, "u": np.uint8}[kinds[0]]
        return self.source(self.shape(int(self.one([r for r in ranks if r < 5]))), dtype)

    def beside(self, x: Tensor) -> Tensor:
        """Return a value that broadcasts to *x*: one of its shape, a scalar, a row, a channel's."""
        same = [t for t in self.values if t.shape == x.shape and t.dtype == x.dtype]
        if same and self.chance(0.4):
            return self.one(same)
        shapes: list[Shape] = [(), (1,), x.shape, tuple(1 if self.chance(0.5) else d for d in x.shape)]
        if x.rank > 1:
            shapes += [x.shape[1:], x.shape[-1:], (x.shape[1], *(1,) * (x.rank - 2)), (1,) * x.rank]
        return self.source(self.one(shapes), x.dtype, keep=False)

    def model(self, outputs: Sequence[Tensor]) -> onnx.ModelProto:
        """Return the model."""
        made = [helper.make_tensor_value_info(t.name, helper.np_dtype_to_tensor_dtype(t.dtype), None) for t in outputs]
        graph = helper.make_graph(self.nodes, "made", self.inputs, made, self.initializers)
        opsets = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10 if self.opset > OPSET else 8)


Step = Callable[[Making], None]

STEPS: dict[str, Step] = {}
"""What graphs are made of, by name."""


def step(function: Step) -> Step:
    """Make a step known under its function's name."""
    STEPS[function.__name__] = function
    return function


def row_to_scalar(g: Making, row: Tensor) -> Tensor:
    """Return the only element of *row* as a scalar."""
    return g.add("Squeeze", row, g.integers(0), shape=())
