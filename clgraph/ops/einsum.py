"""Products and sums over named axes: ONNX's Einsum."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Primitive, primitive
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.matmul import MatMul
from clgraph.ops.reduce import Reduce
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.ops.slice import Slice
from clgraph.ops.transpose import Transpose

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@primitive
@frozen
class Einsum(Composite):
    """``equation`` as NumPy's einsum has it: transposes, sums, and a matrix product for each further input."""

    equation: str

    kind: ClassVar[str] = "einsum"

    def compose(self, c: Composition) -> Sequence[str]:
        terms, result = self._terms([c.layout(n).rank for n in c.inputs])
        sizes: dict[str, int] = {}
        for name, labels in zip(c.inputs, terms, strict=True):
            for label, size in zip(labels, c.layout(name).shape, strict=True):
                if 1 not in (size, sizes.setdefault(label, size)) and sizes[label] != size:
                    raise ShapeError(f"axis {label!r} of {self.equation!r} is {sizes[label]} and {size}")
                sizes[label] = max(size, sizes[label])
        pairs = [self._once(c, name, labels) for name, labels in zip(c.inputs, terms, strict=True)]
        name, labels = pairs.pop(0)
        while pairs:
            other, others = pairs.pop(0)
            kept = set(result).union(*(x for _, x in pairs))
            name, labels = self._product(c, (name, labels), (other, others), kept, sizes)
        name, labels = self._summed(c, name, labels, set(result))
        if missing := [label for label in result if label not in labels]:
            raise ShapeError(f"the result of {self.equation!r} has {missing[0]!r}, which no input has")
        return (self._turned(c, name, [labels.index(label) for label in result]),)

    def _terms(self, ranks: Sequence[int]) -> tuple[list[str], str]:
        """Return the labels of the inputs and of the result, an ellipsis spelled out."""
        left, arrow, right = self.equation.replace(" ", "").partition("->")
        terms = left.split(",")
        if len(terms) != len(ranks):
            raise ShapeError(f"{self.equation!r} requires {len(terms)} inputs, not {len(ranks)}")
        free = [x for x in _LETTERS if x not in left]
        hidden = [rank - len(t.replace("...", "")) if "..." in t else 0 for t, rank in zip(terms, ranks, strict=True)]
        wide = "".join(free[: max(hidden, default=0)])
        spelled = [t.replace("...", wide[len(wide) - n :]) for t, n in zip(terms, hidden, strict=True)]
        for term, rank in zip(spelled, ranks, strict=True):
            if len(term) != rank:
                raise ShapeError(f"{term!r} in {self.equation!r} does not name the {rank} axes of its input")
        if arrow:
            return spelled, right.replace("...", wide)
        every = "".join(spelled)
        return spelled, wide + "".join(sorted(x for x in set(every) if every.count(x) == 1 and x not in wide))

    def _once(self, c: Composition, name: str, labels: str) -> tuple[str, str]:
        """Return the value with each label once: the diagonal of what has two axes of one name."""
        for label in dict.fromkeys(labels):
            while labels.count(label) > 1:
                first = labels.index(label)
                second = labels.index(label, first + 1)
                order = [i for i in range(len(labels)) if i not in (first, second)] + [first, second]
                name = self._turned(c, name, order)
                shape = c.layout(name).shape
                if shape[-1] != shape[-2]:
                    raise ShapeError(f"axis {label!r} of {self.equation!r} is {shape[-2]} and {shape[-1]}")
                count = shape[-1] ** 2
                name = c.add(Reshape((*shape[:-2], count), zero_is_zero=True), name)
                name = c.add(Slice((0,), (count,), (shape[-1] + 1,), axes=(-1,)), name)
                labels = "".join(labels[i] for i in order[:-1])
        return name, labels

    def _summed(self, c: Composition, name: str, labels: str, kept: set[str]) -> tuple[str, str]:
        axes = tuple(i for i, label in enumerate(labels) if label not in kept)
        if not axes:
            return name, labels
        return c.add(Reduce("sum", axes, keepdims=False), name), "".join(x for x in labels if x in kept)

    def _turned(self, c: Composition, name: str, order: Sequence[int]) -> str:
        return name if list(order) == list(range(len(order))) else c.add(Transpose(tuple(order)), name)

    def _product(
        self, c: Composition, a: tuple[str, str], b: tuple[str, str], kept: set[str], sizes: dict[str, int]
    ) -> tuple[str, str]:
        """Return the product of two values, summed over what nothing else has."""
        a = self._summed(c, *a, kept | set(b[1]))
        b = self._summed(c, *b, kept | set(a[1]))
        common = [x for x in a[1] if x in b[1]]
        summed = [x for x in common if x not in kept]
        batch = [x for x in common if x in kept]
        rows, columns = [x for x in a[1] if x not in common], [x for x in b[1] if x not in common]
        left = self._turned(c, a[0], [a[1].index(x) for x in (*batch, *rows, *summed)])
        right = self._turned(c, b[0], [b[1].index(x) for x in (*batch, *summed, *columns)])
        front = [tuple(c.layout(n).shape[: len(batch)]) for n in (left, right)]
        inner = [c.layout(left).shape[len(batch) + len(rows) :], c.layout(right).shape[len(batch) :][: len(summed)]]
        if inner[0] != inner[1]:
            raise ShapeError(f"{self.equation!r} sums over axes of {list(inner[0])} and {list(inner[1])} elements")
        if summed and not rows and not columns:
            return self._dotted(c, left, right, len(batch)), "".join(batch)
        m, k, n = (prod(sizes[x] for x in group) for group in (rows, summed, columns))
        left = c.add(Reshape((*front[0], m, k), zero_is_zero=True), left)
        right = c.add(Reshape((*front[1], k, n), zero_is_zero=True), right)
        y = c.add(MatMul() if summed else Eltwise("mul"), left, right)
        labels = "".join((*batch, *rows, *columns))
        shape = (*c.layout(y).shape[: len(batch)], *(sizes[x] for x in (*rows, *columns)))
        return c.add(Reshape(shape, zero_is_zero=True), y), labels

    def _dotted(self, c: Composition, left: str, right: str, batch: int) -> str:
        """Return sums of products of neighbours, which vectors hold better than a matrix of one column.

        Like those of a matrix product, they are rounded to float16 once.
        """
        dtype = c.layout(left).dtype
        narrow = dtype.floating and dtype.itemsize == 2
        if narrow:
            left, right = (c.add(Reorder(DType.F32), x) for x in (left, right))
        y = c.add(Eltwise("mul"), left, right)
        y = c.add(Reduce("sum", tuple(range(batch, c.layout(y).rank)), keepdims=False), y)
        return c.add(Reorder(dtype), y) if narrow else y


@onnx("Einsum", since=(12, 28))
def import_einsum(node: OnnxNode) -> Primitive:
    return Einsum(node.attribute("equation", ""))
