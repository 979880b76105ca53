"""Python's collector waits while members are bound, and is as it was behind that."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

from clgraph.core.collector import PAUSED


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    was = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if was else gc.disable)()


def test_the_collector_waits_inside_and_goes_on_behind() -> None:
    with PAUSED:
        assert not gc.isenabled()
        with PAUSED:
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ValueError, match="x"), PAUSED:
        raise ValueError("x")
    assert gc.isenabled()


def test_one_that_the_process_has_switched_off_stays_off() -> None:
    gc.disable()
    with PAUSED:
        pass
    assert not gc.isenabled()


def test_it_goes_on_behind_the_last_of_several_threads() -> None:
    """The first thread to come is the first to leave."""
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with PAUSED:
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with PAUSED:
        thread.start()
        assert inside.wait(10)
    assert not gc.isenabled()
    leave.set()
    thread.join(10)
    assert gc.isenabled()
