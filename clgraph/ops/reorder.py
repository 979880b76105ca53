"""The same tensor in another memory format or element type; the primitive that passes insert between formats."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar

from clgraph.core.conversion import ROUND_MODES, SATURATED, converted
from clgraph.core.dtype import DType
from clgraph.core.format import Format
from clgraph.core.frozen import frozen
from clgraph.core.layout import Halo, Layout, Shape
from clgraph.graph.host_types import STRINGS
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.permute import Axes
from clgraph.graph.primitive import Array, Permuted, Primitive, primitive
from clgraph.ops.string_cast import StringCast
from clgraph.selector.general import General, launch, move, table
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.storage import computed_in, loaded, stored
from clgraph.selector.views import View, space

STRING = 8
"""ONNX's number of the element type of strings."""


@primitive
@frozen
class Reorder(Primitive):
    """``y = x`` with another element type, format or halo. Float to integer rounds towards zero, as ONNX Cast does.

    Attributes:
        dtype, format, halo: Those of the result; ``format`` is ``None`` for plain.
        saturate, round_mode: How floats become narrower ones: :func:`converted`.
    """

    dtype: DType
    format: Format | None = None
    halo: Halo = ()
    saturate: bool = True
    round_mode: str = "up"

    kind: ClassVar[str] = "reorder"
    keeps_types: ClassVar[bool] = True
    holds_sizes: ClassVar[bool] = False
    reference_checks: ClassVar[bool] = True

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        (x,) = inputs
        return (Layout(self.dtype, x.shape, self.format or Format.plain(x.rank), self.halo),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        return (converted(inputs[0], self.dtype, saturate=self.saturate, round_mode=self.round_mode),)

    def permuted(self, axes: Axes, inputs: Sequence[Layout]) -> Permuted | None:
        return Permuted.along(self, axes, 1) if self.format is None and not self.halo else None


_NAMES = {
    "FLOAT": DType.F32,
    "DOUBLE": DType.F64,
    "FLOAT16": DType.F16,
    "BOOL": DType.BOOL,
    **{f"{'U' if d.name[0] == 'U' else ''}INT{d.bits}": d for d in DType if d.name[0] in "IU" and d.bits > 7},
}
"""The element types by ONNX's names."""


@onnx("Cast", since=(1,))
def import_cast_by_name(node: OnnxNode) -> Primitive:
    name = node.attribute("to", "").upper()
    if name not in _NAMES:
        raise node.unsupported(f"the element type {name!r} is not one of {', '.join(_NAMES)}")
    return Reorder(_NAMES[name])


@onnx("Cast", since=(6, 9, 13, 19, 21, 23, 24, 25, 28))
def import_cast(node: OnnxNode) -> Primitive:
    if node.attribute("to", 0) == STRING:
        return StringCast()
    dtype = node.attribute("to", DType.F32)
    return StringCast(dtype) if node.type_of(0) == STRINGS else cast_to(dtype, *cast_rules(node))


def cast_rules(node: OnnxNode) -> tuple[bool, str]:
    """Return whether a cast saturates, and how it rounds to powers of two."""
    mode = node.attribute("round_mode", "up")
    if mode not in ROUND_MODES:
        raise node.unsupported(f"rounds by one of {', '.join(ROUND_MODES)}, not by {mode!r}")
    return bool(node.attribute("saturate", 1)), mode


def cast_to(dtype: DType, saturate: bool, round_mode: str) -> Reorder:
    """Return the cast to *dtype*, with the rules that matter to it alone."""
    powers = dtype == DType.F8E8M0
    return Reorder(
        dtype, saturate=saturate or not (powers or dtype in SATURATED), round_mode=round_mode if powers else "up"
    )


@implements(
    Reorder,
    name="reorder.ref",
    serves=Serves(dtypes=frozenset(DType), mixed=True, formats=True, halos=True),
    general=True,
)
class ReorderRef(General[Reorder]):
    """One work-item an element of the result's memory: any format with blocks on any axis, any element types.

    Elements that only move, and lie behind one another, are moved up to 16 bytes at a time.
    """

    blocked = True

    @classmethod
    def further_limits(cls, q: Query[Reorder]) -> str | None:
        double = DType.F64 in (q.inputs[0].dtype, q.outputs[0].dtype) and q.inputs[0].dtype != q.outputs[0].dtype
        return "needs fp64 to convert doubles" if double and "fp64" not in q.device.features else None

    @classmethod
    def plan(cls, q: Query[Reorder]) -> Plan:
        x, (y,) = q.inputs[0], q.outputs
        if x.dtype == y.dtype and (split := _split(x, y)) is not None:
            dims, source, target = split
            return Plan((move(y, ("in0", source), ("out0", target), dims),))
        if any(v.format.blocks or v.halo for v in (x, y)):
            places = [_axis(v) for v in (y, x)]
            axes = [(y.shape[a], *places[0][a], *places[1][a]) for a in y.format.order]
            extents = tuple(y.extents[a] for a in y.format.order)
        else:
            s = space(y.shape, (View.of(y), View.of(x)), [y.format.order])
            pitches = zip(s.dims, s.views[0].pitches, s.views[1].pitches, strict=True)
            axes = [(n, 0, 1, to, 0, 0, 1, at, 0) for n, to, at in pitches]
            extents = s.dims
        jit = conversion(x.dtype, y.dtype, q.primitive).define(RANK=len(extents))
        return Plan((launch("reorder/reorder_ref", jit, prod(extents), "in0", "out0", table(extents, *axes)),))


def _split(x: Layout, y: Layout) -> tuple[Shape, View, View] | None:
    """Return axes whose blocks are axes of their own, behind all others, and the views of *x* and *y* on them.

    Returns:
        ``None`` where memory of *y* is not one of its elements, or an axis has blocks of two sizes.
    """
    if any(v.halo for v in (x, y)):
        return None
    blocks = [sorted({v.format.block(a) for v in (x, y)} - {1}) for a in range(y.rank)]
    if any(len(found) > 1 or y.shape[a] % found[0] for a, found in enumerate(blocks) if found):
        return None
    blocked = [(a, found[0]) for a, found in enumerate(blocks) if found]
    sizes = dict(blocked)
    dims = (*(n // sizes.get(a, 1) for a, n in enumerate(y.shape)), *(block for _, block in blocked))

    def view(layout: Layout) -> View:
        whole = [layout.format.block(a) > 1 for a in range(layout.rank)]
        pitches = layout.all_pitches
        outer = (p if whole[a] else p * sizes.get(a, 1) for a, p in enumerate(pitches))
        inner = (layout.inner_pitches[a] if whole[a] else pitches[a] for a, _ in blocked)
        return View(layout.origin, (*outer, *inner))

    return dims, view(x), view(y)


def _axis(layout: Layout) -> list[tuple[int, int, int, int]]:
    """Return halo before, block, pitch of blocks and pitch inside a block of each axis."""
    rows = zip(layout.halos, layout.all_pitches, layout.inner_pitches, strict=True)
    return [(halo[0], layout.format.block(a), pitch, inner) for a, (halo, pitch, inner) in enumerate(rows)]


_UNSIGNED = {
    DType.U32: "((long)(v))",
    DType.U64: "((v) >= 0x1p63f ? (ulong)(long)((v) - 0x1p63f) ^ 1ul << 63 : (ulong)(long)(v))",
}
"""How floats become wide unsigned integers as in ``converted``: one instruction of AVX-512 would have all bits set."""


def conversion(source: DType, target: DType, cast: Reorder) -> Jit:
    """Return the macros that read *source* and write *target*."""
    if source == target:
        bits = {1: "uchar", 2: "ushort", 4: "uint", 8: "ulong"}[source.itemsize]
        return Jit().define(T=bits, X=bits, V=bits)
    macros = {"T": target.cl, "X": source.cl, "V": computed_in(source)}
    macros["LOAD_X(p, i)"] = loaded(source) if macros["V"] == "float" or source.bits < 8 else "((p)[i])"
    macros["STORE(p, i, v)"] = stored(target, saturate=cast.saturate, round_mode=cast.round_mode)
    if target == DType.F16:
        macros["LOAD(p, i)"] = loaded(target)
        macros["CONVERT(v)"] = "((float)(v))" if macros["V"] in ("long", "ulong") else "(v)"
    elif macros["V"] in ("float", "double") and target in _UNSIGNED:
        macros["CONVERT(v)"] = _UNSIGNED[target]
    return Jit().define(**macros)
