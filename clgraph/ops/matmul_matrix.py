"""Products of halves with constant weights on the matrix units of Intel's and AMD's GPUs: convolutions of one tap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import ClassVar

from clgraph.core.format import Format
from clgraph.graph.primitive import Primitive
from clgraph.ops.convolution_matrix import HALVES, weights_format
from clgraph.ops.gpu_vectors import LANES, WIDE_RANK
from clgraph.ops.matmul import MatMul, problem
from clgraph.ops.matrix_units import AMD, INTEL, MULTIPLE, Tile, best_tile, tile_refusal, unit_of
from clgraph.selector.general import General, Space, View, post_arguments, space, table
from clgraph.selector.implementation import implements, roofline
from clgraph.selector.plan import Plan, Table
from clgraph.selector.query import Query

_ROW_AXES = WIDE_RANK - 2
"""Axes of rows that the kernel counts: image, y and x."""


class _Matrix(General[MatMul]):
    """A matrix of constant weights, terms side by side in a, a bias of one number a column."""

    vendor: ClassVar[str]

    @classmethod
    def further_limits(cls, q: Query[MatMul]) -> str | None:
        if 1 not in q.constant or q.own[1].rank != 2 or not q.own[0].rank:
            return "wants a matrix of constant weights"
        if any(not x.format.is_plain for slot, x in enumerate((*q.inputs, *q.outputs)) if slot != 1):
            return "wants plain formats, but of the weights"
        p, terms = problem(q), unit_of(q.device, cls.vendor).terms
        if p.k % terms:
            return f"wants multiples of {terms} terms"
        if p.a_pitch != 1 or any(i % MULTIPLE for i in (p.a.origin, *p.a.pitches)):
            return f"wants terms side by side, and rows that start at multiples of {MULTIPLE} elements"
        if any(p.bias.pitches[:-1]) or (q.arity > 2 and q.own[2].count == 1):
            return "wants a bias of one number a column"
        if len(_space(q).dims) - 1 > _ROW_AXES:
            return f"counts rows along at most {_ROW_AXES} axes"
        return tile_refusal(q.device, cls.vendor)

    @classmethod
    def weights(cls, q: Query[MatMul]) -> Mapping[int, Format | Primitive]:
        if 1 not in q.constant or q.own[1].rank != 2:
            return {}
        term = 1 if q.primitive.transpose_b else 0
        return {1: weights_format(q.device, cls.vendor, 1 - term, term)}

    @classmethod
    def cost(cls, q: Query[MatMul]) -> float:
        return max(roofline(q, 4.0, 0.6), q.device.launch_seconds + cls._tile(q)[1])

    @classmethod
    def _tile(cls, q: Query[MatMul]) -> tuple[Tile, float]:
        batch, m, k, n = q.primitive.sizes(q.own[0].shape, q.own[1].shape)
        device = q.device if q.device.tuning is None else replace(q.device, tuning=None)
        return best_tile(device, cls.vendor, prod(batch) * m, n, k, 1)

    @classmethod
    def plan(cls, q: Query[MatMul]) -> Plan:
        p, s = problem(q), _space(q)
        *rows, columns = s.dims
        dims = (*(1,) * (_ROW_AXES - len(rows)), *rows)
        y, x, *posts = (_wide(v) for v in s.views)
        bias = (p.bias.origin if q.arity > 2 else -1, p.bias.pitches[-1])
        sizes = [p.k, columns, 1, *dims]
        # Where y and x of the input end, strides and pads of a convolution of one tap.
        numbers = table(y, replace(x, pitches=(*x.pitches[:-2], LANES, 1)), sizes, dims[1:], (1, 1), (0, 0), bias)
        found = post_arguments(q, posts, WIDE_RANK)
        arguments = ("in0", "in1", "in2" if q.arity > 2 else "null", "out0", numbers, Table((0, 0, 0)), *found)
        return Plan((cls._tile(q)[0].launch(prod(rows), columns, 1, cls.vendor, arguments),))


def _space(q: Query[MatMul]) -> Space:
    """Return the axes of rows and that of columns, with views of the result, of a and of operands."""
    p = problem(q)
    last = len(p.dims) - 1
    return space(p.dims, [p.y, p.a, *p.posts], [range(last), [last]])


def _wide(view: View) -> View:
    """Return a view on rows and columns on image, y, x, block of columns and column."""
    *rows, column = view.pitches
    return View(view.origin, (*(0,) * (_ROW_AXES - len(rows)), *rows, LANES * column, column))


@implements(MatMul, name="matmul.intel_f16", serves=replace(HALVES, features=frozenset({INTEL})))
class MatMulIntelF16(_Matrix):
    """DPAS in sub-groups that read blocks, without local memory; sums in float."""

    vendor = INTEL


@implements(MatMul, name="matmul.amd_f16", serves=replace(HALVES, features=frozenset({AMD})))
class MatMulAmdF16(_Matrix):
    """WMMA or MFMA on tiles in local memory; sums in float."""

    vendor = AMD
