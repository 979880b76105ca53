"""What surrounds every test: who may open a device, and what a worker tells of it."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from clgraph.core.part import folder_of
from clgraph.runtime import wheel
from clgraph.runtime.device import devices
from clgraph.runtime.engine import Engine
from tests.conftest import pytest_collection
from tests.support import told
from tests.support.told import is_read


def _refused() -> bool:
    with pytest.raises(pytest.fail.Exception, match="has the mark opencl"):
        Engine(None)  # type: ignore[arg-type]
    return True


@pytest.fixture(scope="module")
def tried() -> bool:
    """Whether no device could be opened in a fixture that other tests share."""
    return _refused()


def test_a_test_without_the_mark_opens_no_device_nor_does_what_it_shares_with_others(tried: bool) -> None:
    assert tried
    assert _refused()


@pytest.mark.opencl
def test_a_test_with_the_mark_may() -> None:
    assert Engine.__init__.__qualname__ == "Engine.__init__"


def test_a_test_without_the_mark_sees_no_driver_nor_do_processes_that_it_starts() -> None:
    assert [d.info.name for d in devices() if d.handle is not None] == []
    with pytest.raises(pytest.fail.Exception, match="has the mark opencl"):
        wheel.wheel_decision.__wrapped__()
    code = "from clgraph.runtime.opencl import load; print(load().get_platforms())"
    # Where the loader of pyopencl looks for drivers of its own.
    environment = {**os.environ, "PYOPENCL_HOME": str(folder_of("pyopencl"))}
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert "PLATFORM_NOT_FOUND_KHR" in ended.stderr


def report(**of: Any) -> dict[str, Any]:
    common = {"when": "setup", "outcome": "passed", "duration": 0.001, "sections": [], "user_properties": []}
    return {**common, "keywords": {"mark": 1}, **of}


def test_preparations_are_told_of_that_failed_printed_or_took_long() -> None:
    assert not is_read("testreport", report())
    assert not is_read("testreport", report(when="teardown"))
    assert not is_read("logstart", {})
    assert not is_read("logfinish", {})
    assert is_read("runtest_protocol_complete", {})
    for of in ({"when": "call"}, {"outcome": "failed"}, {"outcome": "skipped"}, {"duration": 0.1}):
        assert is_read("testreport", report(**of))
    for of in ({"sections": [("out", "x")]}, {"user_properties": [("a", 1)]}):
        assert is_read("testreport", report(**of))


class WorkerInteractor:
    """What xdist has a worker send by."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def sendevent(self, name: str, **what: Any) -> None:
        self.sent.append((name, what))


@pytest.mark.parametrize(("verbose", "xmlpath", "count"), [(-1, None, 2), (1, None, 4), (-1, "junit.xml", 4)])
def test_a_worker_sends_what_is_read_and_without_keywords(verbose: int, xmlpath: str | None, count: int) -> None:
    worker = WorkerInteractor()
    option = SimpleNamespace(verbose=verbose)
    plugins = SimpleNamespace(get_plugins=lambda: [object(), worker])
    config = SimpleNamespace(pluginmanager=plugins, option=option, getoption=lambda name, default: xmlpath)
    told.pytest_sessionstart(SimpleNamespace(config=config))  # type: ignore[arg-type]
    failed = report(outcome="failed")
    for data in (report(), report(when="call"), failed):
        worker.sendevent("testreport", data=data)
    worker.sendevent("logstart", nodeid="a")
    assert len(worker.sent) == count
    assert ("testreport", {"data": report(outcome="failed")}) in worker.sent
    if count == 2:
        assert worker.sent[0] == ("testreport", {"data": report(when="call", keywords={})})


def test_devices_are_not_asked_for_while_tests_are_collected(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    collecting = pytest_collection(request.session)
    next(collecting)
    with pytest.raises(RuntimeError, match="while tests are collected"):
        devices()
    collecting.close()
