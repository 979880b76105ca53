"""What needs a process of its own: forks, caches that are damaged or cannot be written, another instruction set."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from clgraph.runtime.instruction_sets import of_host
from clgraph.runtime.wheel import wheel
from clgraph.settings import settings
from tests.support.combinations import each_value
from tests.support.known_devices import new_cache

pytestmark = pytest.mark.opencl

ROOT = Path(__file__).parents[2]
RUN = """
import numpy as np
from clgraph.runtime.device import find_device
from clgraph.runtime.engine import Engine

def compute(engine):
    memory = engine.upload(np.arange(64, dtype=np.float32), "x")
    text = "__kernel void f(__global float16* x) { x[get_global_id(0)] = exp2(x[get_global_id(0)] * 0.0f + 3.0f); }"
    engine.kernel(text, "f", [memory]).on(engine.stream, (4,), None)()
    found = np.empty(64, np.float32)
    engine.stream.read(memory, 0, found)
    assert (found == 8).all(), found
"""
COMPUTE = RUN + "compute(Engine(find_device(DEVICE)))"
FORK = """
import os, signal
def child(work):
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        try:
            work()
            print("worked", flush=True)
        except Exception as error:
            print(type(error).__name__, error, flush=True)
        finally:
            os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0, "the child hung"
"""


def python(code, cache, device, **environment):
    """Run *code* in a new process; returns it when it has ended."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "CLGRAPH_CACHE_DIR": str(cache), **environment}
    code = code.replace("DEVICE", repr(device))
    return subprocess.run(
        [sys.executable, "-c", code], env=variables, capture_output=True, text=True, timeout=300, check=False
    )


def copied(source, target):
    """Copy a folder of the cache, whose files and folders stay the user's alone; returns the copy."""
    return shutil.copytree(source, target, symlinks=True)


def succeeds(*args, **kwargs):
    done = python(*args, **kwargs)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture
def cache(engine, tmp_path):
    """A cache folder without kernels; it has the verdict of the canary, which takes a process and seconds."""
    return new_cache(tmp_path / "cache")


@pytest.fixture
def device(engine):
    return engine.info.name


@pytest.fixture
def pocl(engine):
    if not engine.info.name.startswith("pocl"):
        pytest.skip("the cache on disk and its work-arounds are PoCL's")
    return engine.info.name


def test_a_forked_child_may_not_use_the_engine_it_inherited_and_is_told_at_once(device, cache):
    code = (
        RUN
        + FORK
        + "engine = Engine(find_device(DEVICE)); compute(engine); child(lambda: compute(engine)); compute(engine)"
    )
    said = succeeds(code, cache, device).stdout
    assert said.startswith("DeviceError")
    assert "spawn" in said


def test_a_forked_child_cannot_open_an_engine_either_once_the_parent_used_opencl(device, cache):
    code = RUN + FORK + "find_device(DEVICE); child(lambda: compute(Engine(find_device(DEVICE))))"
    said = succeeds(code, cache, device).stdout
    assert said.startswith("DeviceError")
    assert "spawn" in said


def test_a_child_forked_before_the_first_use_works(device, cache):
    code = RUN + FORK + "child(lambda: compute(Engine(find_device(DEVICE)))); compute(Engine(find_device(DEVICE)))"
    assert succeeds(code, cache, device).stdout.strip() == "worked"


def test_pocl_is_loaded_beside_and_a_child_forked_after_a_compilation_that_failed_works(pocl, cache):
    if wheel() is None:
        pytest.skip("only the wheel's PoCL is loaded in a thread: other drivers might do more than be loaded")
    code = (
        RUN
        + FORK
        + """
import clgraph
from clgraph.errors import ModelError
from clgraph.runtime import driver
try:
    clgraph.compile("no_such_file.onnx", DEVICE)
except ModelError:
    pass
assert "/libpocl" in open("/proc/self/maps").read()
assert driver.load.cache_info().currsize == 0
child(lambda: compute(Engine(find_device(DEVICE))))
device = find_device(DEVICE)
compute(Engine(device))
assert not [note for note in device.notes if "before clgraph" in note]
"""
    )
    assert succeeds(code, cache, pocl).stdout.strip() == "worked"


@each_value(expected=[True, False])
def test_pocl_sets_its_devices_up_beside_a_block_that_expects_them(pocl, cache, expected):
    if wheel() is None:
        pytest.skip("only the wheel's PoCL is set up in a thread")
    code = (
        RUN
        + FORK
        + """
import os, threading, time
from clgraph.runtime import driver, process
from clgraph.settings import settings
def threads():
    return set(os.listdir("/proc/self/task"))
variables = dict(os.environ)
with driver.loading(settings()):
    before = threads()
    (loader,) = [str(t.native_id) for t in threading.enumerate() if t.name == "clgraph loads PoCL"]
    driver.expect_devices() if EXPECTED else None
    driver.load()
    while loader in threads():  # for the system it ends a little later than for Python
        time.sleep(0.001)
    started = threads() - before
    assert os.environ.get("POCL_DEVICES") == variables.get("POCL_DEVICES")
    assert os.environ.get("HWLOC_COMPONENTS") == variables.get("HWLOC_COMPONENTS")
child(lambda: compute(Engine(find_device(DEVICE))))
device = find_device(DEVICE)
compute(Engine(device))
assert [note for note in device.notes if "before clgraph" in note] == []
print("alone" if Engine(device, 2).calls_alone else "", bool(started))
"""
    ).replace("EXPECTED", str(expected))
    in_child, said = succeeds(code, cache, pocl).stdout.strip().splitlines()
    assert said == f"alone {expected}"
    assert in_child.startswith("DeviceError" if expected else "worked")


