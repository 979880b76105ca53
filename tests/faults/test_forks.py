"""Forks at any moment: the child is told at once, whatever the parent's threads were doing, and the parent works on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.opencl, pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")]
ROOT = Path(__file__).resolve().parents[2]

CODE = """
import os, signal, sys, threading
import numpy as np
import clgraph
from clgraph.errors import DeviceError
from clgraph.network.quick import QuickRun
from tests.support.models import image, small_model

device, what = sys.argv[1:]
model = clgraph.compile(small_model(), device=device)
x = image((1, 3, 10, 10))
want = model(x)
inside, go_on = threading.Event(), threading.Event()
run = QuickRun.__call__

def slow(*args):
    inside.set()
    go_on.wait(30)
    return run(*args)

QuickRun.__call__ = slow
future = model.run_async({"x": x})
assert inside.wait(30)
QuickRun.__call__ = run
calls = {
    "run": lambda: model(x),
    "run_async": lambda: model.run_async({"x": x}).result(30),
    "clone": model.clone,
    "prepare": model.prepare,
    "profile": lambda: model.profile({"x": x}),
    "compile": lambda: clgraph.compile(small_model(), device=device)(x),
    "tensor": lambda: clgraph.Tensor(x, device),
    "close": model.close,
}
pid = os.fork()
if pid == 0:
    signal.alarm(60)
    try:
        calls[what]()
    except DeviceError as error:
        os._exit(0 if "fork" in str(error) else 3)
    os._exit(1)
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
go_on.set()
assert np.array_equal(future.result(30)["y"], want)
assert np.array_equal(model(x), want)
sys.exit(code)
"""


@pytest.mark.parametrize("what", ["run", "run_async", "clone", "compile"])
def test_a_forked_child_is_told_while_the_parent_runs(device: str, what: str) -> None:
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", CODE, device, what], env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
