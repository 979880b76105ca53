"""Where elements of a resize's result lie in its input, as tile functions compute it, and what they serve of that."""

from __future__ import annotations

from typing import Any

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.implementations.cpu.geometry import both_blocked_refusal
from clgraph.ops.resize import Resize
from clgraph.selector.descriptor import Float, Int, fields
from clgraph.selector.query import Query

RULES = {"floor": 0, "ceil": 1, "round_prefer_floor": 2, "round_prefer_ceil": 3}
_MIDDLES = {
    "half_pixel": (0.5, 0.5),
    "pytorch_half_pixel": (0.5, 0.5),
    "half_pixel_symmetric": (0.5, 0.5),
    "align_corners": (0.0, 0.0),
    "asymmetric": (0.0, 0.0),
    "tf_half_pixel_for_nn": (0.5, 0.0),
}
"""Where elements of the result, and of the input, have their middles."""

COORDINATES = tuple(_MIDDLES)


@fields
class ResizeMap:
    """The map of rows and that of columns, the middles of elements of the result and the input, and what is nearest."""

    rule: Int
    middle: Float
    origin: Float
    factor_y: Float
    divisor_y: Float
    offset_y: Float
    factor_x: Float
    divisor_x: Float
    offset_x: Float


@frozen
class _AxisMap:
    """Where output element i lies: ``(offset + (i + middle) * factor / divisor) - origin``, in float32 steps."""

    factor: float = 1.0
    divisor: float = 1.0
    offset: float = 0.0


def resize_map(q: Query[Resize], rows: int | None, columns: int) -> dict[str, Any]:
    """Return the fields of :class:`ResizeMap` for the axes *rows*, if there is one, and *columns*."""
    p, x = q.primitive, q.inputs[0].shape
    middle, origin = _MIDDLES[p.coordinates]
    stays = _AxisMap(offset=origin - middle)
    found: dict[str, Any] = {"rule": RULES[p.nearest], "middle": middle, "origin": origin}
    for name, axis in (("y", rows), ("x", columns)):
        along = stays if axis is None or _stays(p, axis, x[axis]) else _axis_map(p, axis, x[axis])
        found |= {f"factor_{name}": along.factor, f"divisor_{name}": along.divisor, f"offset_{name}": along.offset}
    return found


def _stays(p: Resize, axis: int, size: int) -> bool:
    return p.scales[axis] == 1 and (p.shape or ())[axis] == size


def _axis_map(p: Resize, axis: int, size: int) -> _AxisMap:
    """Return the map along *axis*, of *size* input elements."""
    out, scale = (p.shape or ())[axis], p.scales[axis]
    if p.coordinates == "align_corners":
        return _AxisMap(float(size - 1), float(out - 1)) if out > 1 else _AxisMap(0.0)
    if p.coordinates == "pytorch_half_pixel" and out == 1:
        return _AxisMap(0.0, 1.0, 0.5)
    if p.coordinates == "half_pixel_symmetric":
        half, factor = np.float32(0.5), np.float32(scale)
        adjusted = np.float32(out) / (factor * np.float32(size))
        return _AxisMap(1.0, scale, float(np.float32(size) * half * (np.float32(1) - adjusted)))
    return _AxisMap(1.0, scale)


def rule_refusal(p: Resize, modes: tuple[str, ...]) -> str | None:
    """Say why the map of *p*, or its mode, is none that tile functions of *modes* compute; else ``None``."""
    if p.mode in modes and p.coordinates in COORDINATES and p.nearest in RULES:
        return None
    return f"serves {' and '.join(modes)}, not {p.mode} with {p.coordinates} and {p.nearest}"


def planes_refusal(q: Query[Resize]) -> str | None:
    """Say why input and result are not planes in blocks of 16 channels, as many of both, or return ``None``."""
    x, y = q.inputs[0], q.outputs[0]
    if x.shape[:2] != y.shape[:2] or any(s != 1 for s in q.primitive.scales[:2]):
        return "resizes rows and columns alone"
    return both_blocked_refusal(q)
