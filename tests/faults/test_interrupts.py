"""Ctrl-C and other signal handlers' exceptions at any moment of a compilation or a run.

The same objects give the same results afterwards.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import clgraph
from tests.support.launch_interrupts import LaunchInterrupts
from tests.support.models import image, small_model

pytestmark = pytest.mark.opencl
ROOT = Path(__file__).resolve().parents[2]

CHILD = """
import signal, sys
import numpy as np
import clgraph
from tests.support.models import image, small_model

class Alarm(Exception):
    pass

device, what, wanted_hits = sys.argv[1], sys.argv[2], int(sys.argv[3])
Raised = {"KeyboardInterrupt": KeyboardInterrupt, "Alarm": Alarm}[sys.argv[4]]
sizes = range(8, 28, 2)
feeds = {n: image((1, 3, n, 72), n) for n in sizes}
static = {n: clgraph.compile(small_model(size="n"), device=device) for n in sizes}
wanted = {n: static[n](x) for n, x in feeds.items()}
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
        if not np.array_equal(got, wanted[n]):
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
    except KeyError as error:
        # Thread.start takes any Exception for its own failure, and forgets a thread that has begun (Python 3.11).
        if not isinstance(error.__context__, Raised):
            raise
        hits += 1
signal.signal(signal.SIGINT, signal.SIG_IGN)
for n, x in feeds.items():
    assert np.array_equal(model(x), wanted[n])
    assert np.array_equal(model.clone()(x), wanted[n])
model.close()
print("done", hits, turn, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
# Not a class that code takes for an answer: a ValueError while a kept measurement is read means that it is damaged.
@pytest.mark.parametrize("raised", ["KeyboardInterrupt", "Alarm"])
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


@pytest.mark.usefixtures("several_units")
def test_an_interrupt_between_the_other_workers_and_the_caller_leaves_the_model_as_it_was(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = small_model(64, 112)
    pictures = [image((1, 3, 112, 112), seed) for seed in range(3)]
    wanted = [clgraph.compile(graph, device=device, threads=1)(picture) for picture in pictures]
    interrupts = LaunchInterrupts(monkeypatch)
    model = clgraph.compile(graph, device=device, threads=2)
    assert np.array_equal(model(pictures[0]), wanted[0])
    for options in ({}, {"timeout": 60}):
        interrupts.armed = True
        with pytest.raises(KeyboardInterrupt):
            model.run({"x": pictures[1]}, **options)
        assert not interrupts.leaves_counters
        for picture, result in zip(pictures, wanted, strict=True):
            assert np.array_equal(model.run({"x": picture}, **options)["y"], result)
