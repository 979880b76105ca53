"""Products of halves with constant weights on the matrix units of GPUs: convolutions of one tap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from clgraph.core.format import Format
from clgraph.graph.primitive import Primitive
from clgraph.implementations.gpu.products import ProductSizes, product_sizes
from clgraph.implementations.gpu.vectors import LANES, WIDE_RANK
from clgraph.implementations.matrix_units.units import MULTIPLE, MatrixUnits, UnitTile
from clgraph.ops.matmul import MatMul, matrix_product
from clgraph.selector.general import General, post_arguments, table
from clgraph.selector.implementation import roofline
from clgraph.selector.plan import Plan, Table
from clgraph.selector.query import Query
from clgraph.selector.views import Space, View, space

_ROW_AXES = WIDE_RANK - 2
"""Axes of rows that the kernel counts: image, y and x."""


class MatMulOnUnits(General[MatMul]):
    """A matrix of constant weights, terms side by side in a, a bias of one number a column."""

    units: ClassVar[MatrixUnits]

    @classmethod
    def further_limits(cls, q: Query[MatMul]) -> str | None:
        if 1 not in q.constant or q.own[1].rank != 2 or not q.own[0].rank:
            return "requires a matrix of constant weights"
        if any(not x.format.is_plain for slot, x in enumerate((*q.inputs, *q.outputs)) if slot != 1):
            return "requires plain formats, but of the weights"
        p, terms = matrix_product(q), cls.units.unit_of(q.device).terms
        if p.k % terms:
            return f"requires multiples of {terms} terms"
        if p.a_pitch != 1 or any(i % MULTIPLE for i in (p.a.origin, *p.a.pitches)):
            return f"requires terms side by side, and rows that start at multiples of {MULTIPLE} elements"
        if any(p.bias.pitches[:-1]) or (q.arity > 2 and q.own[2].count == 1):
            return "requires a bias of one number a column"
        if len(_space(q).dims) - 1 > _ROW_AXES:
            return f"counts rows along at most {_ROW_AXES} axes"
        return cls.units.tile_refusal(q.device)

    @classmethod
    def weights(cls, q: Query[MatMul]) -> Mapping[int, Format | Primitive]:
        if 1 not in q.constant or q.own[1].rank != 2:
            return {}
        term = 1 if q.primitive.transpose_b else 0
        return {1: cls.units.weights_format(q.device, 1 - term, term)}

    @classmethod
    def cost(cls, q: Query[MatMul]) -> float:
        return max(roofline(q, 4.0, 0.6), q.device.launch_seconds + cls._tile(q)[1])

    @classmethod
    def _tile(cls, q: Query[MatMul]) -> tuple[UnitTile, float]:
        return cls.units.best_tile(q.device, _sizes(q))

    @classmethod
    def plan(cls, q: Query[MatMul]) -> Plan:
        p, s = matrix_product(q), _space(q)
        *rows, columns = s.dims
        dims = (*(1,) * (_ROW_AXES - len(rows)), *rows)
        y, x, *posts = (_wide(v) for v in s.views)
        bias = (p.bias.origin if q.arity > 2 else -1, p.bias.pitches[-1])
        sizes = [p.k, columns, 1, *dims]
        # Where y and x of the input end, strides and pads of a convolution of one tap.
        numbers = table(y, replace(x, pitches=(*x.pitches[:-2], LANES, 1)), sizes, dims[1:], (1, 1), (0, 0), bias)
        found = post_arguments(q, posts, WIDE_RANK)
        arguments = ("in0", "in1", q.role(2), "out0", numbers, Table((0, 0, 0)), *found)
        return Plan((cls.units.launch(cls._tile(q)[0], _sizes(q), arguments),))


def _sizes(q: Query[MatMul]) -> ProductSizes:
    """Return the sizes of one product of all rows: the weights are the same for a whole batch."""
    found = product_sizes(q)
    return replace(found, rows=found.count * found.rows, count=1)


def _space(q: Query[MatMul]) -> Space:
    """Return the axes of rows and that of columns, with views of the result, of a and of operands."""
    p = matrix_product(q)
    last = len(p.dims) - 1
    return space(p.dims, [p.y, p.a, *p.posts], [range(last), [last]])


def _wide(view: View) -> View:
    """Return a view on rows and columns on image, y, x, block of columns and column."""
    *rows, column = view.pitches
    return View(view.origin, (*(0,) * (_ROW_AXES - len(rows)), *rows, LANES * column, column))
