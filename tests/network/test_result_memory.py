"""Memory of results that is used again: when it may be, and how much is kept."""

import numpy as np
import pytest

import clgraph
from clgraph.model.memory_report import memory_report
from clgraph.network import result_memory
from clgraph.network.constant_result import ConstantResult
from clgraph.network.result_memory import LEAST_BYTES, MOST_BYTES, ResultMemory
from clgraph.ops.activation import Activation

FLOAT = np.dtype(np.float32)
COUNT = LEAST_BYTES // 4

VIEWS = {
    "the array": lambda array: array,
    "a part of it": lambda array: array[5:7],
    "a view of a view": lambda array: array.reshape(2, -1)[1].view(np.uint8)[::2],
    "a memory view": memoryview,
    "an array of a memory view": lambda array: np.frombuffer(memoryview(array), np.uint8),
    "another library's": lambda array: np.from_dlpack(array),
    "its iterator": lambda array: array.flat,
    "a transposed record": lambda array: array.view([("a", np.float32), ("b", np.float32)]).T,
}


def taken(memory, count=COUNT):
    return memory.empty((count,), FLOAT, 4 * count)


def address(array):
    return array.ctypes.data


@pytest.mark.parametrize("view", VIEWS)
def test_memory_is_used_again_when_nothing_views_it_any_more(view):
    memory = ResultMemory()
    array = taken(memory)
    array[...] = 3
    first, held = address(array), VIEWS[view](array)
    del array
    other = taken(memory)
    assert address(other) != first
    other[...] = 4
    del held
    assert address(taken(memory)) == first
    assert address(other) != first


def test_arrays_are_aligned_and_of_the_shape_that_is_asked_for():
    memory = ResultMemory()
    for count in (COUNT, COUNT - COUNT // 8, COUNT + 3):
        array = memory.empty((count, 1), FLOAT, 4 * count)
        assert array.shape == (count, 1)
        assert array.dtype == FLOAT
        assert array.flags.writeable
        assert address(array) % 64 == 0


def test_memory_serves_somewhat_smaller_arrays_and_sizes_out_of_use_do_not_pile_up():
    memory = ResultMemory()
    first = address(taken(memory, 2 * COUNT))
    assert address(taken(memory, 2 * COUNT - COUNT // 4)) == first
    for count in range(3, 30):
        taken(memory, count * COUNT)
    assert memory.nbytes == 29 * LEAST_BYTES


def test_small_and_huge_arrays_are_not_kept(monkeypatch):
    memory = ResultMemory()
    taken(memory, COUNT - 1)
    assert memory.nbytes == 0
    monkeypatch.setattr(result_memory, "MOST_BYTES", 2 * LEAST_BYTES)
    taken(memory, 2 * COUNT + 1)
    assert memory.nbytes == 0
    held = [taken(memory) for _ in range(5)]
    assert memory.nbytes == 2 * LEAST_BYTES
    assert len({address(array) for array in held}) == 5


@pytest.fixture(scope="module")
def model(device):
    made = clgraph.Topology()
    x = made.input("x", (1, COUNT))
    made.output("y", made.add("y", Activation("relu"), x))
    made.output("z", made.add("z", Activation("neg"), x))
    return clgraph.compile(made, device=device)


@pytest.mark.opencl
def test_results_of_a_model_stay_as_they_were_returned(model):
    x = np.random.default_rng(0).standard_normal((1, COUNT)).astype(np.float32)
    kept = [model.run({"x": x * k}) for k in range(1, 5)]
    for k, results in enumerate(kept, 1):
        np.testing.assert_array_equal(results["y"], np.maximum(x * k, 0))
        np.testing.assert_array_equal(results["z"], -x * k)
    parts = [results["y"][0, ::7] for results in kept]
    del kept, results
    again = [model.run({"x": -x}) for _ in range(3)]
    for k, part in enumerate(parts, 1):
        np.testing.assert_array_equal(part, np.maximum(x * k, 0)[0, ::7])
    np.testing.assert_array_equal(again[0]["z"], x)


@pytest.mark.opencl
def test_dropped_results_are_written_again(model):
    x = np.ones((1, COUNT), np.float32)
    places = set()
    for _ in range(6):
        results = model.run({"x": x})
        places |= {address(array) for array in results.values()}
        del results
    assert len(places) == 2
    assert model._current().network._workspace.results.nbytes <= MOST_BYTES
    assert memory_report(model.program).results == 2 * LEAST_BYTES


@pytest.mark.opencl
def test_a_result_that_nobody_asks_for_is_written_to_none_of_the_callers_arrays(model):
    x = np.ones((1, COUNT), np.float32)
    both = model.run({"x": x})
    model.run({"x": 2 * x}, outputs=["z"])
    np.testing.assert_array_equal(both["y"], x)
    np.testing.assert_array_equal(both["z"], -x)
    place = np.empty_like(x)[:, ::1]
    model.run({"x": 3 * x}, outputs={"y": place})
    np.testing.assert_array_equal(place, 3 * x)
    np.testing.assert_array_equal(both["y"], x)
    np.testing.assert_array_equal(both["z"], -x)


@pytest.mark.opencl
def test_constant_results_are_arrays_of_their_own_with_the_constants_bits(device):
    made = clgraph.Topology()
    x = made.input("x", (1,))
    made.output("z", made.add("z", Activation("neg"), x))
    nan = np.array([0x7FC12345], np.uint32).view(np.float32)
    for name, last in (("alike", nan[0]), ("apart", np.float32(1))):
        values = np.broadcast_to(nan, (3, COUNT)).copy()
        values[1, 5] = last
        made.output(name, made.constant(name, values))
    compiled = clgraph.compile(made, device=device)
    for _ in range(2):
        results = compiled.run({"x": np.ones(1, np.float32)})
        for name, other in (("alike", 0x7FC12345), ("apart", 0x3F800000)):
            bits = results[name].view(np.uint32)
            assert (bits != 0x7FC12345).sum() == (name == "apart")
            assert bits[1, 5] == other
            results[name][...] = 0
    place = np.empty((3, COUNT), np.float32)
    compiled.run({"x": np.ones(1, np.float32)}, outputs={"alike": place})
    assert (place.view(np.uint32) == 0x7FC12345).all()


OTHERS = {
    "none": lambda rng, size: np.empty(0, int),
    "first": lambda rng, size: np.array([0]),
    "last": lambda rng, size: np.array([size - 1]),
    "few": lambda rng, size: rng.choice(size, size // 64, replace=False),
    "too many": lambda rng, size: rng.choice(size, size // 64 + 1, replace=False),
    "half": lambda rng, size: np.arange(size // 2),
    "diagonal": lambda rng, size: np.arange(0, size, 257),
}


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8, np.float16, np.bool_])
@pytest.mark.parametrize("which", OTHERS)
def test_of_a_constant_whose_elements_are_nearly_alike_the_others_are_written(which, dtype):
    places = OTHERS[which](np.random.default_rng(0), 256 * 1024)
    for common, other in ((0, 1), (1, 0)):
        array = np.full((256, 1024), common, dtype)
        array.flat[places] = other
        result = ConstantResult(array)
        assert (result.array.strides == (0, 0)) == (which not in ("too many", "half"))
        for target in (np.full((256, 1024), 9, dtype), np.full((256, 2048), 9, dtype)[:, ::2]):
            result.write(target)
            np.testing.assert_array_equal(target, array)
        np.testing.assert_array_equal(result.whole(), array)
