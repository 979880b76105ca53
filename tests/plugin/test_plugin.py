"""Packages from outside, installed beside clgraph: a whole target, and one that fails while it is imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
pytestmark = pytest.mark.opencl

MODEL = """
import json, sys, numpy as np, clgraph
from clgraph.ops.activation import Activation
from clgraph.ops.convolution import Convolution
from clgraph.ops.eltwise import Eltwise

random = np.random.default_rng(1)
net = clgraph.Topology()
conv = Convolution((1, 1), (1, 1), ((1, 1), (1, 1)))

def add(name, x, relu=True):
    w = net.constant(f"{name}_w", random.standard_normal((6, 6, 3, 3)).astype(np.float32) / 8)
    b = net.constant(f"{name}_b", random.standard_normal(6).astype(np.float32))
    made = net.add(name, conv, x, w, b)
    return net.add(f"{name}_relu", Activation("relu"), made) if relu else made

x = net.input("x", (1, 6, 9, 11))
first = add("first", x)
second = add("second", first)
result = add("result", second)                      # its convolution is a result of the graph as well
shared = net.add("shared", Eltwise("add"), add("twice", second), "twice")   # read by its relu and the sum
alone = add("alone", second, relu=False)            # no relu behind it
unused = add("unused", second, relu=False)          # nobody reads it
for name, value in (("y", result), ("raw", "result"), ("z", shared), ("a", alone)):
    net.output(name, value)
feeds = {"x": random.standard_normal((1, 6, 9, 11)).astype(np.float32)}
"""

COMPARE = """
plain = clgraph.compile(net, device="pocl:0", config={"plugins": "none"})
before = plain.run(feeds)
model = clgraph.compile(net, device="pocl:0")
after = model.run(feeds)
worst = max(float(np.abs(after[k] - before[k]).max()) for k in before)
kinds = {n.name: n.primitive.kind for n in model.program}
print(json.dumps({"worst": worst, "kinds": kinds, "note": model.program.notes["acme"], "text": str(model.program)}))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with both packages installed, as pip would into site-packages."""
    folder = tmp_path_factory.mktemp("site")
    wheels = tmp_path_factory.mktemp("wheels")
    for package in ("acme", "broken"):
        build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(wheels)]
        subprocess.run([*build, str(HERE / package)], check=True, capture_output=True)
    found = [str(w) for w in wheels.glob("*.whl")]
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(folder)]
    subprocess.run([*install, *found], check=True, capture_output=True)
    return folder


def _run(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(installed), str(ROOT)])
    environment = os.environ | {"PYTHONPATH": paths}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, env=environment, cwd=installed
    )


def test_the_target_computes_the_same_with_operators_of_its_own_and_leaves_alone_what_it_must(installed) -> None:
    done = _run(installed, "-c", MODEL + COMPARE)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    own = {name for name, kind in found["kinds"].items() if kind == "acme_conv_relu"}
    assert own == {"first", "second"}
    assert found["note"].startswith("2 of ")
    # Attributes of operators from outside are in the text of the program as all others are.
    assert "acme_conv_relu(strides=1x1, dilations=1x1" in found["text"]
    # Three layers of 54 products of about one, each rounded; the sums are of another order.
    assert found["worst"] <= 3 * 54 * 2.0**-22


def test_a_plugin_that_fails_is_rolled_back_and_reported_and_stops_nothing(installed) -> None:
    script = (
        "import warnings; warnings.simplefilter('ignore')\n"
        + MODEL
        + "clgraph.compile(net, device='pocl:0').run(feeds)\n"
        "from clgraph.extensions.plugins import PLUGIN_FAILURES\n"
        "from clgraph.passes.targets.target import TARGETS\n"
        "print(json.dumps([PLUGIN_FAILURES, list(TARGETS)]))\n"
    )
    done = _run(installed, "-c", script)
    assert done.returncode == 0, done.stderr
    failures, targets = json.loads(done.stdout)
    assert targets == ["acme"]
    assert len(failures) == 1
    assert failures[0].startswith("broken (broken_clgraph): RegistrationError:")


def test_each_pass_says_how_it_treats_an_operator_from_outside(installed) -> None:
    done = _run(installed, "-m", "clgraph", "passes", "--check", "acme_conv_relu")
    assert done.returncode == 0, done.stderr
    assert "broken" in done.stderr
    lines = {line.split()[1]: line for line in done.stdout.splitlines() if line[:1].isspace() and line.split()}
    assert "opaque" in lines["fuse_patterns"]
    assert "takes no post-operations" in lines["prepare_primitive_fusing"]
    assert "acme.conv_relu" in lines["compile_graph"]
    assert "transposes stop at it" in lines["transpose_optimization"]


def test_plugins_can_be_left_out(installed) -> None:
    script = MODEL + (
        "model = clgraph.compile(net, device='pocl:0', config={'plugins': 'none'})\n"
        "assert 'acme' not in model.program.notes\n"
    )
    assert _run(installed, "-c", script).returncode == 0
