import os
import struct
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from clgraph.errors import DeviceError
from clgraph.runtime import binaries, calling_thread, driver, pocl
from clgraph.runtime.device import devices
from clgraph.runtime.engine import Engine
from clgraph.runtime.wheel import is_wheel

PTHREAD, BASIC, PTHREAD_DRIVER, BASIC_DRIVER = 0x10000, 0x20000, 0x30000, 0x40000
FUNCTION = 0x7F0000790000
COUNT = """__kernel void count(__global int* x) {
    int sum = 0;
    for (int i = 0; i < 20000000; i++) sum = sum * 5 + i;
    x[0] = sum;
}"""


class Structs:
    """The device structs of two drivers, and the tables of their functions."""

    def __init__(self, apart):
        self.words = {
            PTHREAD + 880: PTHREAD_DRIVER,
            BASIC + 880: BASIC_DRIVER,
            PTHREAD_DRIVER + 480: FUNCTION + apart,
            BASIC_DRIVER + 480: FUNCTION,
        }

    def read(self, address, count):
        assert count == 8
        if address not in self.words:
            raise OSError("Input/output error")
        return struct.pack("<Q", self.words[address])

    def write(self, address, data):
        (self.words[address],) = struct.unpack("<Q", data)


def test_both_drivers_tell_their_code_apart_by_one_function():
    memory = Structs(pocl.BUILD_HASHES_APART)
    for _ in range(2):
        pocl.share_code(memory, PTHREAD, BASIC)
        assert memory.words[BASIC_DRIVER + 480] == memory.words[PTHREAD_DRIVER + 480] == FUNCTION + 7472


def test_drivers_that_do_not_look_as_known_are_not_touched():
    unknown, unmapped = Structs(32), Structs(pocl.BUILD_HASHES_APART)
    del unmapped.words[BASIC_DRIVER + 480]
    for memory in (unknown, unmapped):
        before = dict(memory.words)
        with pytest.raises(DeviceError, match="PoCL's drivers"):
            pocl.share_code(memory, PTHREAD, BASIC)
        assert memory.words == before


class Code:
    """PoCL's calls of the functions that set up its drivers."""

    def __init__(self, *functions):
        calls = (BASIC + offset for offset in pocl.DRIVER_CALLS)
        self.calls = {call: (function - call - 5) for call, function in zip(calls, functions, strict=True)}

    def read(self, address, count):
        if address not in self.calls:
            raise OSError("Input/output error")
        return b"\xe8" + struct.pack("<i", self.calls[address])[: count - 1]

    def write(self, address, data):
        assert data[0] == 0xE8
        (self.calls[address],) = struct.unpack("<i", data[1:])


def test_the_usual_driver_is_set_up_first_or_nothing_is_changed():
    for functions in ((BASIC, PTHREAD), (PTHREAD, BASIC)):
        memory = Code(*functions)
        pocl.list_pthread_first(memory, PTHREAD, BASIC)
        assert memory.calls == Code(PTHREAD, BASIC).calls
    memory = Code(BASIC, FUNCTION & 0xFFFFFF)
    before = dict(memory.calls)
    for basic in (BASIC, BASIC_DRIVER):
        with pytest.raises(DeviceError, match="PoCL"):
            pocl.list_pthread_first(memory, PTHREAD, basic)
    assert memory.calls == before


@pytest.mark.opencl
def test_other_code_of_the_process_finds_the_usual_device_first(alone):
    kinds = driver.load().device_type
    platform = alone.device.handle.platform
    assert [d.name.partition("-")[0] for d in platform.get_devices()] == ["pthread", "basic"]
    assert [d.name.partition("-")[0] for d in platform.get_devices(kinds.DEFAULT)] == ["pthread"]


def test_the_second_driver_is_asked_for_where_the_user_has_not_chosen(monkeypatch):
    variable, known, changed = "POCL_DEVICES", Path("libpocl.so"), Path("libpocl-changed.so")
    monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(calling_thread, "_comes_second", lambda library: library == known)
    with calling_thread.offered(known):
        assert os.environ[variable] == "basic pthread"
    with calling_thread.offered(changed):
        assert variable not in os.environ
    assert variable not in os.environ
    monkeypatch.setenv(variable, "pthread")
    with calling_thread.offered(known):
        assert os.environ[variable] == "pthread"
    assert os.environ[variable] == "pthread"


def test_a_device_that_is_the_only_one_stays(monkeypatch):
    monkeypatch.setattr(calling_thread, "is_wheel", lambda platform: True)
    monkeypatch.setattr(calling_thread, "_APART", {})
    basic, pthread = SimpleNamespace(name="basic-CPU"), SimpleNamespace(name="pthread-CPU")
    platform = SimpleNamespace(int_ptr=1)
    for alone in ([basic], [pthread]):
        assert calling_thread.set_apart(platform, alone) == alone
        assert not calling_thread._APART
    assert calling_thread.set_apart(platform, [basic, pthread]) == [pthread]
    assert {1: basic} == calling_thread._APART


@pytest.fixture
def alone(engine):
    """An engine of one thread on the wheel's PoCL."""
    if not is_wheel(engine.device.handle.platform):
        pytest.skip("only the wheel's PoCL is known to run kernels in the calling thread")
    return Engine(engine.device, threads=1)


@pytest.mark.opencl
def test_one_thread_is_the_one_that_calls(alone):
    memory = alone.upload(np.zeros(1, np.int32), "x")
    step = alone.kernel(COUNT, "count", [memory]).on(alone.stream, (1,), None)
    step()
    own, whole = time.thread_time(), time.process_time()
    for _ in range(3):
        step()
    alone.stream.finish()
    own, whole = time.thread_time() - own, time.process_time() - whole
    assert own > whole / 2


@pytest.mark.opencl
def test_the_device_for_one_thread_is_not_listed(alone):
    assert [d.info.name for d in devices() if d.label.startswith("basic-")] == []
    assert alone.device.label.startswith("pthread-")


@pytest.mark.opencl
def test_code_that_was_compiled_for_all_cores_is_taken(engine, alone):
    text = COUNT + "\n// shared"
    memory = engine.upload(np.zeros(1, np.int32), "x")
    engine.kernel(text, "count", [memory]).on(engine.stream, (1,), None)()
    engine.stream.finish()
    binary = binaries.to_binary(engine.programs._built[text, False])
    handle = calling_thread.beside(engine.device.handle)
    assert handle is not None
    options = binaries.options_for(alone.info.features, False, text)
    assert binaries.from_binary(driver.load().Context([handle]), handle, binary, options) is not None
