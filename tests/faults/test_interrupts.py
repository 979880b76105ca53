"""Ctrl-C and other signal handlers' exceptions at any moment of a compilation or a run.

The same objects give the same results afterwards.
"""

from __future__ import annotations

import dis
import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from clgraph.model.run_queue import RunFuture
from clgraph.network.cancelling import Cancellation
from clgraph.throughput.requests import Request, RequestQueue
from tests.support.moments import interrupted, moments_of

pytestmark = pytest.mark.opencl
ROOT = Path(__file__).resolve().parents[2]

CHILD = """
import builtins, signal, sys
import numpy as np
import clgraph
from tests.support.models import image, small_model

device, what, wanted_hits, Raised = sys.argv[1], sys.argv[2], int(sys.argv[3]), getattr(builtins, sys.argv[4])
sizes = range(8, 28, 2)
feeds = {n: image((1, 3, n, 72), n) for n in sizes}
static = {n: clgraph.compile(small_model(size="n"), device=device) for n in sizes}
# All modules are imported here: a ValueError while Python looks for one means to it that there is none.
wanted = {n: static[n].run_async({"x": x}).result()["y"] for n, x in feeds.items()}
assert all(static[n](x).tobytes() == wanted[n].tobytes() for n, x in feeds.items())
model = clgraph.compile(small_model(size="n"), device=device)
turn = hits = 0
armed = False

def interrupt(*_):
    # As Python's own handler does, but never while the last interrupt is still being counted.
    global armed
    if armed:
        armed = False
        raise Raised

def work():
    global turn, armed
    while True:
        turn += 1
        # Each turn: Python drops an exception that comes while it frees something.
        armed = True
        n = list(sizes)[turn % len(sizes)] if what == "compile" else 8
        with_future = turn % 3 == 0
        got = model.run_async({"x": feeds[n]}).result()["y"] if with_future else model(feeds[n])
        # Not by array_equal: it takes any exception that arrives in it for arrays that are no such.
        if got.tobytes() != wanted[n].tobytes():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            print("wrong after", hits, flush=True)
            sys.exit(3)

signal.signal(signal.SIGINT, interrupt)
print("ready", flush=True)
while hits < wanted_hits:
    try:
        work()
    except Raised:
        hits += 1
signal.signal(signal.SIGINT, signal.SIG_IGN)
for n, x in feeds.items():
    assert np.array_equal(model(x), wanted[n])
    assert np.array_equal(model.clone()(x), wanted[n])
model.close()
print("done", hits, turn, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("raised", ["KeyboardInterrupt", "ValueError", "TimeoutError"])
@pytest.mark.parametrize("what", ["compile", "run"])
def test_interrupts_leave_the_model_as_it_was(device: str, what: str, raised: str) -> None:
    hits = 40
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, device, what, str(hits), raised],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n", child.communicate()[1]
        moments = random.Random(what)
        deadline = time.monotonic() + 60
        while child.poll() is None and time.monotonic() < deadline:
            time.sleep(moments.uniform(0.001, 0.03))
            child.send_signal(signal.SIGINT)
        said, errors = child.communicate(timeout=60)
    finally:
        child.kill()
    assert child.returncode == 0, said + errors
    assert said.startswith(f"done {hits}")


def test_a_request_that_is_interrupted_as_it_is_sent_leaves_its_room_to_others() -> None:
    queue = RequestQueue(1)

    def send() -> None:
        queue.put(Request({}, RunFuture()), 0)

    def serve() -> None:
        while queue._sent.qsize() and (request := queue._sent.get()) is not None:
            queue._leave(request)

    moments = moments_of(send)
    serve()
    for moment in moments:
        with interrupted(moment, KeyboardInterrupt()) as told:
            send()
        serve()
        assert told.happened
        assert queue.waiting == 0, moment


def test_an_interrupt_behind_any_call_of_a_run_that_may_be_ended_leaves_no_lock_held() -> None:
    lock, calls = threading.RLock(), dis.opmap["CALL"]

    def hold(interrupted: int) -> bool:
        """Return whether there are so many calls that an interrupt may come behind."""
        before = done = 0

        def trace(frame: FrameType, event: str, _: object) -> Any:
            nonlocal before, done
            if frame.f_code.co_name != "holding":
                return None
            frame.f_trace_opcodes = True
            if event == "opcode":
                done += before == calls
                if before == calls and done == interrupted:
                    raise KeyboardInterrupt
                before = frame.f_code.co_code[frame.f_lasti]
            return trace

        sys.settrace(trace)
        try:
            with Cancellation().holding(lock):
                pass
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(None)
        return False

    number = 1
    while hold(number):
        other = ThreadPoolExecutor(1)
        assert other.submit(lock.acquire, timeout=1).result(), number
        other.submit(lock.release).result()
        number += 1
    assert number > 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize(("scenario", "every"), [("compile", 700), ("run", 400), ("session", 300)])
def test_an_interrupt_at_a_line_leaves_kernels_and_bits_as_they_were(device: str, scenario: str, every: int) -> None:
    tool = str(ROOT / "tools" / "check_interrupts")
    command = [sys.executable, tool, scenario, "--every", str(every), "--device", device]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
