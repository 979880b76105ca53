import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.format import Format, channels_last, feature_blocked
from clgraph.core.layout import Layout
from clgraph.core.packing import pack
from clgraph.errors import ProgramError
from clgraph.network.tensors import covers_span, empty, gather, scatter

RNG = np.random.default_rng(0)
SHAPE = (2, 19, 4, 3)
LAYOUTS = [
    Layout(DType.F32, SHAPE),
    Layout(DType.F32, SHAPE, channels_last(4)),
    Layout(DType.F32, SHAPE, feature_blocked(4)),
    Layout(DType.I16, SHAPE, feature_blocked(4, 8), ((0, 0), (0, 0), (1, 2), (3, 0))),
    Layout(DType.F32, SHAPE, Format((0, 1, 2, 3), ((1, 4), (0, 2)))),
    Layout(DType.U8, ()),
    *(Layout(dtype, (2, 3)) for dtype in DType if dtype.numpy.name.startswith(("float8", "float4", "int4", "uint2"))),
    Layout(DType.F32, (0, 3)),
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_scatter_packs_and_gather_brings_the_array_back(layout):
    array = RNG.integers(0, 100, layout.shape).astype(layout.dtype.numpy)
    memory = np.full(layout.span, 77, layout.dtype.numpy)
    scatter(array, layout, memory)
    np.testing.assert_array_equal(memory, pack(array, layout))
    np.testing.assert_array_equal(gather(memory, layout), array)
    assert covers_span(layout)


def test_a_part_of_a_larger_buffer_is_written_between_its_neighbours():
    whole = Layout(DType.F32, (2, 32, 4, 3), feature_blocked(4))
    part = Layout(DType.F32, (2, 16, 4, 3), feature_blocked(4)).with_pitches(whole.all_pitches)
    memory = RNG.standard_normal(whole.span).astype(np.float32)
    before = gather(memory, whole)
    array = RNG.standard_normal(part.shape).astype(np.float32)
    assert not covers_span(part)
    start = whole.offset((0, 16, 0, 0))
    scatter(array, part, memory[start:])
    after = gather(memory, whole)
    np.testing.assert_array_equal(after[:, 16:], array)
    np.testing.assert_array_equal(after[:, :16], before[:, :16])
    np.testing.assert_array_equal(gather(memory[start:], part), array)


def test_an_array_of_another_shape_or_type_is_refused():
    with pytest.raises(ProgramError):
        scatter(np.zeros((2, 2), np.float32), Layout(DType.F32, (2, 3)), np.zeros(6, np.float32))
    with pytest.raises(ProgramError):
        scatter(np.zeros((2, 3), np.float64), Layout(DType.F32, (2, 3)), np.zeros(6, np.float32))


@pytest.mark.parametrize("shape", [(), (0,), (3,), (5, 7)])
def test_new_arrays_are_aligned_and_writeable(shape):
    array = empty(shape, np.dtype(np.float64))
    assert array.shape == shape
    assert array.size == 0 or array.ctypes.data % 64 == 0
    assert array.flags.c_contiguous
    assert array.flags.writeable
