"""Turns of processes: one does a thing while others wait, and none waits for ever."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from clgraph.core.turns import in_turn

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no flock")


def test_turns_do_not_overlap_and_the_second_finds_what_the_first_has_made(tmp_path: Path) -> None:
    made = tmp_path / "made"
    times = []

    def make() -> None:
        with in_turn(tmp_path / "turn", 60):
            if not made.exists():
                time.sleep(0.1)
                made.write_text("made")
                times.append(time.monotonic())

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(make) for _ in range(4)]:
            done.result()
    assert len(times) == 1


def test_a_turn_that_does_not_end_is_waited_for_as_long_as_asked_and_an_error_ends_one(tmp_path: Path) -> None:
    path = tmp_path / "turn"
    with in_turn(path, 60):
        start = time.monotonic()
        with in_turn(path, 0.1):
            assert time.monotonic() - start >= 0.1
    with pytest.raises(ZeroDivisionError), in_turn(path, 60):
        raise ZeroDivisionError
    start = time.monotonic()
    with in_turn(path, 60):
        assert time.monotonic() - start < 30


def test_a_folder_that_is_not_there_lets_everybody_go_on(tmp_path: Path) -> None:
    with in_turn(tmp_path / "missing" / "turn", 60):
        pass
