"""Memory that gives out at any moment: one DeviceMemoryError, and the object works when there is some again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import pytest

import clgraph
from clgraph.errors import DeviceMemoryError
from clgraph.network import feed, tensors
from clgraph.runtime import driver, memory
from tests.support.models import image, small_model

pytestmark = pytest.mark.opencl
SHAPE = (1, 3, 128, 128)


class Failing:
    """A function that raises at one of its calls, and counts them."""

    def __init__(self, work: Callable[..., Any], at: int, error: Exception) -> None:
        self._work, self._at, self._error = work, at, error
        self.calls = 0

    def __call__(self, *args: Any, **options: Any) -> Any:
        self.calls += 1
        if self.calls == self._at:
            raise self._error
        return self._work(*args, **options)


def out_of_memory() -> Exception:
    cl = driver.load()
    error: Exception = cl.MemoryError(
        cl._cl._ErrorRecord("out of memory", cl.status_code.MEM_OBJECT_ALLOCATION_FAILURE, "x")
    )
    return error


@contextmanager
def buffers_fail(monkeypatch: pytest.MonkeyPatch, at: int) -> Iterator[Failing]:
    """Let the driver refuse the buffer of a number."""
    cl = driver.load()
    with monkeypatch.context() as patch:
        failing = Failing(cl.Buffer, at, out_of_memory())
        patch.setattr(cl, "Buffer", failing)
        yield failing


@contextmanager
def arrays_fail(monkeypatch: pytest.MonkeyPatch, at: int) -> Iterator[Failing]:
    """Let the host refuse the aligned memory of a number."""
    with monkeypatch.context() as patch:
        failing = Failing(memory.aligned, at, MemoryError("no memory"))
        patch.setattr(memory, "aligned", failing)
        patch.setattr(tensors, "aligned", failing)
        yield failing


KINDS = [buffers_fail, arrays_fail]


@pytest.mark.parametrize("fails", KINDS)
def test_whichever_allocation_of_a_compilation_fails_the_next_one_is_right(device: str, monkeypatch, fails) -> None:
    model = clgraph.compile(small_model(size="n"), device=device)
    x = image(SHAPE)
    want = clgraph.compile(small_model(size="n"), device=device)(x)
    for number in range(1, 100):
        with fails(monkeypatch, number) as failing, suppress(DeviceMemoryError):
            model.prepare({"x": SHAPE})
            break
        assert failing.calls == number
        assert not model._specialisations.kept
    assert number > 5
    np.testing.assert_array_equal(model(x), want)


@pytest.mark.parametrize("fails", KINDS)
def test_whichever_allocation_of_a_run_fails_the_next_run_is_right(device: str, monkeypatch, fails) -> None:
    model = clgraph.compile(small_model(size="n"), device=device)
    x = image(SHAPE)
    want = model(x)
    held = []

    def run() -> Any:
        """Run with an array at a new address, and keep the result: memory that is known or free takes no allocation."""
        held.append(x.copy())
        held.append(model(held[-1]))
        return held[-1]

    with fails(monkeypatch, 0) as counting:
        run()
    assert counting.calls > 0
    for number in range(1, counting.calls + 1):
        with fails(monkeypatch, number), pytest.raises(DeviceMemoryError):
            run()
        np.testing.assert_array_equal(run(), want)
    with fails(monkeypatch, 1), pytest.raises(DeviceMemoryError):
        model.run({"x": x}, tensors=True)
    np.testing.assert_array_equal(model(x), want)


@pytest.mark.parametrize("fails", KINDS)
def test_a_clone_that_finds_no_memory_leaves_its_model_as_it_was(device: str, monkeypatch, fails) -> None:
    model = clgraph.compile(small_model(size=128), device=device)
    x = image(SHAPE)
    want = model(x)
    with fails(monkeypatch, 1), pytest.raises(DeviceMemoryError):
        model.clone()
    np.testing.assert_array_equal(model(x), want)
    np.testing.assert_array_equal(model.clone()(x), want)


def test_a_feed_that_cannot_be_copied_is_one_error(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = clgraph.compile(small_model(size=128), device=device)
    x = image(SHAPE)
    want = model(x)
    with monkeypatch.context() as patch:
        patch.setattr(feed.np, "ascontiguousarray", Failing(np.ascontiguousarray, 1, MemoryError("no memory")))
        with pytest.raises(DeviceMemoryError, match="no memory left"):
            model(np.asfortranarray(x))
    np.testing.assert_array_equal(model(np.asfortranarray(x)), want)


@pytest.mark.parametrize("size", [1 << 24, 1 << 31, 1 << 48, 1 << 62])
def test_absurd_sizes_are_one_error(device: str, size: int) -> None:
    model = clgraph.compile(small_model(size="n"), device=device)
    for huge in ((1, 3, 8, size), (1, 3, size, size)):
        with pytest.raises(DeviceMemoryError, match=r"the device allocates at most|no device holds"):
            model.prepare({"x": huge})
    if size < 1 << 31:
        with pytest.raises(DeviceMemoryError):
            model.run({"x": np.broadcast_to(np.float32(0), (1, 3, size, size))})
    assert model(image((1, 3, 8, 8))).shape == (1, 8, 4, 4)