@pytest.fixture(scope="module")
def filled(engine, tmp_path_factory):
    """A cache folder that a process has filled, to be copied."""
    folder = new_cache(tmp_path_factory.mktemp("filled") / "cache")
    succeeds(COMPUTE, folder, engine.info.name)
    return folder


@each_value(suffix=[".so", ".bc"], keep=[0, 1000])
def test_a_damaged_kernel_cache_is_rebuilt(pocl, filled, tmp_path, suffix, keep):
    cache = copied(filled, tmp_path / "cache")
    files = [p for p in (cache / "pocl").rglob(f"*{suffix}") if p.is_file() and not p.is_symlink()]
    assert files
    for path in files:
        path.write_bytes(path.read_bytes()[:keep])
    succeeds(COMPUTE, cache, pocl)
    succeeds(COMPUTE, cache, pocl)
    assert all(p.stat().st_size > keep for p in (cache / "pocl").rglob(f"*{suffix}"))


def test_a_cache_that_cannot_be_made_is_a_warning(pocl, tmp_path):
    cache = tmp_path / "cache"
    cache.write_text("a file")
    done = succeeds(COMPUTE, cache, pocl)
    assert done.stderr.count("is not used: Not a directory; name a folder") == 1
    assert cache.read_text() == "a file"


def test_pocl_that_was_loaded_before_works_and_is_noted(pocl, cache):
    before = "import pyopencl; [p.get_devices() for p in pyopencl.get_platforms()]\n"
    code = before + RUN + "d = find_device(DEVICE); compute(Engine(d)); print(*d.notes)"
    assert "loaded before clgraph" in succeeds(code, cache, pocl, POCL_CACHE_DIR=str(cache / "own")).stdout
    after = "\nimport pyopencl; assert isinstance(d.handle, pyopencl.Device); compute(Engine(d))"
    assert "loaded before clgraph" not in succeeds(code.replace(before, "") + after, cache, pocl).stdout


def test_pocl_compiles_for_avx2_with_its_avx2_library_when_told_so(pocl, cache):
    if "avx2" not in [record.name for record in of_host()]:
        pytest.skip("the CPU has no AVX2")
    code = RUN + "d = find_device(DEVICE); compute(Engine(d)); print(d.info.simd, *d.notes)"
    said = succeeds(code, cache, pocl, CLGRAPH_POCL_ISA="avx2").stdout
    assert said.startswith("8 ")
    assert "haswell" in said
    objects = [p.read_bytes() for p in (cache / "pocl").glob("avx2-*/**/*.so")]
    assert objects


MODEL = """
import logging, sys
import numpy as np
from onnx import TensorProto, helper, numpy_helper
import clgraph

class Compiled(logging.Handler):
    def emit(self, record):
        if record.getMessage().startswith("compiling"):
            print(record.getMessage(), flush=True)

logging.getLogger("clgraph").addHandler(Compiled())
logging.getLogger("clgraph").setLevel(logging.INFO)

def model(kernel, stride, widths):
    nodes, weights, channels = [], [], 3
    for i, width in enumerate(widths):
        w = np.random.default_rng(i).standard_normal((width, channels, kernel, kernel), np.float32)
        weights.append(numpy_helper.from_array(w, f"w{i}"))
        source = "x" if i == 0 else f"r{i - 1}"
        nodes.append(helper.make_node("Conv", [source, f"w{i}"], [f"c{i}"], strides=[stride if i == 0 else 1] * 2))
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"r{i}"]))
        channels = width
    nodes.append(helper.make_node("MaxPool", [nodes[-1].output[0]], ["y"], kernel_shape=[2, 2], strides=[2, 2]))
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, "h", "w"])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

for made, shapes in MODELS:
    compiled = clgraph.compile(model(*made), device=DEVICE)
    for shape in shapes:
        compiled.run({"x": np.ones(shape, np.float32)})
"""


def test_a_second_process_builds_nothing_for_another_model_and_another_shape(pocl):
    cache = settings().cache_dir
    first = "[((3, 1, (16, 32)), [(1, 3, 20, 20)])]"
    succeeds(MODEL.replace("MODELS", first), cache, pocl)
    others = "[((3, 1, (16, 32)), [(1, 3, 33, 47)]), ((5, 2, (24, 56, 40)), [(1, 3, 40, 64), (2, 3, 51, 38)])]"
    assert succeeds(MODEL.replace("MODELS", others), cache, pocl).stdout == ""
