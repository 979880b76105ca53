"""Other CPUs: faked by what the system says of the CPU, or emulated; and models saved on another machine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import clgraph
from clgraph.runtime.engine import Engine
from clgraph.runtime.instruction_sets import cpu_flags, named, of_host
from tests.runtime.test_instruction_sets import flags_of
from tests.support.models import image, small_model

pytestmark = pytest.mark.opencl
ROOT = Path(__file__).resolve().parents[2]

LOADED = """
import sys
import numpy as np
import clgraph
from tests.support.models import image
model = clgraph.load(sys.argv[1], device="pocl")
print(*model.notes)
np.save(sys.argv[2], model(image((1, 3, 10, 10))))
"""

FAKED = """
import sys
from pathlib import Path
import numpy as np
from clgraph.runtime import instruction_sets
if sys.argv[1]:
    instruction_sets.CPUINFO = Path(sys.argv[1])
import clgraph
from clgraph.engines import opening
from clgraph.runtime.device import find_device
from tests.support.models import image, small_model
from tests.support.quick_engine import opened
opening._open = opened
device = find_device("pocl")
print(device.record.name, device.info.simd, *device.notes)
model = clgraph.compile(small_model(), device="pocl", config={"device_class": sys.argv[3]})
np.save(sys.argv[2], model(image((1, 3, 10, 10))))
"""

REFUSED = """
import sys
from pathlib import Path
from clgraph.runtime import instruction_sets
instruction_sets.CPUINFO = Path(sys.argv[1])
from clgraph.errors import DeviceError
from clgraph.runtime.device import devices, find_device
print(*(d.info.name for d in devices()))
print(find_device("host").info.name)
for name in ("pocl:0", "cpu", "auto"):
    try:
        print(find_device(name).info.name)
    except DeviceError as error:
        print(error)
"""

# Sums of 27 and 8 products in another order, of numbers around 1.
BOUND = 40 * 2.0**-24 * 20


def started(code: str, cache: Path, *arguments: str, **variables: str) -> str:
    """Run *code* in a new process with an own cache folder and no option set; return what it printed."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("CLGRAPH_")}
    environment = {**clean, "PYTHONPATH": str(ROOT), "CLGRAPH_CACHE_DIR": str(cache), **variables}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def pocl(engine: Engine) -> Engine:
    if not engine.info.name.startswith("pocl"):
        pytest.skip("the instruction set of other drivers is their own")
    return engine


@pytest.mark.parametrize("kernels", ["gpu", pytest.param("cpu", marks=pytest.mark.slow)])
def test_the_first_start_on_a_machine_is_right(pocl: Engine, tmp_path: Path, kernels: str) -> None:
    """By default with ordinary kernels: whatever test comes first on a machine compiles the library in front of it."""
    said = started(FAKED, tmp_path / "cache", "", str(tmp_path / "y.npy"), kernels)
    assert said.startswith(f"{pocl.device.record.name} {pocl.info.simd} ")
    model = clgraph.compile(small_model(), device=pocl.info.name, config={"device_class": kernels})
    want = model(image((1, 3, 10, 10)))
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), want)


@pytest.mark.usefixtures("pocl")
def test_an_instruction_set_that_the_cpu_lacks_is_an_error_of_that_device_alone(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text(f"flags : {' '.join(flags_of('haswell'))}\n", encoding="utf-8")
    said = started(REFUSED, tmp_path / "cache", str(tmp_path / "cpuinfo"), CLGRAPH_POCL_ISA="avx512").splitlines()
    assert "pocl:0" in said[0]
    assert said[1] == "host"
    assert "is not used: CLGRAPH_POCL_ISA=avx512 cannot be had: the CPU has no avx512bw, avx512cd" in said[2]
    assert len(said) == 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "record", "simd"),
    [
        ("sapphire", "avx512_bf16", 16),
        ("icelake", "avx512_vnni", 16),
        ("skylake-x", "avx512", 16),
        ("alderlake", "avx_vnni", 8),
        ("haswell", "avx2", 8),
        ("sandybridge", "avx", 8),
        ("nehalem", "sse2", 4),
        ("", "sse2", 4),
        (None, "sse2", 4),
    ],
)
def test_what_the_system_says_of_the_cpu_decides_and_every_record_is_right(
    pocl: Engine, tmp_path: Path, kind: str | None, record: str, simd: int
) -> None:
    """With fewer flags than the CPU has, none, and a file that cannot be read; each compiles a library, 10 s."""
    if not named(record).flags <= cpu_flags():
        pytest.skip(f"this CPU does not execute {record}")
    cpuinfo = tmp_path / "cpuinfo"
    if kind is None:
        cpuinfo.mkdir()
    else:
        cpuinfo.write_text(f"processor : 0\nflags : {' '.join(sorted(flags_of(kind)))}\n", encoding="utf-8")
    said = started(FAKED, tmp_path / "cache", str(cpuinfo), str(tmp_path / "y.npy"), "cpu")
    assert said.startswith(f"{record} {simd} ")
    assert ("does not say what the CPU has" in said) == (not kind)
    want = clgraph.compile(small_model(), device=pocl.info.name)(image((1, 3, 10, 10)))
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), want, atol=BOUND)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cpu", "record", "right"),
    [
        ("Nehalem", "sse2", True),
        ("SandyBridge", "avx", True),
        ("Haswell", "avx2", True),
        ("EPYC-Milan", "avx2", True),
        ("Skylake-Server", "avx2", True),
        ("Skylake-Server", "avx512", False),
        ("SandyBridge", "avx2", False),
        ("Nehalem", "avx", False),
    ],
)
def test_the_canary_tells_what_an_emulated_cpu_executes(tmp_path: Path, cpu: str, record: str, right: bool) -> None:
    """QEMU has no AVX-512, and shows programs the host's CPU flags: the canary alone finds out."""
    qemu = shutil.which("qemu-x86_64")
    if qemu is None:
        pytest.skip("needs qemu-x86_64 (Debian: qemu-user)")
    work = {
        "device": "pocl:0",
        "record": named(record).to_data(),
        "workers": 2,
        "folder": str(tmp_path),
        "cpu_seconds": 300,
    }
    command = [qemu, "-cpu", cpu, sys.executable, "-m", "clgraph.runtime.canary_child"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, input=json.dumps(work), env=environment, capture_output=True, text=True, check=False, timeout=600
    )
    passed = done.returncode == 0 and json.loads(done.stdout.strip().rpartition("\n")[2])["why"] == ""
    assert passed == right, (done.returncode, done.stdout, done.stderr)


@pytest.mark.slow
def test_a_model_saved_for_wide_vectors_runs_on_a_machine_with_narrow_ones(pocl: Engine, tmp_path: Path) -> None:
    """The library for the other instruction set is compiled here, which takes a quarter of a minute."""
    if of_host()[0].simd < 16:
        pytest.skip("needs a CPU with AVX-512")
    model = clgraph.compile(small_model(), device="pocl")
    want = model(image((1, 3, 10, 10)))
    model.save(tmp_path / "m.clg")
    arguments = (str(tmp_path / "m.clg"), str(tmp_path / "y.npy"))
    said = started(LOADED, tmp_path / "cache", *arguments, CLGRAPH_POCL_ISA="avx2")
    assert "compiled anew" in said
    assert "vectors 16 " in said
    assert re.search(r"\bhere 8\b", said)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), want, atol=BOUND)
