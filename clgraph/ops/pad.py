"""Elements added around a tensor."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from math import gcd
from typing import ClassVar, Literal

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout, Shape
from clgraph.errors import ShapeError
from clgraph.graph.attributes import Pads, ints, pairs, positive_axis, present, read_values
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.permute import Axes, held
from clgraph.graph.primitive import Array, Bound, Permuted, Primitive, primitive
from clgraph.selector.general import WIDEST, General, launch, moved_jit, table, value_words
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.views import Space, View, in_vectors, lanes_of

_NUMPY: dict[str, Literal["edge", "reflect", "wrap"]] = {"edge": "edge", "reflect": "reflect", "wrap": "wrap"}


@primitive
@frozen
class Pad(Primitive):
    """``y`` is x with elements added, or cut off where a pad is negative.

    Attributes:
        pads: (before, after) an axis; before ``bind`` an entry of ``axes``.
        mode: ``constant``, ``edge``, ``reflect`` or ``wrap``.
        value: What ``constant`` adds.
        axes: Before ``bind``: the axes that the pads are for; ``None``: all.
        reads: Names of the value inputs, before ``bind``.
        follows: Whether sizes do not decide its pads: a pass that makes a pad may say so.
    """

    pads: Pads = ()
    mode: str = "constant"
    value: float = 0.0
    axes: tuple[int, ...] | None = None
    reads: tuple[str, ...] = ()
    follows: bool = False

    kind: ClassVar[str] = "pad"

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        rank, found = inputs[0].rank, read_values(self.reads, values)
        pads = pairs(ints(found["pads"])) if "pads" in found else self.pads
        axes = ints(found["axes"]) if "axes" in found else self.axes
        fill = found.get("value")
        places = tuple(range(rank)) if axes is None else tuple(positive_axis(a, rank) for a in axes)
        if len(places) != len(pads):
            raise ShapeError(f"pads {list(pads)} want one entry for each of the axes {list(places)}")
        whole = [(0, 0)] * rank
        for axis, pad in zip(places, pads, strict=True):
            whole[axis] = pad
        value = self.value if fill is None or not fill.size else fill.ravel()[0].item()
        return Bound(Pad(tuple(whole), self.mode, value), (0,))

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        (x,) = inputs
        if self.mode != "constant" and self.mode not in _NUMPY:
            raise ShapeError(f"mode {self.mode!r} is not one of constant, {', '.join(_NUMPY)}")
        sizes = tuple(d + b + a for d, (b, a) in zip(x.shape, self.pads, strict=True))
        if self.mode == "reflect" and any(max(p) >= max(d, 1) for d, p in zip(x.shape, self.pads, strict=True)):
            raise ShapeError(f"{list(x.shape)} is too small to be reflected by {list(self.pads)}")
        if min(sizes, default=0) < 0:
            raise ShapeError(f"pads {list(self.pads)} cut more than {list(x.shape)} has")
        if self.mode != "constant" and any(
            kept <= 0 < max(pad) for kept, pad in zip(self._kept(x.shape), self.pads, strict=True)
        ):
            raise ShapeError(f"pads {list(self.pads)} leave nothing of {list(x.shape)} to repeat")
        return (x.with_shape(sizes),)

    def _kept(self, shape: Shape) -> Shape:
        """Return how much of each axis the pads below 0 leave, less than nothing where they are wider than it."""
        return tuple(d + min(b, 0) + min(a, 0) for d, (b, a) in zip(shape, self.pads, strict=True))

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        if min(self._kept(x.shape), default=0) < 0:
            return (np.full([d + b + a for d, (b, a) in zip(x.shape, self.pads, strict=True)], self.value, x.dtype),)
        kept = tuple(slice(max(-b, 0), d - max(-a, 0)) for d, (b, a) in zip(x.shape, self.pads, strict=True))
        grown = [(max(b, 0), max(a, 0)) for b, a in self.pads]
        if self.mode == "constant":
            return (np.pad(x[kept], grown, constant_values=self.value) if x.ndim else x,)
        return (np.pad(x[kept], grown, mode=_NUMPY[self.mode]) if x.ndim else x,)

    def permuted(self, axes: Axes, inputs: Sequence[Layout]) -> Permuted | None:
        return Permuted.along(replace(self, pads=held(self.pads, axes)), axes, 1)

    def resized(self, shape: Shape, other: Shape) -> Primitive | None:
        return self if self.follows else None


@onnx("Pad", since=(1,), domain=MICROSOFT)
@onnx("Pad", since=(1, 2, 11, 13, 18, 19, 21, 23, 24, 25))
def import_pad(node: OnnxNode) -> Primitive:
    return Pad(
        pairs(node.attribute("paddings" if node.since == 1 else "pads", ())),
        node.attribute("mode", "constant"),
        node.attribute("value", 0.0),
        reads=present(("pads", "value", "axes"), node.inputs),
    )


_MODES = {"constant": 0, "edge": 1, "reflect": 2, "wrap": 3}


@implements(Pad, name="pad.ref", serves=Serves(dtypes=frozenset(DType)), general=True)
class PadRef(General[Pad]):
    """One work-item an element, any rank; of what lies behind one another in x and y, up to 16 bytes."""

    @classmethod
    def further_limits(cls, q: Query[Pad]) -> str | None:
        cut = q.primitive.mode in ("reflect", "wrap") and any(p < 0 for pad in q.primitive.pads for p in pad)
        if cut:
            return "repeats what is left of an axis only where nothing is cut off it"
        return "reads at least one element" if not q.inputs[0].count and q.primitive.mode != "constant" else None

    @classmethod
    def plan(cls, q: Query[Pad]) -> Plan:
        x, (y,), f = q.inputs[0], q.outputs, q.primitive
        axes = _merged(x, y, f)
        views = [View(v.origin, tuple(getattr(a, name) for a in axes)) for v, name in ((y, "to"), (x, "at"))]
        last, most = axes[-1], WIDEST // y.dtype.itemsize
        moved = f.mode == "constant" or last.same
        lanes = gcd(lanes_of((last.padded,), views, most), last.size, last.before) if moved else 1
        counted = in_vectors(Space(tuple(a.padded for a in axes), (len(axes),), tuple(views)), lanes)
        sizes = [*(a.size for a in axes[:-1]), last.size // lanes]
        before = [*(a.before for a in axes[:-1]), last.before // lanes]
        rest = [_MODES[f.mode], *_filling(f.value, y.dtype)]
        numbers = table(counted.dims, *counted.views, sizes, before, rest)
        jit = moved_jit(lanes * y.dtype.itemsize, len(axes))
        if lanes * y.dtype.itemsize == WIDEST:
            jit = jit.define(**{"FILLING(p)": "((uint4)((p)[0], (p)[1], (p)[2], (p)[3]))"})
        return Plan((launch("pad/pad_ref", jit, y.count // lanes, "in0", "out0", numbers),))


@frozen
class _Axis:
    """An axis to count: elements of x, of y, and before those of x; pitches of x (``at``) and of y (``to``)."""

    size: int
    padded: int
    before: int
    at: int
    to: int

    @property
    def same(self) -> bool:
        """Whether y has the elements of x."""
        return self.size == self.padded and not self.before


def _merged(x: Layout, y: Layout, f: Pad) -> list[_Axis]:
    """Return the axes of a padded tensor; one that nothing is added to is a part of the one before, if it can be."""
    found: list[_Axis] = []
    for size, padded, (before, _), at, to in zip(x.shape, y.shape, f.pads, x.all_pitches, y.all_pitches, strict=True):
        axis, outer = _Axis(size, padded, before, at, to), found[-1] if found else None
        behind = outer is not None and axis.same and (outer.at, outer.to) == (at * size, to * size)
        if outer is not None and behind and (f.mode == "constant" or outer.same):
            found[-1] = _Axis(outer.size * size, outer.padded * size, outer.before * size, at, to)
        else:
            found.append(axis)
    return found or [_Axis(1, 1, 0, 0, 0)]


def _filling(value: float, dtype: DType) -> tuple[int, ...]:
    """Return 16 bytes of *value* after *value*, as a kernel reads them."""
    words = value_words(value, dtype)
    data = struct.pack("<ii", *words)[: dtype.itemsize] * (WIDEST // dtype.itemsize)
    return struct.unpack("<4i", data)
