"""Python's collector waits while members are bound, and is as it was behind that."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest

from clgraph.core.collector import PAUSED, PYTHONS, count_as_lasting
from tests.support.models import small_model


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


def test_what_a_process_keeps_from_the_collector_stays_so() -> None:
    before = gc.get_freeze_count() >= PYTHONS
    if not before:
        gc.freeze()
    try:
        count_as_lasting()
        assert gc.get_freeze_count() >= PYTHONS
    finally:
        if not before:
            gc.unfreeze()


def test_the_first_start_of_a_process_is_not_walked_through_and_later_ones_are_as_ever(tmp_path: Path) -> None:
    onnx.save(small_model(), tmp_path / "model.onnx")
    code = """
import gc, sys, weakref, numpy
gc.collect()
class Cycle:
    def __init__(self):
        self.itself = self
gone = weakref.ref(Cycle())
met = []
gc.callbacks.append(lambda phase, about: met.append((about["generation"], gc.get_count()[0])))
import clgraph
def start():
    clgraph.compile(sys.argv[1], "null", config={"model_cache": 0})
start()
assert len(met) <= 4, met
young = gc.get_objects(0)
assert len(young) < 2000, len(young)
mine = [[]]
start()
assert not any(found is mine for found in gc.get_objects(2))
assert gone() is not None
gc.collect()
assert gone() is None
"""
    command = [sys.executable, "-c", code, str(tmp_path / "model.onnx")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
