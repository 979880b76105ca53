"""Convolutions for GPUs as implicit matrix products: sizes, tables of windows and taps, arguments.

The rows of the product are the pixels of all images, its columns the outputs of a group, its terms the taps times the
channels, and there are as many products as groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

from clgraph.implementations.gpu.products import ProductSizes
from clgraph.implementations.gpu.vectors import LANES, WIDE_RANK, wide, wide_view
from clgraph.ops.convolution import Convolution, bias_numbers
from clgraph.selector.general import post_arguments
from clgraph.selector.plan import Argument, Table
from clgraph.selector.query import Query
from clgraph.selector.views import View

if TYPE_CHECKING:
    from clgraph.ops.quantized_convolution import QuantizedConvolution

    AnyConvolution = Query[Convolution] | Query[QuantizedConvolution]


def implicit_sizes(q: AnyConvolution) -> ProductSizes:
    """Return the sizes of the product that a convolution is."""
    (y,), w, groups = q.outputs, q.own[1], q.primitive.groups
    return ProductSizes(y.shape[0] * prod(y.shape[2:]), w.shape[0] // groups, prod(w.shape[1:]), groups)


def window_numbers(q: AnyConvolution) -> tuple[Sequence[int] | View, ...]:
    """Return what tables begin with: views of y and x, channels and outputs of a group, taps, images, height and width
    of y, then :func:`window_steps`.
    """
    (y,), x, w = q.outputs, q.own[0], q.own[1]
    sizes = [w.shape[1], w.shape[0] // q.primitive.groups, prod(w.shape[2:]), y.shape[0], *wide(y.shape[2:], 1)]
    return wide_view(y, y.shape), wide_view(x, x.shape), sizes, *window_steps(q)


def window_steps(q: AnyConvolution) -> tuple[tuple[int, int], ...]:
    """Return height and width of x, strides, pads before."""
    f = q.primitive
    return wide(q.own[0].shape[2:], 1), wide(f.strides, 1), wide(tuple(b for b, _ in f.pads), 0)


def bias_of(q: Query[Convolution]) -> tuple[int, int]:
    """Return element offset and pitch of the bias; -1 and 0 for none."""
    return bias_numbers(q.own[2] if q.arity > 2 else None)


def tap_table(q: AnyConvolution) -> Table:
    """Return of each tap its offset in x and its place along y and x."""
    x, f = wide_view(q.own[0], q.own[0].shape), q.primitive
    taps: list[int] = []
    for tap in product(*map(range, q.own[1].shape[2:])):
        down, right = wide(tuple(k * d for k, d in zip(tap, f.dilations, strict=True)), 0)
        taps += [down * x.pitches[1] + right * x.pitches[2], down, right]
    return Table(tuple(taps))


def wide_posts(q: Query[Any], lanes: int = LANES) -> tuple[Argument, ...]:
    """Return the arguments of the post-operations of a kernel that counts blocks of *lanes* channels."""
    (y,) = q.outputs
    views = [wide_view(q.inputs[p.operands[0]], y.shape, lanes) for p in q.post if p.operands]
    return post_arguments(q, views, WIDE_RANK)


def convolution_arguments(q: Query[Convolution], numbers: Table, lanes: int = LANES) -> tuple[Argument, ...]:
    """Return the tensors, the tables and the post-operations of a kernel that counts blocks of *lanes* channels."""
    bias = q.role(2)
    return ("in0", "in1", bias, "out0", numbers, tap_table(q), *wide_posts(q, lanes))
