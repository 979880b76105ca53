from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.core.strides import reshaped_pitches

SIZES = st.sampled_from([1, 2, 3, 4, 6])


@given(st.lists(SIZES, min_size=1, max_size=4), st.lists(SIZES, min_size=1, max_size=4), st.integers(1, 3), st.data())
def test_pitches_of_a_reshape_are_those_that_numpy_finds_without_a_copy(
    shape: list[int], wanted: list[int], spread: int, data: st.DataObject
) -> None:
    """A slice of the last axis of a larger array, its axes in any order, under another shape."""
    memory = np.arange(np.prod(shape) * spread, dtype=np.int64).reshape(*shape[:-1], shape[-1] * spread)
    order = data.draw(st.permutations(range(len(shape))))
    view = memory[..., : shape[-1]].transpose(order)
    pitches = tuple(s // 8 for s in view.strides)
    layout = Layout(DType.I64, view.shape).with_pitches(pitches)
    if view.size != np.prod(wanted):
        wanted = [view.size]
    found = reshaped_pitches(layout, tuple(wanted))
    free = view.reshape(wanted)
    if found is None:
        assert not np.may_share_memory(free, memory) or view.size == 1
    else:
        strides = tuple(8 * p for p in found)
        read = np.lib.stride_tricks.as_strided(memory.reshape(-1), tuple(wanted), strides)
        np.testing.assert_array_equal(read, free)
