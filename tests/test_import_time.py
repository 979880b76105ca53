from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import clgraph

LIMIT_SECONDS = 0.15
HEAVY = ("numpy", "onnx", "pyopencl", "click", "rich", "PIL", "platformdirs")


def test_importing_clgraph_imports_nothing_heavy() -> None:
    code = "import sys, clgraph; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert [m for m in HEAVY if m in loaded] == []
    assert [m for m in loaded if m.startswith("clgraph")] == ["clgraph"]


def test_what_a_start_out_of_the_model_cache_imports_loads_no_openssl() -> None:
    code = "import sys, clgraph.compilation.entry, clgraph.compilation.model_cache; print('_hashlib' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.strip() == "False"


def test_what_options_and_families_deny_is_not_looked_for_among_all_implementations() -> None:
    code = """
import sys
from clgraph.compilation.context import context_of, for_families
from clgraph.graph.topology import Topology
from clgraph.selector.query import DeviceInfo
from clgraph.settings import Settings
topology = Topology()
topology.input("x", ("n", "h"))
context = context_of({"": DeviceInfo()}, Settings(device="host", winograd=False, quantised_products="exact"))
denied = for_families(context, topology).denied
print(sorted(denied), [name for name in sys.modules if name.startswith("clgraph.implementations.")])
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.strip() == "['digits', 'some_maps', 'winograd'] []"


def test_a_small_network_of_floats_imports_nothing_that_others_alone_need() -> None:
    code = """
import sys
import numpy as np
import clgraph
from clgraph.ops.activation import Activation
from clgraph.ops.convolution import Convolution
net = clgraph.Topology()
x, w = net.input("x", (1, 3, 8, 8)), net.constant("w", np.ones((4, 3, 3, 3), np.float32))
net.add("c", Convolution((1, 1), (1, 1), ((0, 0), (0, 0))), x, w)
net.add("y", Activation("relu"), "c")
net.output("y")
clgraph.compile(net, device="null", config={"model_cache": 0})
print(*sys.modules)
"""
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "clgraph.implementations.cpu.convolution" in loaded
    of_others = re.compile(
        r"clgraph\.(ops\.(.*quant|pad|conv_transpose|resize|top_k|noted)|passes\.patterns\.(volume|.*upsampling|best)"
        r"|passes\.quantization\.(float_groups|.*_products|few_bits|repeated)|passes\.fusing\.extreme_notes"
        r"|passes\.placement\.filling|compilation\.(cache_|cached_|images|budgeting|load)|saved\.(programs|topologies))"
    )
    assert [name for name in loaded if of_others.match(name)] == []


def test_importing_clgraph_takes_less_than_its_budget() -> None:
    command = [sys.executable, "-X", "importtime", "-c", "import clgraph"]
    times = []
    for _ in range(3):
        log = subprocess.run(command, capture_output=True, text=True, check=True).stderr
        found = re.search(r"\| *(\d+) \| clgraph$", log, re.MULTILINE)
        assert found is not None
        times.append(int(found.group(1)) * 1e-6)
    assert min(times) < LIMIT_SECONDS


def test_every_public_name_is_there() -> None:
    import clgraph
    from clgraph import errors
    from clgraph.compilation import entry
    from clgraph.graph.topology import Topology
    from clgraph.model import model
    from clgraph.runtime.device import devices

    assert clgraph.compile is entry.compile_model
    assert clgraph.Model is model.Model
    assert clgraph.Topology is Topology
    assert clgraph.devices is devices
    assert clgraph.errors is errors
    assert set(dir(clgraph)) == set(clgraph.__all__)


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    import clgraph

    assert not hasattr(clgraph, "compiled")


def test_a_name_that_is_not_public_is_answered_by_what_may_be_meant() -> None:
    import clgraph

    for name, words in (("complie", "did you mean 'compile'"), ("InferenceSession", "clgraph.onnxruntime has it")):
        with pytest.raises(AttributeError, match=words):
            getattr(clgraph, name)
    assert not hasattr(clgraph, "zork")


def test_a_package_in_an_archive_says_what_to_do(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as archive:
        archive.write(Path(clgraph.__file__), "clgraph/__init__.py")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "app.zip")}
    code = "import clgraph; clgraph.compile"
    found = subprocess.run([sys.executable, "-P", "-c", code], env=environment, capture_output=True, text=True)
    assert "in an archive or a frozen program" in found.stderr
    assert "install it in an environment" in found.stderr
