"""Processes that are forked after a session has run: their sessions give the same results, by another process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.opencl, pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")]
ROOT = Path(__file__).resolve().parents[2]

CODE = """
import gc, os, signal, sys
import numpy as np
import clgraph.onnxruntime as ort
from clgraph.onnxruntime.forked import PROCESSES
from clgraph.onnxruntime.statuses import StatusError
from tests.support.ort_models import two_inputs

def session():
    made = ort.InferenceSession(two_inputs().SerializeToString(), options, providers=["CPUExecutionProvider"])
    return made

options = ort.SessionOptions()
options.enable_profiling, options.profile_file_prefix = True, "trace"
feeds = {"a": np.arange(3, dtype=np.float32), "b": np.full(3, 7, np.float32)}
before = session()
want = before.run(["total", "difference"], feeds)
pid = os.fork()
if pid == 0:
    signal.alarm(120)
    options.enable_profiling = False
    for found in (before, session()):
        assert np.array_equal(found.run(["total", "difference"], feeds), want)
        place = np.zeros(3, np.float32)
        binding = found.io_binding()
        for name, array in feeds.items():
            binding.bind_cpu_input(name, array)
        binding.bind_output("total", "cpu", 0, np.float32, place.shape, place.ctypes.data)
        found.run_with_iobinding(binding)
        assert np.array_equal(place, want[0])
        binding.bind_output("total", "cpu", 0, np.float32, (1,), place.ctypes.data)
        try:
            found.run_with_iobinding(binding)
        except RuntimeError:
            pass
        else:
            raise AssertionError("a place of another size was taken")
        assert found.get_outputs()[0].name == "total"
        assert found.end_profiling() == ""
    def interrupted():
        raise KeyboardInterrupt
    for harm in (lambda p: setattr(p._asked, "recv", interrupted), lambda p: os.kill(p._started.pid, signal.SIGKILL)):
        shared = PROCESSES[os.getpid()]
        harm(shared)
        try:
            before.run(["total"], {**feeds, "b": feeds["a"]})
        except (StatusError, KeyboardInterrupt):
            pass
        else:
            raise AssertionError("no error")
        assert np.array_equal(before.run(["total", "difference"], feeds), want)
    shared = PROCESSES[os.getpid()]
    started = shared._started
    del before, found, binding, shared, session
    gc.collect()
    assert started.poll() is not None, 'it ends with the last session'
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert np.array_equal(before.run(["total", "difference"], feeds), want)
"""


def test_sessions_of_a_forked_process_give_the_same_results(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", CODE], cwd=tmp_path, capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("was forked: its sessions run in another process") == 3
    assert len(list(tmp_path.glob("trace*.json"))) == 1
