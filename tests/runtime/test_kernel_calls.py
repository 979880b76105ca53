import ctypes
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import clgraph
from clgraph.runtime.engine import Engine
from clgraph.runtime.kernel_calls import KernelCall
from clgraph.runtime.memory import Memory
from clgraph.runtime.wheel import is_wheel
from tests.support.graphs import FLOAT
from tests.support.open_models import open_model

FLUSH = 0x8000
"""Of the control word of x86's vector instructions: denormal results are zeros."""


def model_of(shape, engine):
    if not is_wheel(engine.device.handle.platform):
        pytest.skip("only the wheel's PoCL is known to run kernels in the calling thread")
    made = open_model([helper.make_node("Mul", ["a", "b"], ["y"])], dict.fromkeys("ab", (FLOAT, shape)))
    return clgraph.compile(made, device=engine.device.info.name, threads=1)


def bound_kernel(model):
    """Return the only kernel that the model launches, and its stream."""
    (bound,) = model._specialisations.latest.network.quick._bound
    (tiles,) = bound.executors
    (kernel,) = tiles._kernels.values()
    return kernel, tiles.engine.stream


def numbers(shape, seed):
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(shape).astype(np.float32) for name in "ab"}


@pytest.mark.opencl
def test_a_kernel_is_enqueued_once_and_called_from_then_on(engine):
    with model_of((5, 7), engine) as model:
        first = numbers((5, 7), 0)
        assert np.array_equal(model.run(first)["y"], first["a"] * first["b"])
        kernel, stream = bound_kernel(model)
        queued, launch = [], stream.launch(kernel.handle, (1,), (1,))
        step = kernel._call.step(lambda: (queued.append(1), launch()), stream.finish)
        model._specialisations.latest.network.quick._steps = (step,)
        for seed in range(3):
            given = numbers((5, 7), seed)
            assert np.array_equal(model.run(given)["y"], given["a"] * given["b"])
        assert len(queued) == 1


@pytest.mark.opencl
def test_a_thread_that_flushes_denormal_numbers_computes_as_the_driver_lets_it(engine):
    functions, saved = ctypes.CDLL(None), ctypes.create_string_buffer(32)
    tiny = {name: np.full((3,), 1e-20, np.float32) for name in "ab"}
    with model_of((3,), engine) as model:
        usual = model.run(tiny)["y"], model.run(tiny)["y"]
        functions.fegetenv(saved)
        changed = ctypes.create_string_buffer(saved.raw, 32)
        ctypes.c_uint32.from_buffer(changed, 28).value |= FLUSH
        functions.fesetenv(changed)
        try:
            flushed = model.run(tiny)["y"]
        finally:
            functions.fesetenv(saved)
    assert usual[0].all()
    assert all(np.array_equal(found, usual[0]) for found in (usual[1], flushed))


@pytest.mark.opencl
def test_large_arrays_are_read_and_written_where_they_lie(engine):
    shape = (40, 1024)  # 160 KB: more than is copied
    with model_of(shape, engine) as model:
        given = [numbers(shape, seed) for seed in range(6)]
        held = [(feeds, model.run(feeds)["y"]) for feeds in [*given, *given[::-1]]]
        assert all(np.array_equal(y, feeds["a"] * feeds["b"]) for feeds, y in held)


def test_what_was_not_loaded_from_the_known_place_is_enqueued():
    queued = []
    call = KernelCall(Path("/nowhere/executor_tiles.so"), "executor_tiles", [np.int32(1)])
    step = call.step(lambda: queued.append("launch"), lambda: queued.append("finish"))
    for _ in range(3):
        step()
    assert queued.count("launch") == 3
    assert queued[:3] == ["finish", "launch", "finish"]


def test_a_buffer_whose_address_is_not_known_makes_calls_impossible():
    known, unknown = Memory(None, 64, address=64), Memory(None, 64)
    call = KernelCall(Path("x.so"), "x", [known, np.int64(-2)])
    assert call.is_possible
    held = [ctypes.c_int64.from_address(int(pointer)).value for pointer in call._pointers]
    assert held == [64, -2]
    call.set(0, unknown)
    assert not call.is_possible
    call.set(0, known)
    assert call.is_possible


@pytest.mark.opencl
def test_a_kernel_of_a_text_is_called_where_one_work_item_is_all(engine):
    if not is_wheel(engine.device.handle.platform):
        pytest.skip("only the wheel's PoCL is known to run kernels in the calling thread")
    alone = Engine(engine.device, threads=1)
    text = "__kernel void counted_once(__global int* x, const int n) { x[get_global_id(0)] += n * get_global_size(0); }"
    for count, found in ((1, [30, 0, 0, 0]), (2, [60, 60, 0, 0])):
        first, second = (alone.upload(np.zeros(4, np.int32), "x") for _ in range(2))
        kernel = alone.kernel(text, "counted_once", [first, np.int32(10)])
        step = kernel.on(alone.stream, (count,), None)
        assert (kernel._call is not None) == (count == 1)
        for memory in (first, second, second, first, second):
            kernel.set(0, memory)
            step()
        alone.stream.finish()
        assert second.array[:16].view(np.int32).tolist() == found
