"""Work in another process: what it returns, how it may end, and that it is limited."""

import io
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from clgraph.errors import DeviceError, RunCancelledError
from clgraph.runtime import child, compile_child
from tests.support.waiting import until

MODULE = "clgraph_child_of_a_test"


@pytest.fixture
def run(tmp_path, monkeypatch):
    def start(body: str, cpu_seconds: int = 60):
        head = "import json, os, sys, time\nfrom clgraph.runtime import child\nwork = json.load(sys.stdin)\n"
        (tmp_path / f"{MODULE}.py").write_text(head + body, encoding="utf-8")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        return child.run(MODULE, {"x": 20}, cpu_seconds, str(tmp_path), {"CHILDS_OWN": "22"})

    return start


def test_the_last_line_is_the_result(run):
    ended = run(
        "print('noise')\nprint('warned', file=sys.stderr)\nprint(json.dumps(work['x'] + int(os.environ['CHILDS_OWN'])))"
    )
    assert (ended.result, ended.why, ended.died) == (42, "", False)
    assert ended.log == "warned\n"


def test_a_child_that_computes_for_ever_ends_at_its_limit_whatever_its_threads_do(run):
    spin = "def spin():\n    while True: pass\n"
    ended = run(
        f"import threading\nchild.limit(work['cpu_seconds'])\n{spin}threading.Thread(target=spin).start()\nspin()", 1
    )
    assert ended.died
    assert ended.why == "it took more than 1 s of CPU time"


def test_a_child_that_waits_for_ever_is_ended(run, monkeypatch):
    monkeypatch.setattr(child, "_IDLE_SECONDS", 0.1)
    monkeypatch.setattr(child, "_POLL_SECONDS", 0.05)
    ended = run("time.sleep(60)")
    assert ended.died
    assert "waited" in ended.why


def test_a_child_that_starts_slowly_gets_all_of_its_work(tmp_path, monkeypatch):
    monkeypatch.setattr(child, "_POLL_SECONDS", 0.05)
    monkeypatch.setattr(child, "_IDLE_SECONDS", 3.0)
    body = "import json, sys, time\ntime.sleep(0.2)\nprint(len(json.load(sys.stdin)['text']))\n"
    (tmp_path / f"{MODULE}.py").write_text(body, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    # More than a pipe holds.
    assert child.run(MODULE, {"text": "x" * (1 << 20)}, 60, str(tmp_path)).result == 1 << 20


def test_a_child_that_takes_its_time_but_works_is_not_ended(run, monkeypatch):
    monkeypatch.setattr(child, "_IDLE_SECONDS", 0.8)
    monkeypatch.setattr(child, "_POLL_SECONDS", 0.05)
    busy = "while time.process_time() < 1.2: sum(range(1000))\nprint(1)"
    assert run(busy).result == 1


def test_a_child_cannot_take_all_memory(run):
    # Bytes that are zero are not written.
    take = "try:\n    held = [bytes(1 << 28) for _ in range(64)]\nexcept MemoryError:\n    print('\"no\"')"
    ended = run(f"child._BYTES = 1 << 29\nchild.limit_memory()\n{take}")
    assert ended.result == "no"


def test_an_interrupt_ends_the_child_too(run, monkeypatch, tmp_path):
    started = []

    class Interrupted(subprocess.Popen):
        def communicate(self, *args, **options):
            started.append(self)
            raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        run("time.sleep(60)")
    assert started[0].poll() is not None


def test_children_that_are_given_up_end_and_whoever_waits_is_told_so(run, tmp_path):
    begun = tmp_path / "begun"
    raised = []

    def wait():
        try:
            run(f"open({str(begun)!r}, 'w').close()\ntime.sleep(60)")
        except RunCancelledError as error:
            raised.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    until(begun.exists)
    child.end_all()
    waiting.join(60)
    assert "was given up" in str(raised[0])
    assert run("print(1)").result == 1


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_a_child_ends_with_a_parent_that_is_killed(tmp_path):
    body = (
        "import json, os, sys, time\nfrom clgraph.runtime import child\nwork = json.load(sys.stdin)\n"
        "child.end_with(work['parent'])\nprint(os.getpid(), file=open(work['told'], 'w'), flush=True)\ntime.sleep(60)\n"
    )
    (tmp_path / f"{MODULE}.py").write_text(body, encoding="utf-8")
    told, pid = tmp_path / "told", ""
    start = (
        f"from clgraph.runtime import child; child.run({MODULE!r}, {{'told': {str(told)!r}}}, 60, {str(tmp_path)!r})"
    )
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])])
    with subprocess.Popen([sys.executable, "-c", start], env={**os.environ, "PYTHONPATH": path}) as parent:
        until = time.monotonic() + 60
        while not pid.endswith("\n") and time.monotonic() < until:
            time.sleep(0.01)
            pid = told.read_text() if told.exists() else ""
        parent.kill()
    while _runs(int(pid)) and time.monotonic() < until:
        time.sleep(0.01)
    assert not _runs(int(pid))


def _runs(pid: int) -> bool:
    """Whether there is process *pid*, which has not ended without anybody asking how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_a_child_whose_parent_is_gone_does_not_begin(run):
    assert run("child.end_with(work['parent'])\nprint(1)").result == 1
    assert run("child.end_with(work['parent'] + 1)\nprint(1)").why == "it ended with status 1 and no result"


@pytest.mark.parametrize("executable", ["", None])
def test_without_an_interpreter_there_is_one_error(run, monkeypatch, executable):
    monkeypatch.setattr(sys, "executable", executable)
    with pytest.raises(DeviceError, match=r"sys\.executable"):
        run("")


def test_an_interpreter_that_is_not_there_is_said(run, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    ended = run("")
    assert "cannot be started" in ended.why
    assert not ended.died


def test_a_fault_while_a_library_is_compiled_is_told_and_not_remembered_as_a_dead_compiler(monkeypatch, capsys):
    def fail(work):
        raise TypeError("ufunc 'bitwise_and' not supported")

    for name in ("limit", "end_with"):
        monkeypatch.setattr(compile_child.child, name, lambda *_: None)
    monkeypatch.setattr(compile_child.process, "serve", lambda *_: None)
    monkeypatch.setattr(compile_child.InstructionSet, "from_data", lambda *_: None)
    monkeypatch.setattr(compile_child, "compile_library", fail)
    work = {"cpu_seconds": 1, "parent": 1, "record": {}, "what": "library weights"}
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(work)))
    assert compile_child.main() == 0
    printed = capsys.readouterr()
    why = json.loads(printed.out)["why"]
    assert why.startswith("compiling library weights failed: TypeError: ufunc 'bitwise_and' not supported. ")
    assert "in fail" in printed.err
