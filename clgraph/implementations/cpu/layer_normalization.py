"""Layer normalisation of plain rows on CPU devices."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from clgraph.implementations.cpu.blocked import TILE
from clgraph.implementations.cpu.rows import Axis, ByRows, Rows, broadcast_pitches, merge
from clgraph.ops.layer_normalization import LayerNormalization, over_result
from clgraph.selector.descriptor import NULL, Descriptor, Float, Int, Pointer, PostStep, Ref, descriptor, fields
from clgraph.selector.implementation import implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query


@fields
class NormalizedRows:
    """The tensor as rows, and where scale and bias are for each."""

    inp: Pointer
    out: Pointer
    scale: Pointer
    bias: Pointer
    scale_n: Int
    scale_y: Int
    scale_c: Int
    scale_x: Int
    bias_n: Int
    bias_y: Int
    bias_c: Int
    bias_x: Int
    rows: Int
    parts: Int
    width: Int
    lines: Int
    ticket_rows: Int
    centred: Int


@descriptor("normalize_rows", any_alignment=True)
class NormalizeRowsDesc(NormalizedRows, Descriptor):
    """Fields as in ``normalize_rows.cl``."""

    epsilon: Float


@implements(LayerNormalization, name="layer_normalization.rows", serves=replace(TILE, formats=False, halos=False))
class NormalizeRows(ByRows[LayerNormalization]):
    """A row at a time: its mean, its variance, the scaled differences."""

    @classmethod
    def vector_seconds(cls, q: Query[LayerNormalization]) -> float:
        """Return the time of mean, variance and scaling of 16 floats."""
        return q.device.costs.unit("layer_normalization.vector")

    @classmethod
    def width(cls, q: Query[LayerNormalization]) -> int:
        return prod(q.inputs[0].shape[q.primitive.axis :])

    @classmethod
    def rows(cls, q: Query[LayerNormalization]) -> Rows | str:
        """Return the rows, planes being their parts; behind the operands' pitches those of scale and bias."""
        x, y, axis = q.inputs[0], q.outputs[0], q.primitive.axis
        if not x.is_dense_plain or not y.is_dense_plain or not all(t.format.is_plain for t in q.own[1:]):
            return "serves dense plain tensors, scale and bias without blocks"
        operands = [broadcast_pitches(q.inputs[s], y.rank) for s in q.post_slots]
        factors = [over_result(q, t).pitches for t in q.own[1:]]
        tensors = zip(x.all_pitches, y.all_pitches, *operands, *factors, strict=True)
        nest = [Axis(size, pitches) for size, pitches in zip(y.shape, tensors, strict=True)]
        kept, inner = merge(nest[:axis]), merge(nest[axis:])
        if max(len(kept), len(inner)) > 2:
            return "walks two axes of rows and two within a row, and these tensors need more"
        still = Axis(1, (0,) * (2 + len(operands) + len(factors)))
        rows, images = (*kept[::-1], still, still)[:2]
        width, parts = (*inner[::-1], still, still)[:2]
        if any(pitch > 1 for pitch in width.pitches[2 + len(operands) :]):
            return "requires scale and bias that lie side by side along a row, or stay"
        return Rows(images, rows, width, parts)

    @classmethod
    def overwrites(cls, q: Query[LayerNormalization]) -> frozenset[int]:
        return frozenset({0})

    @classmethod
    def plan(cls, q: Query[LayerNormalization]) -> Plan:
        tickets, post, fields = cls.fields(q)
        desc = NormalizeRowsDesc(**fields, epsilon=q.primitive.epsilon)
        return Plan((Tile("normalize_rows", desc, tickets, post=post),))

    @classmethod
    def fields(cls, q: Query[LayerNormalization]) -> tuple[int, tuple[PostStep, ...], dict[str, Any]]:
        """Return the number of tickets, the list of post-operations and the values of :class:`NormalizedRows`."""
        rows, tickets, post = cls.planned(q)
        places, pitches = [NULL, NULL], [[0] * 4, [0] * 4]
        for i, t in enumerate(q.own[1:]):
            places[i] = Ref(f"in{i + 1}", t.dtype.itemsize * t.origin)
            number = 2 + len(q.post_slots) + i
            pitches[i] = [axis.pitches[number] for axis in (rows.images, rows.rows, rows.planes, rows.width)]
        values = {
            "inp": Ref("in0"),
            "out": Ref("out0"),
            "scale": places[0],
            "bias": places[1],
            **dict(zip(("scale_n", "scale_y", "scale_c", "scale_x"), pitches[0], strict=True)),
            **dict(zip(("bias_n", "bias_y", "bias_c", "bias_x"), pitches[1], strict=True)),
            "rows": rows.rows.size,
            "parts": rows.planes.size,
            "width": rows.width.size,
            "lines": rows.images.size * rows.rows.size,
            "ticket_rows": tickets.each,
            "centred": int(q.primitive.centred),
        }
        return tickets.count, post, values
