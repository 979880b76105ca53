"""Elements added around a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.attributes import Pads, ints, pairs, positive_axis, present, read_values
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.permute import Axes, held
from clgraph.graph.primitive import Array, Bound, Permuted, Primitive, primitive
from clgraph.selector.general import General, View, bits_jit, launch, table, value_words
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query

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
    """

    pads: Pads = ()
    mode: str = "constant"
    value: float = 0.0
    axes: tuple[int, ...] | None = None
    reads: tuple[str, ...] = ()

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
            raise ShapeError(f"mode {self.mode!r} is none of constant, {', '.join(_NUMPY)}")
        sizes = tuple(d + b + a for d, (b, a) in zip(x.shape, self.pads, strict=True))
        if self.mode == "reflect" and any(max(p) >= max(d, 1) for d, p in zip(x.shape, self.pads, strict=True)):
            raise ShapeError(f"{list(x.shape)} is too small to be reflected by {list(self.pads)}")
        if min(sizes, default=0) < 0:
            raise ShapeError(f"pads {list(self.pads)} cut more than {list(x.shape)} has")
        return (x.with_shape(sizes),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        kept = tuple(slice(max(-b, 0), d - max(-a, 0)) for d, (b, a) in zip(x.shape, self.pads, strict=True))
        grown = [(max(b, 0), max(a, 0)) for b, a in self.pads]
        if self.mode == "constant":
            return (np.pad(x[kept], grown, constant_values=self.value) if x.ndim else x,)
        return (np.pad(x[kept], grown, mode=_NUMPY[self.mode]) if x.ndim else x,)

    def permuted(self, axes: Axes, inputs: Sequence[Layout]) -> Permuted | None:
        return Permuted.along(Pad(held(self.pads, axes), self.mode, self.value), axes, 1)


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
    """One work-item an element, any rank."""

    @classmethod
    def further_limits(cls, q: Query[Pad]) -> str | None:
        cut = q.primitive.mode in ("reflect", "wrap") and any(p < 0 for pad in q.primitive.pads for p in pad)
        if cut:
            return "repeats what is left of an axis only where nothing is cut off it"
        return "reads at least one element" if not q.inputs[0].count and q.primitive.mode != "constant" else None

    @classmethod
    def plan(cls, q: Query[Pad]) -> Plan:
        x, (y,), f = q.inputs[0], q.outputs, q.primitive
        rank = max(y.rank, 1)
        dims, sizes = y.shape or (1,), x.shape or (1,)
        views = [View(v.origin, v.all_pitches or (0,)) for v in (y, x)]
        before = [b for b, _ in f.pads] or [0]
        rest = [_MODES[f.mode], *value_words(f.value, y.dtype)]
        numbers = table(dims, *views, sizes, before, rest)
        return Plan((launch("pad/pad_ref", bits_jit(y.dtype.itemsize, rank), y.count, "in0", "out0", numbers),))
