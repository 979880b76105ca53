"""Vector access of GPU kernels, 4 or 8 elements at once: formats, views, limits.

Vectors lie along the channels of byxf and b_fs_yx_fsv4, which one kernel serves with other pitches, and along the last
axis of a plain tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clgraph.core.dtype import DType
from clgraph.core.format import Format, channels_last, feature_blocked
from clgraph.core.layout import Layout, Shape
from clgraph.selector.general import FLOATS, float_jit
from clgraph.selector.implementation import Formats, Serves
from clgraph.selector.jit import Jit
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import Query
from clgraph.selector.views import Space, View, lanes_of, space

LANES = 4
"""Elements of a vector; ``LANES_OF_HALVES`` where a tensor has them: 16 bytes either way."""
LANES_OF_HALVES = 8
WIDE_RANK = 5
"""Axes that kernels with windows count: image, y, x, block of channels, channel."""
VECTORS = Serves(dtypes=FLOATS, kinds=frozenset({"gpu"}), formats=True, fuses=FUSABLE)


def vector_formats(rank: int) -> tuple[Format, ...]:
    """Return the formats of *rank* axes whose channels lie in vectors: byxf and b_fs_yx_fsv4 for four."""
    return (channels_last(rank), feature_blocked(rank, LANES)) if 3 <= rank <= 5 else ()


def is_vector_format(layout: Layout) -> bool:
    """Whether the channels of *layout* lie in vectors."""
    return layout.format in vector_formats(layout.rank)


def convolved(q: Query[Any], formats: Sequence[Format]) -> tuple[Formats, ...]:
    """Propose each of *formats* for result, first input and operands with as many channels; weights and bias stay."""
    (y,) = q.outputs
    alike = [x.rank == y.rank and x.shape[1] == y.shape[1] for x in q.inputs[q.arity :]]
    own: tuple[None, ...] = (None,) * (q.arity - 1)
    return tuple(Formats((f, *own, *(f if a else None for a in alike)), (f,)) for f in formats)


def same_format(q: Query[Any], formats: Sequence[Format]) -> tuple[Formats, ...]:
    """Propose each of *formats* for the result and for every input with as many channels; the others stay."""
    (y,) = q.outputs
    alike = [x.rank == y.rank and x.shape[1:2] == y.shape[1:2] for x in q.inputs]
    return tuple(Formats(tuple(f if a else None for a in alike), (f,)) for f in formats)


def vector_view(layout: Layout, shape: Shape, *, channels: bool, lanes: int = LANES) -> View:
    """Return the view of *layout*, broadcast to *shape*, on the axes that a kernel counts.

    Args:
        channels: The axes are batch, spatial axes, blocks of *lanes* channels, channels of a block; else those of
            *shape*.
    """
    missing = len(shape) - layout.rank
    own = [
        (0, 0) if d == 1 and n != 1 else (p, i)
        for d, p, i, n in zip(layout.shape, layout.all_pitches, layout.inner_pitches, shape[missing:], strict=True)
    ]
    pitches = [(0, 0)] * missing + own
    if not channels:
        return View(layout.origin, tuple(p for p, _ in pitches))
    outer, inner = pitches[1]
    blocks, lane = (outer, inner) if inner else (lanes * outer, outer)
    return View(layout.origin, (pitches[0][0], *(p for p, _ in pitches[2:]), blocks, lane))


def wide(sizes: Sequence[int], missing: int) -> tuple[int, int]:
    """Return what belongs to y and x, for one or two spatial axes; of a single one it is x, *missing* that of y."""
    return (sizes[0], sizes[1]) if len(sizes) > 1 else (missing, sizes[0])


def wide_view(layout: Layout, shape: Shape, lanes: int = LANES) -> View:
    """Return the view of *layout*, broadcast to *shape*, on image, y, x, block of *lanes* channels and channel."""
    view = vector_view(layout, shape, channels=True, lanes=lanes)
    pitches = view.pitches
    return view if len(pitches) == WIDE_RANK else View(view.origin, (pitches[0], 0, *pitches[1:]))


def lanes_of_channels(*layouts: Layout) -> int:
    """Return how many channels kernels read at once of tensors that :func:`lies_in_vectors` does not refuse."""
    halves = all(x.dtype == DType.F16 and not x.format.blocks for x in layouts)
    return LANES_OF_HALVES if halves and not any(lies_in_vectors(x, LANES_OF_HALVES) for x in layouts) else LANES


def vector_space(q: Query[Any], slots: Sequence[int]) -> tuple[tuple[int, ...], tuple[View, ...], int]:
    """Return the dims, the last in vectors, the views of result, inputs *slots* and operands, and a vector's lanes."""
    s, (y,) = _space(q, slots), q.outputs
    wide = y.dtype == DType.F16 and lanes_of(s.dims, s.views[:1], LANES_OF_HALVES) == LANES_OF_HALVES
    lanes = LANES_OF_HALVES if wide else LANES
    return (*s.dims[:-1], s.dims[-1] // lanes), s.views, lanes


def _space(q: Query[Any], slots: Sequence[int]) -> Space:
    (y,) = q.outputs
    channels = is_vector_format(y)
    dims = (y.shape[0], *y.shape[2:], y.shape[1] // LANES, LANES) if channels else y.shape
    read = [q.inputs[s] for s in slots] + [q.inputs[f.operands[0]] for f in q.post if f.operands]
    return space(dims, [vector_view(x, y.shape, channels=channels) for x in (y, *read)])


def vector_refusal(q: Query[Any], slots: Sequence[int]) -> str | None:
    """Say why the result does not lie in whole vectors, or an input cannot be read beside it."""
    (y,) = q.outputs
    if not y.format.is_plain and (reason := lies_in_vectors(y)) is not None:
        return reason
    if odd := [x for x in q.inputs if x.format.blocks and x.format != y.format]:
        return f"reads {odd[0].format} only where it is the result's format"
    s = _space(q, slots)
    *pitches, along = s.views[0].pitches
    if along != 1 or s.dims[-1] % LANES or any(p % LANES for p in (s.views[0].origin, *pitches)):
        return "requires whole vectors along the last axis of the result"
    return None


def channels_refusal(q: Query[Any]) -> str | None:
    """Say why the first input, result and operands do not have the same vectors of channels, or return ``None``."""
    x, (y, *_) = q.inputs[0], q.outputs
    if not is_vector_format(x) or x.format != y.format:
        return "requires channels in vectors, of input and result alike"
    if odd := [v for v in q.inputs[q.arity :] if v.format.blocks and v.format != y.format]:
        return f"reads {odd[0].format} only where it is the result's format"
    return lies_in_vectors(x) or lies_in_vectors(y)


def lies_in_vectors(layout: Layout, lanes: int = LANES) -> str | None:
    """Say why *layout* cannot be read and written in whole vectors, or return ``None``."""
    inner = layout.rank - 1
    if is_vector_format(layout):
        inner = 1
        if layout.shape[1] % lanes:
            return f"requires a multiple of {lanes} channels, not {layout.shape[1]}"
    elif not layout.format.is_plain or not layout.rank:
        return f"serves plain formats and those of channels in vectors, not {layout.format}"
    pitches = list(layout.all_pitches)
    along = pitches.pop(inner) if not layout.format.blocks else 1
    if along != 1 or layout.origin % lanes or any(p % lanes for p in pitches):
        return f"requires rows that start at multiples of {lanes} elements"
    return None


def vector_jit(dtype: DType, rank: int, lanes: int = LANES) -> Jit:
    """Return the preamble of a kernel that computes in vectors of *lanes* floats on tensors of *dtype*."""
    jit = float_jit(dtype, rank)
    if lanes != LANES:
        jit = jit.define(LANES=lanes)
    return jit.define(**_ACCESSES.get(dtype, {}))


_ACCESSES = {
    DType.F16: {
        "LOAD4(p, i)": "vloada_half4(0, (p) + (i))",
        "LOAD4_LOOSE(p, i)": "vload_half4(0, (p) + (i))",
        "STORE4(p, i, v)": "vstorea_half4_rte(v, 0, (p) + (i))",
    },
    DType.BF16: {
        "LOAD4(p, i)": "bfloat16_value4(*(__global const ushort4*)((p) + (i)))",
        "LOAD4_LOOSE(p, i)": "bfloat16_value4(vload4(0, (p) + (i)))",
        "STORE4(p, i, v)": "(*(__global ushort4*)((p) + (i)) = bfloat16_of4(v))",
    },
}
"""Access to four elements at once, by type; of floats it is a plain one."""
