from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clgraph.core.dtype import DType
from clgraph.core.format import Format, channels_last, feature_blocked
from clgraph.core.layout import Layout
from clgraph.core.packing import pack, unpack
from clgraph.core.strides import same_places, walk
from clgraph.errors import ShapeError


@st.composite
def formats(draw, rank: int) -> Format:
    order = tuple(draw(st.permutations(range(rank))))
    axes = draw(st.lists(st.integers(0, rank - 1), max_size=2, unique=True)) if rank else []
    return Format(order, tuple((a, draw(st.sampled_from([2, 3, 4, 16]))) for a in axes))


@st.composite
def layouts(draw) -> Layout:
    rank = draw(st.integers(0, 5))
    shape = tuple(draw(st.lists(st.integers(0 if rank < 3 else 1, 5), min_size=rank, max_size=rank)))
    halo = tuple((draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in range(rank))
    halo = halo if draw(st.booleans()) else ()
    return Layout(draw(st.sampled_from([DType.F32, DType.I8, DType.F64])), shape, draw(formats(rank)), halo)


def _data(layout: Layout) -> np.ndarray:
    """Return an array without zeros in which every element is different (modulo the type's range)."""
    return (np.arange(layout.count) % 120 + 1).reshape(layout.shape).astype(layout.dtype.numpy)


@given(layouts())
@settings(max_examples=300, deadline=None)
def test_unpack_inverts_pack(layout: Layout) -> None:
    array = _data(layout)
    memory = pack(array, layout)
    assert memory.shape == (layout.span,)
    assert memory.nbytes == layout.nbytes
    np.testing.assert_array_equal(unpack(memory, layout), array)


@given(layouts())
@settings(max_examples=300, deadline=None)
def test_every_element_lies_at_its_offset_and_the_rest_is_zero(layout: Layout) -> None:
    array = _data(layout)
    memory = pack(array, layout).copy()
    for index in product(*map(range, layout.shape)):
        at = layout.offset(index)
        assert memory[at] == array[index]
        memory[at] = 0
    assert not memory.any()


@given(layouts(), layouts())
@settings(max_examples=300, deadline=None)
def test_same_places_means_equal_distances(first: Layout, second: Layout) -> None:
    def places(layout: Layout) -> list[int]:
        return [layout.offset(i) - layout.origin for i in product(*map(range, layout.shape))]

    for other in (second, first.plain(), Layout(first.dtype, (first.count,))):
        if same_places(first, other):
            assert places(first) == places(other)


def test_same_places_knows_the_cases_that_matter() -> None:
    def of(*shape: int, format: Format | None = None) -> Layout:
        return Layout(DType.F32, shape, format or Format.plain(len(shape)))

    blocked = feature_blocked(4)
    assert same_places(of(2, 32, 1, 1, format=blocked), of(2, 32))
    assert same_places(of(1, 20, 1, 1, format=blocked), of(20))
    assert not same_places(of(2, 20, 1, 1, format=blocked), of(2, 20))
    assert not same_places(of(1, 32, 2, 1, format=blocked), of(32, 2))
    assert same_places(of(3, 1, 5, 4, format=channels_last(4)), of(3, 20))
    assert same_places(of(2, 3, 4), of(6, 4))
    assert not same_places(of(2, 3), of(2, 4))
    gaps = of(2, 3, 4).with_pitches((24, 4, 1))
    assert not same_places(gaps, of(24))
    assert walk(gaps) == ((2, 24), (12, 1))


def test_pitches_of_a_part_reach_into_the_larger_buffer() -> None:
    whole = Layout(DType.F32, (2, 48, 3, 3), feature_blocked(4))
    part = Layout(DType.F32, (2, 16, 3, 3), whole.format, (), whole.all_pitches)
    assert part.offset((1, 15, 2, 2)) == whole.offset((1, 15, 2, 2))
    assert part.span == whole.offset((1, 15, 2, 2)) + 1
    assert not part.is_dense_plain
    with pytest.raises(ShapeError, match="cannot be packed"):
        pack(np.zeros(part.shape, np.float32), part)


def test_a_halo_of_zeros_alone_is_none() -> None:
    layout = Layout(DType.F32, (2, 3), halo=((0, 0), (0, 0)))
    assert layout == Layout(DType.F32, (2, 3))
    assert layout.halos == ((0, 0), (0, 0))


@pytest.mark.parametrize(
    ("shape", "format"), [((1, 2), Format.plain(3)), ((-1,), Format.plain(1)), ((1,) * 9, Format(tuple(range(9))))]
)
def test_what_is_no_layout_is_refused(shape, format) -> None:
    with pytest.raises(ShapeError):
        Layout(DType.F32, shape, format)


def test_the_text_names_type_format_shape_halo_and_pitches() -> None:
    layout = Layout(DType.F16, (1, 20, 4, 5), feature_blocked(4), ((0, 0), (0, 0), (1, 1), (2, 0)))
    assert str(layout) == "f16:b_fs_yx_fsv16:1x20x4x5+0.0,0.0,1.1,2.0"
    assert str(Layout(DType.I64, ())) == "i64:scalar:"
    assert str(Layout(DType.F32, (2, 3)).with_pitches((8, 1))) == "f32:bf:2x3/8,1"
