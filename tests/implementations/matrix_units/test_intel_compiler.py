"""GPU kernels through Intel's compiler for its GPUs (``ocloc``), where it is installed: compiled, not run.

Debian has it in intel-opencl-icd; it needs no GPU.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import clgraph
from clgraph.engines import opening
from clgraph.network.node_steps import texts
from clgraph.runtime.binaries import options_for
from clgraph.selector.query import DeviceInfo
from tests.models.test_gpu_class import siblings
from tests.support.zoo import ZOO
from tools.gpu_compilers.intel import source_for

OCLOC = shutil.which("ocloc")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(OCLOC is None, reason="ocloc is not installed (Debian: intel-opencl-icd)"),
]

DEVICES = {"dg2": {"intel_dpas"}, "tgllp": set[str]()}
"""Arc's first generation, with matrix units, and the graphics of Intel's 11th generation of Core, without."""
ARC = DeviceInfo(
    name="null",
    kind="gpu",
    vendor="Intel(R) Corporation",
    compute_units=512,
    simd=1,
    max_work_group=1024,
    local_bytes=65536,
    features=frozenset({"fp16", "subgroups"}),
)


@dataclass
class Planned:
    """Stands for an engine, which only says what it is."""

    info: DeviceInfo


@pytest.mark.parametrize(("device", "bits"), [("dg2", 64), ("tgllp", 64), ("tgllp", 32)])
@pytest.mark.parametrize("precision", ["f32", "f16"])
@pytest.mark.parametrize("name", ["siblings", "small_mobilenet_v3", "small_encoder"])
def test_the_kernels_of_a_model_compile(
    name: str, precision: str, device: str, bits: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    info = replace(ARC, features=ARC.features | DEVICES[device])
    monkeypatch.setattr(opening, "recorded", lambda options: info)
    topology, feeds = siblings() if name == "siblings" else ZOO[name].make()
    shapes = {n: a.shape for n, a in feeds.items()}
    program = clgraph.compile(topology, "null", shapes=shapes, config={"precision": precision}).program
    found = texts(program, {"null": Planned(info)})
    entries = " ".join(what for what, _ in found.values())
    assert ("convolution_intel" in entries) == (precision == "f16" and device == "dg2")
    for number, ((_, text), (what, _)) in enumerate(found.items()):
        source = tmp_path / f"{number}.cl"
        source.write_text(source_for(text))
        assert OCLOC is not None
        where = ["-file", str(source), "-device", device, "-out_dir", str(tmp_path / "made")]
        options = options_for(ARC.features, False, text)
        done = subprocess.run(
            [OCLOC, "compile", f"-{bits}", *where, "-options", options], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{what}:\n{done.stdout}{done.stderr}"
