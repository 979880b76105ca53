import numpy as np
import pytest

from clgraph.errors import DeviceError, DeviceMemoryError, KernelBuildError
from clgraph.runtime import binaries
from clgraph.runtime.device import HOST
from clgraph.runtime.engine import Engine

pytestmark = pytest.mark.opencl

INCREMENT = "__kernel void increment(__global int* x, const int by) { x[get_global_id(0)] += by; }"


def test_a_kernel_runs_with_the_arguments_it_was_bound_to(engine):
    memory = engine.upload(np.arange(8, dtype=np.int32), "x")
    step = engine.kernel(INCREMENT, "increment", [memory, np.int32(3)]).on(engine.stream, (8,), None)
    step()
    step()
    found = np.empty(8, np.int32)
    engine.stream.read(memory, 0, found)
    np.testing.assert_array_equal(found, np.arange(8) + 6)


def test_a_text_is_built_once_an_engine(engine):
    text = INCREMENT + "\n// once"
    engine.build(text, "increment")
    assert not engine.build(text, "increment")


def test_copies_reach_any_offset(engine):
    memory = engine.upload(np.zeros(16, np.uint8), "x")
    engine.stream.write(memory, 5, np.array([1, 2, 3], np.uint8))
    found = np.empty(4, np.uint8)
    engine.stream.read(memory, 4, found)
    np.testing.assert_array_equal(found, [0, 1, 2, 3])
    engine.stream.fill(memory, 7)
    engine.stream.read(memory, 4, found)
    np.testing.assert_array_equal(found, [7, 7, 7, 7])


def test_more_than_the_device_allocates_is_refused_with_size_and_limit(engine):
    limit = engine.info.max_alloc
    with pytest.raises(DeviceMemoryError, match=f"the arena takes {limit + 1} bytes; .* at most {limit} at once"):
        engine.allocate(limit + 1, "the arena")


def test_a_text_that_does_not_compile_names_the_kernel_and_shows_the_log(engine):
    with pytest.raises(KernelBuildError, match="kernel my_kernel does not compile") as caught:
        engine.build("__kernel void f(__global int* x) { x[0] = nonsense; }", "my_kernel")
    assert "nonsense" in str(caught.value)


def test_a_library_that_does_not_compile_is_the_same_error_from_the_child(engine):
    with pytest.raises(KernelBuildError, match="library broken") as caught:
        engine.build(
            "__kernel void executor_tiles(__global int* x) { x[0] = nonsense; }", "library broken", library=True
        )
    assert "nonsense" in str(caught.value)


def test_a_missing_kernel_and_wrong_arguments_are_build_errors(engine):
    memory = engine.allocate(64, "x")
    with pytest.raises(KernelBuildError, match="decrement"):
        engine.kernel(INCREMENT, "decrement", [memory, np.int32(1)])
    with pytest.raises(KernelBuildError, match="does not take 1 arguments"):
        engine.kernel(INCREMENT, "increment", [memory])


def test_the_host_is_no_opencl_device():
    with pytest.raises(DeviceError, match="host is not an OpenCL device"):
        Engine(HOST)


def test_with_one_thread_a_cpu_device_computes_on_one_core(engine):
    if engine.info.kind != "cpu":
        pytest.skip("threads are a CPU's")
    single = Engine(engine.device, threads=1)
    assert single.info.workers == 1
    memory = single.upload(np.arange(64, dtype=np.int32), "x")
    single.kernel(INCREMENT, "increment", [memory, np.int32(3)]).on(single.stream, (64,), None)()
    found = np.empty(64, np.int32)
    single.stream.read(memory, 0, found)
    np.testing.assert_array_equal(found, np.arange(64) + 3)
    if engine.info.name.startswith("pocl"):
        assert single._handle.max_compute_units == 1


def test_a_kernel_takes_no_code_of_its_own(engine, monkeypatch):
    compiled = []
    memory = engine.upload(np.zeros(64, np.int32), "x")
    engine.kernel(INCREMENT, "increment", [memory, np.int32(1)])
    monkeypatch.setattr("builtins.compile", lambda *arguments, **options: compiled.append(arguments))
    engine.kernel(INCREMENT, "increment", [memory, np.int32(2)])
    assert compiled == []


def test_what_is_remembered_of_a_text_is_looked_up_once(engine, monkeypatch):
    text = f"// {np.random.default_rng().integers(1 << 62)}"
    read = []
    cached = engine.programs._cache.read
    monkeypatch.setattr(engine.programs._cache, "read", lambda key: read.append(key) or cached(key))
    assert not engine.programs.remembers(text, "it is good")
    engine.programs.remember(text, "it is good")
    assert engine.programs.remembers(text, "it is good")
    assert engine.beside().programs.remembers(text, "it is good")
    assert not engine.programs.remembers(text, "it is better")
    assert len(read) == 2


def test_a_kernel_whose_binary_was_kept_is_not_built_of_its_text_again(engine, tmp_path, monkeypatch):
    """It takes any size of work-group, whichever it ran with when it was kept."""

    def run(engine, group):
        memory = engine.upload(np.arange(64, dtype=np.int32), "x")
        engine.kernel(text, "increment", [memory, np.int32(3)]).on(engine.stream, (64,), group)()
        found = np.empty(64, np.int32)
        engine.stream.read(memory, 0, found)
        np.testing.assert_array_equal(found, np.arange(64) + 3)

    text, built = INCREMENT + "\n// kept", []
    build = binaries.build
    monkeypatch.setattr(binaries, "build", lambda *args: built.append(args[2]) or build(*args))
    keeping, other = Engine(engine.device), Engine(engine.device)
    keeping.programs._cache = other.programs._cache = binaries.ProgramCache(tmp_path)
    run(keeping, (1,))
    keeping.programs.keep_binaries(["another text"])
    keeping.programs.keep_binaries([text])
    keeping.programs.keep_binaries([text])
    run(other, (4,))
    assert built == [text]


@pytest.mark.parametrize("where", ["memory", "disk"])
def test_a_program_without_its_kernel_is_built_again_from_the_text(engine, where, monkeypatch):
    """As PoCL makes them while its cache is removed: one process met that in half an hour of it."""
    text = f"{INCREMENT}\n// {where}"
    other = binaries.build(engine._context, engine._handle, "__kernel void other() {}", "", "other")
    if where == "memory":
        monkeypatch.setitem(engine.programs._built, (text, False), other)
    else:
        engine.programs._cache.write(engine.programs._key(text, False), binaries.to_binary(other))
    memory = engine.upload(np.zeros(4, np.int32), "x")
    engine.kernel(text, "increment", [memory, np.int32(3)])
    assert engine.programs._cache.read(engine.programs._key(text, False)) != binaries.to_binary(other)
    with pytest.raises(KernelBuildError, match="decrement does not take 0 arguments"):
        engine.kernel(text, "decrement", [])
