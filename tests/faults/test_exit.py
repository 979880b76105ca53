"""The interpreter ends while threads are inside the driver: status 0, nothing on stderr."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from clgraph.runtime.at_exit import DriverGate
from tests.support.combinations import each_value
from tests.support.progress import without_progress

ROOT = Path(__file__).resolve().parents[2]

CHILD = """
import itertools, sys, threading, time
import clgraph
from tests.support.models import image, small_model

device, kinds, delay = sys.argv[1], sys.argv[2].split(), float(sys.argv[3])
source, feeds = small_model(size="n"), {"x": image((1, 3, 120, 120))}
model = clgraph.compile(source, device=device)
model.run(feeds)

def forever(call):
    while True:
        call()

def opened(made):
    with made:
        made.run(feeds)

def cancelled():
    try:
        model.run(feeds, timeout=0.0005)
    except clgraph.errors.RunTimeoutError:
        pass

sizes = itertools.count()
path = sys.argv[4]
if "load" in kinds:
    model.save(path)

def submit():
    model.run_async(feeds)

twin = model.clone()
calls = {
    "run": [lambda: model.run(feeds)],
    "clones": [lambda: model.run(feeds), lambda: twin.run(feeds)],
    "run_async": [submit],
    "profile": [lambda: model.profile(feeds)],
    "compile": [lambda: clgraph.compile(source, device=device).run(feeds)],
    "close": [lambda: opened(model.clone()), lambda: model.run(feeds)],
    "load": [lambda: opened(clgraph.load(path, device=device))],
    "cancel": [cancelled, lambda: model.run(feeds)],
    "tensors": [lambda: model.run(feeds, tensors=True)["y"].numpy()],
    "shapes": [lambda: model.run({"x": image((1, 3, 20 + next(sizes) % 90, 20))})],
}
if {"streams", "requests"} & set(kinds):
    streams = clgraph.compile(source, device=device, hint="throughput", streams=2, queue_size=8)
    run = lambda: streams.run(feeds)
    calls |= {"streams": [run, run, run], "requests": [lambda: streams.submit(feeds)]}
if "generate" in kinds:
    from pathlib import Path
    from tests.support.decoder_folder import write_decoder_folder
    from tests.support.decoder_weights import Decoder
    language = clgraph.generate.load(write_decoder_folder(Path(path).parent / "decoder", Decoder(layers=1)), device)
    options = clgraph.generate.Options(max_tokens=4, ignore_end=True)
    calls["generate"] = [lambda: list(language.tokens([1, 5], options))]
if "queued" in kinds:
    futures = [model.run_async(feeds) for _ in range(20)]
for call in [c for kind in kinds for c in calls.get(kind, [])]:
    threading.Thread(target=forever, args=(call,), daemon=True).start()
if "foreground" in kinds:
    threading.Thread(target=lambda: [model.run(feeds) for _ in range(20)]).start()
time.sleep(delay)
"""


@pytest.mark.opencl
@each_value(
    kinds=[
        *("run profile tensors", "clones close", "run_async queued", "compile load shapes", "cancel", "foreground"),
        *("streams requests", "generate"),
    ],
    delay=[0.1, 0.0],
)
def test_a_process_ends_well_whatever_its_threads_are_in(kinds: str, delay: float, device: str, tmp_path: Path) -> None:
    """Threads of several kinds end with one process, which takes half a second."""
    command = [sys.executable, "-c", CHILD, device, kinds, str(delay), str(tmp_path / "model.clg")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, without_progress(done.stderr)) == (0, "")


WAITING = """
import sys, threading, time
import clgraph
from clgraph.runtime.at_exit import GATE
from tests.compilation.test_pool import X, each, pool_of
from tests.support.waiting import until

pool, inside = pool_of(2, int(1.5 * each(sys.argv[1])), sys.argv[1], patience=5), threading.Event()

def user():
    with pool.using("0") as model:
        model.run(X)
        inside.set()
        until(lambda: GATE._closed)
        model.run(X)

for call in (user, lambda: inside.wait() and pool.run("1", X)):
    threading.Thread(target=call, daemon=True).start()
until(lambda: pool._entries["0"].leaving)
"""


@pytest.mark.opencl
def test_a_process_ends_while_a_run_waits_for_room_that_another_has(device: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WAITING, device], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, without_progress(done.stderr)) == (0, "")


def _daemon(call) -> threading.Thread:
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread


def test_a_closed_gate_has_waited_for_who_was_inside_and_keeps_others_out() -> None:
    gate, entered, leave = DriverGate(), threading.Event(), threading.Event()

    def stay() -> None:
        with gate, gate:
            entered.set()
            leave.wait()

    inside = _daemon(stay)
    assert entered.wait(10)
    closing = _daemon(gate.close)
    closing.join(0.05)
    assert closing.is_alive()
    leave.set()
    inside.join(10)
    closing.join(10)
    assert not inside.is_alive()
    assert not closing.is_alive()
    late = _daemon(gate.__enter__)
    late.join(0.05)
    assert late.is_alive()
    with gate:
        """Threads that are no daemons are never held up."""
