"""What tools/try_devices and tools/check_races are made of; neither a simulator nor another driver is needed."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from pathlib import Path

import pytest

from tests.tools.test_starting import main_of
from tools.opencl.implementations import IMPLEMENTATIONS, Implementation, Installed, InstallError, installed
from tools.opencl.report import BEGIN, END, HEAD, replaced, table
from tools.opencl.trials import Ended, Row, run
from tools.races.alone import ALONE
from tools.races.log import findings

ROOT = Path(__file__).parents[2]
MACHINE = Installed(Implementation("machine", "this machine", ""))

LOG = """
Read-write data race at global memory address 0x1000000000040
    Kernel: softmax_rows
    First entity:  Global(1,0,0) Local(1,0,0) Group(0,0,0)
      %5 = load float, ptr %4
    At line 12 (column 3) of rows.clh:
      sum += part[i];

Invalid write of size 4 at global memory address 0x2000000000000
    Kernel: softmax_rows
    Entity: Global(64,0,0) Local(0,0,0) Group(1,0,0)

Invalid write of size 4 at global memory address 0x2000000000004
    Kernel: softmax_rows
    Entity: Global(65,0,0) Local(1,0,0) Group(1,0,0)

Oclgrind - OpenCL runtime error detected
    Function: clSetKernelArg
    Error:    CL_INVALID_ARG_SIZE

Oclgrind - OpenCL runtime error detected
    Function: clGetDeviceInfo
    Error:    CL_INVALID_VALUE
    For argument 'param_name'

OCLGRIND FATAL ERROR (./src/core/WorkItem.cpp:1681)
Undefined external function: llvm.abs.i32
When creating kernel 'activation_int_ref'
"""


def test_findings_of_one_kind_are_counted_with_kernel_and_place():
    assert findings(LOG) == {
        "Read-write data race at global memory address N in softmax_rows (rows.clh:12)": 1,
        "Invalid write of size N at global memory address N in softmax_rows": 2,
        "Oclgrind - OpenCL runtime error detected in clSetKernelArg: CL_INVALID_ARG_SIZE": 1,
        "OCLGRIND FATAL ERROR in activation_int_ref": 1,
    }
    assert findings("\n \n") == {}


def test_every_implementation_for_gpus_has_a_case_or_a_reason():
    path = str(ROOT / "tools" / "check_races")
    loader = importlib.machinery.SourceFileLoader("check_races", path)
    spec = importlib.util.spec_from_loader("check_races", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["check_races"] = module
    loader.exec_module(module)
    assert module.uncovered() == []


def test_an_implementation_is_limited_by_the_processor_time_that_it_takes(monkeypatch, tmp_path):
    """A limit of the clock is met, or not, by what else the machine does."""
    limited = "import sys, time; sys.argv.append('none'); from tools.races import child; child.PROCESSOR_SECONDS = 1\n"
    limited += (
        "child.find_device = lambda name: [None for _ in iter(lambda: time.process_time() > 5, True)]\nchild.main()"
    )
    ended = run(MACHINE, [sys.executable, "-c", limited], 600)
    assert ended.why == "died (SIGXCPU)"
    main = main_of("check_races", monkeypatch)
    monkeypatch.setitem(main.__globals__, "run", lambda *_, **__: ended)
    checked = main.__globals__["check"]("softmax", MACHINE, tmp_path)
    assert (checked.wrong, checked.result) == (True, "took 1200 s of processor time")


def test_a_table_stands_between_its_marks():
    text = table([Row("PoCL | of the wheel", "3.0", "right")], "a CPU")
    page = f"before\n{BEGIN}old\n{END}\nafter\n"
    new = replaced(page, text)
    assert new.startswith(f"before\n{BEGIN}By `tools/try_devices`, a CPU:\n\n| {HEAD[0]} |")
    assert "| PoCL / of the wheel | 3.0 | right |" in new
    assert new.endswith(f"{END}\nafter\n")
    assert "old" not in new
    with pytest.raises(ValueError, match="marks"):
        replaced("before", text)


def test_what_hangs_or_crashes_is_an_answer():
    slept = run(MACHINE, [sys.executable, "-c", "import time; time.sleep(60)"], 0.1)
    assert slept.why.startswith("did not end in")
    crashed = run(MACHINE, [sys.executable, "-c", "import os; os.abort()"], 60)
    assert crashed.why == "died (SIGABRT)"
    said = run(MACHINE, [sys.executable, "-c", "print('error: no device'); raise SystemExit(1)"], 60)
    assert said.why == "no device"
    assert Ended(139, "", "", 1.0).why == "died (SIGSEGV)"


def test_what_cannot_be_installed_says_why(tmp_path):
    wrong = Implementation("none", "nothing", "", wheels=("./no-such-wheel.whl",))
    with pytest.raises(InstallError, match="pip"):
        installed(wrong, tmp_path)


def test_each_implementation_is_known_by_what_its_device_reports():
    reported = {
        "wheel-pocl": "Portable Computing Language OpenCL 3.0 PoCL 3.0-rc2  Linux, Release, RELOC, LLVM 14.0.6 3.0-rc2",
        "debian-pocl": "Portable Computing Language OpenCL 3.0 PoCL 3.1+debian  Linux, None+Asserts 3.1+debian",
        "intel": "Intel(R) OpenCL OpenCL 3.1 LINUX 2026.22.10",
        "oclgrind": "Oclgrind OpenCL 1.2 (Oclgrind 21.10) Oclgrind 21.10",
        "rusticl": "rusticl OpenCL 3.0 22.3.6",
    }
    for name, text in reported.items():
        assert [i.name for i in IMPLEMENTATIONS if i.driver in text] == [name]


@pytest.mark.opencl
@pytest.mark.parametrize("kernel", ALONE)
def test_kernels_without_an_implementation_of_their_own_run_alone(gpu_engine, kernel):
    assert ALONE[kernel](gpu_engine) == []
