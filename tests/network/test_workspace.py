from __future__ import annotations

import gc

import numpy as np
import pytest

from clgraph.network.workspace import HEADROOM, LARGEST, Workspace

pytestmark = pytest.mark.opencl

SIZE = 1 << 16


def test_networks_share_an_arena_that_is_large_enough(engine) -> None:
    workspace = Workspace()
    (first,) = workspace.arenas("p", engine, [SIZE])
    assert first.nbytes == SIZE
    assert workspace.arenas("p", engine, [SIZE // 2]) == [first]
    (larger,) = workspace.arenas("p", engine, [2 * SIZE])
    assert larger is not first
    assert larger.nbytes == int(2 * SIZE * HEADROOM)
    assert workspace.arenas("p", engine, [SIZE]) == [first]
    assert workspace.arenas("p", engine, [3 * SIZE]) == [larger]
    assert workspace.arenas("other", engine, [SIZE]) != [first]


def test_parts_of_one_arena_are_different_memory(engine) -> None:
    workspace = Workspace()
    parts = workspace.arenas("p", engine, [SIZE, SIZE, SIZE])
    assert len({id(m) for m in parts}) == 3
    assert {id(m) for m in workspace.arenas("p", engine, [SIZE, SIZE, SIZE])} == {id(m) for m in parts}


def test_a_small_shape_does_not_keep_the_arena_of_a_huge_one(engine) -> None:
    workspace = Workspace()
    (huge,) = workspace.arenas("p", engine, [SIZE])
    assert workspace.arenas("p", engine, [SIZE // LARGEST]) == [huge]
    (small,) = workspace.arenas("p", engine, [SIZE // LARGEST - 1])
    assert small is not huge


def test_memory_goes_with_its_last_user(engine) -> None:
    workspace = Workspace()
    gc.disable()
    try:
        array = np.arange(SIZE, dtype=np.float32)
        arena, copy = workspace.arenas("p", engine, [SIZE])[0], workspace.constants.copy("p", engine, array, "w")
        assert workspace.constants.copy("p", engine, array, "w") is copy
        assert workspace.constants.copy("q", engine, array, "w") is not copy
        del arena, copy
        assert list(workspace._arenas["p"]) == []
        assert all(memory() is None for _, memory in workspace.constants._copies.values())
    finally:
        gc.enable()


def test_constants_are_shared_with_clones_and_arenas_are_not(engine) -> None:
    workspace = Workspace()
    twin = Workspace(workspace)
    (arena,) = workspace.arenas("p", engine, [SIZE])
    assert twin.arenas("p", engine, [SIZE]) != [arena]
    array = np.arange(SIZE, dtype=np.float32)
    copy = workspace.constants.copy("p", engine, array, "w")
    assert twin.constants.copy("p", engine, array, "w") is copy
    back = np.empty_like(array)
    engine.stream.read(copy, 0, back)
    np.testing.assert_array_equal(back, array)


def test_another_array_in_the_place_of_one_that_is_gone_is_copied(engine) -> None:
    """``id`` is given again."""
    workspace = Workspace()
    for seed in range(20):
        array = np.random.default_rng(seed).standard_normal(SIZE).astype(np.float32)
        copy = workspace.constants.copy("p", engine, array, "w")
        back = np.empty_like(array)
        engine.stream.read(copy, 0, back)
        np.testing.assert_array_equal(back, array)
        del array
