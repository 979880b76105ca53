"""Operations in front of a tile's first input: how they are staged, and in which formats their operands are read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from clgraph.core.format import feature_blocked
from clgraph.core.frozen import frozen
from clgraph.core.memo import Remembering, remembered, remembered_with
from clgraph.implementations.cpu.fused_operations import operand_pitches, pre_steps
from clgraph.selector.descriptor import NULL, PostStep, Ref
from clgraph.selector.implementation import Formats
from clgraph.selector.query import Query

Operand = tuple[Ref, int, int, int]
"""A vector of channels: its place and its floats from one image, block, lane to the next."""

_NONE: Operand = (NULL, 0, 0, 0)


@frozen
class Staging(Remembering):
    """What is done to every input vector: a scale, a shift, two bounds, then the rest as a list."""

    scale: Operand
    shift: Operand
    below: float
    above: float
    rest: tuple[PostStep, ...]

    @property
    @remembered
    def fields(self) -> dict[str, Any]:
        """The fields of a descriptor that stages."""
        vectors = {
            name: value
            for what, operand in (("scale", self.scale), ("shift", self.shift))
            for name, value in zip((what, f"{what}_n", f"{what}_c", f"{what}_l"), operand, strict=True)
        }
        return vectors | {"below": self.below, "above": self.above, "pres": len(self.rest)}


_NOTHING = Staging(_NONE, _NONE, float("-inf"), float("inf"), ())


def staging(q: Query[Any], take: int = 1) -> Staging:
    """Split the operations in front of *q* into a head that costs nothing beside the copy, and a list.

    Args:
        take: Input pixels from one staged pixel to the next, by which the list counts.
    """
    return _staging(q, take) if q.pre else _NOTHING


@remembered_with
def _staging(q: Query[Any], take: int) -> Staging:
    vectors: dict[str, Operand] = {}
    below, above, taken = float("-inf"), float("inf"), 0
    for fused in q.pre:
        operation = fused.operation
        name = operation.name if operation else ""
        if operation and name in ("relu", "clip"):
            below, above = (0.0, above) if name == "relu" else (operation.a, operation.b)
            taken += 1
            break
        if name not in ("mul", "add") or "add" in vectors or name in vectors:
            break
        layout = q.inputs[fused.operands[0]]
        n, c, y, x, lane = operand_pitches(layout, q.inputs[0])
        if y or x:
            break
        vectors[name] = (Ref(f"in{fused.operands[0]}", layout.origin * layout.dtype.itemsize), n, c, lane)
        taken += 1
    rest = tuple(replace(s, pitches=_taken(s.pitches, take)) for s in pre_steps(q)[taken:])
    return Staging(vectors.get("mul", _NONE), vectors.get("add", _NONE), below, above, rest)


def _taken(pitches: tuple[int, int, int, int, int], take: int) -> tuple[int, int, int, int, int]:
    n, c, y, x, lane = pitches
    return n, c, y, x * take, lane


def staged_formats(q: Query[Any]) -> tuple[Formats, ...]:
    """Return the proposals of blocked operators that stage: input and result blocked, operands like what they meet.

    A broadcast operand with the channels of what it meets is read in both formats; the second proposal has it plain.
    """
    out, inputs = feature_blocked(q.outputs[0].rank), q.inputs
    meets = {s: q.inputs[0] for f in q.pre for s in f.operands} | dict.fromkeys(q.post_slots, q.outputs[0])
    slots = range(q.arity, len(inputs))
    full = {s: inputs[s].shape == meets[s].shape for s in slots}
    channels = {s: inputs[s].rank == out.rank and inputs[s].shape[1] == meets[s].shape[1] for s in slots}
    own = (feature_blocked(inputs[0].rank), *(None,) * (q.arity - 1))
    found = (tuple(out if blocked[s] else None for s in slots) for blocked in (channels, full))
    return tuple(Formats((*own, *operands), (out,)) for operands in dict.fromkeys(found))
