"""Weights that share large pages."""

from __future__ import annotations

import mmap
import sys
from weakref import ref

import numpy as np
import pytest

from clgraph.core import shared_pages
from clgraph.core.aligned import ALIGNMENT
from clgraph.core.large_pages import PAGE
from clgraph.core.shared_pages import LEAST_BYTES, in_large_pages
from clgraph.graph.primitive import Array


@pytest.fixture(autouse=True)
def pool(monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.platform != "linux":
        pytest.skip("large pages for memory that asks for them are Linux's")
    monkeypatch.setattr(shared_pages, "has_large_pages", lambda: True)
    monkeypatch.setattr(shared_pages, "_POOL", shared_pages._Pool())


def _place(array: Array) -> int:
    return array.ctypes.data


def test_arrays_lie_behind_one_another_from_the_first_place_of_a_large_page() -> None:
    sizes = [LEAST_BYTES, LEAST_BYTES + 1, 3 * LEAST_BYTES]
    arrays = [in_large_pages(n) for n in sizes]
    assert _place(arrays[0]) % PAGE == 0
    assert [len(a) for a in arrays] == sizes
    assert all(_place(a) % ALIGNMENT == 0 for a in arrays)
    ends = [_place(a) + len(a) + ALIGNMENT for a in arrays]
    assert all(0 <= _place(b) - end < ALIGNMENT for b, end in zip(arrays[1:], ends, strict=False))
    for i, a in enumerate(arrays):
        a[:] = i + 1
    assert [set(a.tolist()) for a in arrays] == [{1}, {2}, {3}]


def test_what_a_block_has_no_room_for_lies_in_another() -> None:
    first, large = in_large_pages(LEAST_BYTES), in_large_pages(17 * PAGE)
    assert not _place(first) <= _place(large) < _place(first) + 17 * PAGE
    large[:] = 1
    assert _place(large) % PAGE == 0


def test_memory_is_given_back_with_the_last_array_in_it() -> None:
    first, second = in_large_pages(LEAST_BYTES), in_large_pages(LEAST_BYTES).reshape(16, -1)
    assert first.base is not None
    block = ref(first.base)
    del first
    assert block() is not None
    second[:] = 7
    assert (second == 7).all()
    del second
    assert block() is None
    assert _place(in_large_pages(LEAST_BYTES)) % PAGE == 0


def test_small_arrays_and_those_that_there_is_no_block_for_have_memory_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*given: object, **named: object) -> mmap.mmap:
        raise OSError(12, "Cannot allocate memory")

    small = in_large_pages(LEAST_BYTES - 1)
    monkeypatch.setattr(mmap, "mmap", refuse)
    large = in_large_pages(LEAST_BYTES)
    for array, count in ((small, LEAST_BYTES - 1), (large, LEAST_BYTES)):
        assert len(array) == count
        assert _place(array) % ALIGNMENT == 0
        assert isinstance(array.base, np.ndarray)
        assert array.base.flags.owndata
