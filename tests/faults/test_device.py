"""What a driver refuses or reports: one DeviceError, whichever command it is, and the next one works."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from clgraph.errors import DeviceError, DeviceMemoryError
from clgraph.runtime import driver, executor, kernels
from clgraph.runtime.engine import Engine
from clgraph.selector.library import compose

pytestmark = pytest.mark.opencl
OUT_OF_RESOURCES, ALLOCATION_FAILURE = -5, -4


@pytest.mark.parametrize(
    ("function", "command"),
    [
        ("_enqueue_write_buffer", lambda engine, a, b: engine.stream.write(a, 0, np.zeros(4, np.float32))),
        ("_enqueue_read_buffer", lambda engine, a, b: engine.stream.read(a, 0, np.zeros(4, np.float32))),
        ("_enqueue_copy_buffer", lambda engine, a, b: engine.stream.copy(a, b, 0, 16)),
        ("_enqueue_fill_buffer", lambda engine, a, b: engine.stream.fill(a)),
        ("_enqueue_marker_with_wait_list", lambda engine, a, b: engine.stream.marker()),
        ("CommandQueue", lambda engine, a, b: engine.profiling_stream()),
    ],
)
def test_a_command_that_the_driver_refuses_is_a_device_error(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, function: str, command: Callable[..., Any]
) -> None:
    cl = driver.load()
    one, two = engine.allocate(16, "one"), engine.allocate(16, "two")
    for code, made, expected in [
        (OUT_OF_RESOURCES, cl.RuntimeError, DeviceError),
        (ALLOCATION_FAILURE, cl.MemoryError, DeviceError if function == "CommandQueue" else DeviceMemoryError),
    ]:

        def refuse(*_: Any, code: int = code, made: Any = made, **__: Any) -> None:
            raise made(cl._cl._ErrorRecord(function, code, ""))

        with monkeypatch.context() as patch:
            patch.setattr(cl, function, refuse)
            with pytest.raises(expected, match=re.escape(function)) as caught:
                command(engine, one, two)
            assert type(caught.value) is expected
    command(engine, one, two)
    engine.stream.finish()


def test_a_refused_launch_of_the_executors_test_is_a_device_error_and_says_nothing_of_the_next(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine.info.kind != "cpu":
        pytest.skip("GPUs run no tiles")
    library = compose("core", engine.info.simd)
    calls = kernels._functions(driver.load())
    with monkeypatch.context() as patch:
        patch.setitem(calls, "clEnqueueNDRangeKernel", lambda *_: OUT_OF_RESOURCES)
        with pytest.raises(DeviceError, match=r"failed in the executor's test: .*OUT_OF_RESOURCES"):
            executor.run_probe(engine, library)
    assert executor.run_probe(engine, library) is None
