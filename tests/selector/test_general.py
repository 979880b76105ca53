"""Views, spaces and tables of general kernels."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.selector.general import launch, move, table, value_words
from clgraph.selector.jit import Jit
from clgraph.selector.views import View, in_vectors, lanes_of, space


def offsets(dims, view):
    """Every element offset of a view, in row-major order of the coordinates."""
    return [
        view.origin + sum(i * p for i, p in zip(at, view.pitches, strict=True))
        for at in itertools.product(*map(range, dims))
    ]


@st.composite
def problems(draw):
    """Dims and two views: of a transposed, and of a broadcast or padded tensor."""
    dims = tuple(draw(st.lists(st.integers(1, 4), min_size=0, max_size=5)))
    order = draw(st.permutations(range(len(dims))))
    pitches = [0] * len(dims)
    step = 1
    for axis in order:
        pitches[axis] = step
        step *= dims[axis] + draw(st.integers(0, 1))
    own = tuple(draw(st.sampled_from([1, d])) for d in dims)
    return dims, [View(draw(st.integers(0, 9)), tuple(pitches)), View.of(Layout(DType.F32, own), dims)]


@given(problems())
def test_merging_axes_changes_no_offset(problem):
    dims, views = problem
    merged = space(dims, views)
    for before, after in zip(views, merged.views, strict=True):
        assert offsets(dims, before) == offsets(merged.dims, after)


@given(problems(), st.data())
def test_groups_are_counted_one_after_the_other(problem, data):
    dims, views = problem
    first = data.draw(st.sets(st.sampled_from(range(len(dims))))) if dims else set()
    groups = [sorted(first), [a for a in range(len(dims)) if a not in first]]
    merged = space(dims, views, groups)
    order = [a for group in groups for a in group]
    assert merged.counts == tuple(int(np.prod([dims[a] for a in group])) for group in groups)
    for before, after in zip(views, merged.views, strict=True):
        turned = View(before.origin, tuple(before.pitches[a] for a in order))
        assert offsets([dims[a] for a in order], turned) == offsets(merged.dims, after)


@given(problems(), st.sampled_from([1, 2, 4, 6]))
def test_elements_in_vectors_are_the_same_elements(problem, unit):
    dims, views = problem
    # What is moved in rows of `unit` elements may be moved in vectors; what is not, one by one.
    wide = [View(v.origin * unit, (*(p * unit for p in v.pitches), 1)) for v in views]
    s = space((*dims, unit), wide)
    lanes = lanes_of(s.dims, s.views, 4)
    assert lanes % min(unit, 4 if unit != 6 else 2) == 0
    vectors = in_vectors(s, lanes)
    for before, after in zip(s.views, vectors.views, strict=True):
        found = [lanes * v + lane for v in offsets(vectors.dims, after) for lane in range(lanes)]
        assert found == offsets(s.dims, before)


@pytest.mark.parametrize(
    ("dtype", "start", "stored"),
    [
        (DType.F32, 0, "uint4"),
        (DType.F32, 2, "ulong"),
        (DType.F16, 0, "uint4"),
        (DType.F16, 4, "ulong"),
        (DType.F16, 2, "uint"),
        (DType.F16, 1, "ushort"),
        (DType.U8, 16, "uint4"),
        (DType.I64, 1, "ulong"),
    ],
)
def test_moves_take_the_widest_elements_that_both_sides_have(dtype, start, stored):
    x = Layout(dtype, (3, 48))
    step = move(x, ("in0", View(start, (96, 1))), ("out0", View.of(x)), x.shape)
    assert dict(step.jit.macros)["MOVED"] == stored


def test_dense_tensors_of_one_shape_have_one_axis():
    layout = Layout(DType.F32, (2, 3, 4, 5))
    assert space(layout.shape, [View.of(layout)] * 3).dims == (120,)
    channel = View.of(Layout(DType.F32, (3, 1, 1)), layout.shape)
    assert space(layout.shape, [View.of(layout), channel]).dims == (2, 3, 20)


def test_a_halo_is_an_origin_and_pitches():
    halo = Layout(DType.F32, (2, 3), halo=((0, 0), (1, 2)))
    assert View.of(halo) == View(1, (6, 1))
    assert table(View.of(halo), [7], 8).values == (1, 6, 1, 7, 8)


@pytest.mark.parametrize(("count", "group"), [(1, 1), (40, 1), (255, 1), (256, 8), (2047, 8), (2048, 64), (10**6, 64)])
def test_few_work_items_are_spread_over_the_device(count, group):
    step = launch("softmax/softmax_ref", Jit(), count)
    assert step.group == (group,)
    assert step.grid[0] % group == 0
    assert 0 <= step.grid[0] - count < group


@pytest.mark.parametrize(("value", "dtype"), [(-2, DType.I64), (1.5, DType.F64), (0.5, DType.F16), (True, DType.BOOL)])
def test_a_value_travels_as_two_words(value, dtype):
    data = np.array(value_words(value, dtype), np.int32).tobytes()[: dtype.itemsize]
    assert np.frombuffer(data, dtype.numpy)[0] == value
