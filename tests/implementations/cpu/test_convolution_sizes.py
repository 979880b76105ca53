"""Weights that are packed decide how many blocks of output channels a convolution computes at a time."""

from __future__ import annotations

import pytest

from clgraph.core.dtype import DType
from clgraph.core.format import Format, feature_blocked
from clgraph.core.layout import Layout
from clgraph.implementations.cpu.blocked import packed_blocks, packed_for
from clgraph.implementations.cpu.convolution_sizes import cheapest_sizes, sizes_of
from clgraph.ops.convolution import Convolution
from clgraph.selector.query import DeviceInfo, Query

BLOCKED = feature_blocked(4)


def problem(weights: Format, outputs: int = 128) -> Query[Convolution]:
    p = Convolution((1, 1), (1, 1), ((1, 1), (1, 1)))
    layouts = (
        Layout(DType.F32, (1, 64, 20, 31), BLOCKED, ((0, 0), (0, 0), (1, 1), (1, 1))),
        Layout(DType.F32, (outputs, 64, 3, 3), weights),
    )
    return Query(p, layouts, (Layout(DType.F32, (1, outputs, 20, 31), BLOCKED),), DeviceInfo(), 2, (), frozenset({1}))


def test_formats_tell_how_many_blocks_weights_are_packed_for() -> None:
    assert [packed_for(packed_blocks(4, nb)) for nb in (1, 2, 4)] == [1, 2, 4]
    assert packed_for(Format.plain(4)) == 0
    assert packed_for(Format((0, 1, 2, 3), ((0, 32),))) == 0


@pytest.mark.parametrize("nb", [1, 2, 4])
def test_packed_weights_are_read_as_they_are(nb: int) -> None:
    assert cheapest_sizes(problem(packed_blocks(4, nb))).block.nb == nb


def test_weights_in_a_format_of_other_kernels_are_packed_as_plain_ones() -> None:
    plain, other = (cheapest_sizes(problem(f)).block for f in (Format.plain(4), packed_blocks(4, 64)))
    assert plain == other


def test_sizes_are_those_of_the_tensors_as_they_lie() -> None:
    """Equal problems on plain weights share what is cheapest, but not where their tensors lie."""
    q = problem(Format.plain(4))
    moved = q.with_layouts((q.inputs[0].with_halo(((0, 0), (0, 0), (2, 2), (2, 2))), q.inputs[1]), q.outputs)
    assert sizes_of(q).block is sizes_of(moved).block
    assert sizes_of(q).x.y < sizes_of(moved).x.y
