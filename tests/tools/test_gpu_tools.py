"""What measures on a GPU, without one: nothing here says how fast anything is."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest

import tools.benchmark.probing as probing
from clgraph.errors import ClgraphError
from clgraph.implementations.matrix_units.nvidia.tiles import TILES
from clgraph.runtime.device import find_device, with_class
from clgraph.runtime.engine import Engine
from clgraph.selector.query import SM80
from tests.support.models import image, small_model
from tests.support.ptx import on_device
from tools.benchmark import bandwidth, on_gpu, quantised
from tools.benchmark.dry import dry, dry_markdown, dry_probe
from tools.benchmark.found import Found
from tools.benchmark.on_gpu import FIRST, TORCH, Case, Timed, cases, gpu_markdown, measure_case, product_of, taken
from tools.benchmark.parts import Part, run_parts
from tools.benchmark.peers import Options
from tools.gpu_compilers.profiles import PROFILES


@pytest.mark.opencl
def test_matrix_units_are_asked_how_they_round(nvidia_engine):
    # The emulator truncates.
    assert probing.ask("rounding", nvidia_engine, quick=True) == ["truncates: 1.0"]


@pytest.mark.opencl
def test_every_tile_is_asked_for_its_rate_and_error(nvidia_engine, monkeypatch):
    few = [t for t in TILES if t.rows * t.columns == 64 * 64]
    monkeypatch.setattr(probing, "SIZES", (128,))
    monkeypatch.setattr(probing, "TILES", few)
    answers = probing.ask("tiles", nvidia_engine, quick=True)
    assert [a.split()[0] for a in answers] == [t.unit for t in few]
    # Results of halves are rounded to 2^-11; other sums of 128 products to 128 * 2^-24 at the most.
    bounds = [2.0**-11 if ".f16." in a else 2.0**-16 for a in answers]
    assert all(float(a.rpartition(" ")[2]) < bound for a, bound in zip(answers, bounds, strict=True))


@pytest.mark.opencl
def test_a_device_without_matrix_units_says_what_it_was_not_asked():
    engine = Engine(with_class(find_device("pocl"), "gpu"))
    assert probing.ask("tiles", engine, quick=True) == ["not asked: the device has no nvidia_ptx, sm75, sm80"]
    assert probing.ask("local", engine, quick=True) == ["32 KiB: right", "48 KiB: right"]
    assert len(probing.ask("launch", engine, quick=True)) == 6
    grids = probing.ask("grid", engine, quick=True)
    assert [g.partition(": ")[2] for g in grids] == ["right"] * 3


def test_a_dry_run_measures_nothing_and_says_so():
    planned = dry(Case("gemm_64", "tf32x3", 2.0 * 64**3), "h200")
    assert planned.launches == {"matmul.nvidia_tf32x3": 1}
    assert planned.refused == ()
    table = dry_markdown([planned], "h200")
    assert "Nothing was run or measured" in table
    assert " ms" not in table
    assert dry_markdown([replace(planned, refused=("a kernel: an error",))], "h200").endswith("a kernel: an error")


@pytest.mark.skipif(PROFILES["h200"].why_not() is not None, reason=str(PROFILES["h200"].why_not()))
def test_a_dry_probe_says_what_the_assembler_says():
    answers = dry_probe("local", "h200")
    assert "48 KiB" in answers[2]
    assert "49152 bytes of local memory" in answers[2]
    assert "64 KiB" in answers[3]
    assert "too much shared data" in answers[3]
    assert "registers" in dry_probe("rounding", "h200")[0]


def test_what_is_measured_on_a_gpu_is_kept_as_data():
    timed = Timed(Case("gemm_64", "f16", 2.0), {"clgraph": 1e-3}, {"clgraph": 1e-4}, {"eager": "no torch"})
    assert Found.from_data(json.loads(json.dumps(Found(gpu=[timed]).to_data()))).gpu == [timed]


def test_a_case_is_asked_for_by_its_title_or_a_part():
    assert [c.title for c in cases(False, "gemm_4096 f16")] == ["gemm_4096 f16"]
    assert {c.precision for c in cases(False, "gemm_4096 f")} == {"f32", "f16", "f16x3"}


@pytest.mark.opencl
def test_times_stand_beside_errors_and_what_is_missing(monkeypatch):
    timed = measure_case(Case("gemm_64", "f32", 2.0 * 64**3), "pocl", 1, "cpu")
    assert timed.seconds["clgraph"] > 0
    assert timed.errors["clgraph"] < 64 * 2.0**-24 * 10
    assert set(timed.seconds) | set(timed.missing) == {"clgraph", *TORCH}
    assert timed.bandwidth == 0
    monkeypatch.setattr(bandwidth, "_CPU_BYTES", 1 << 20)
    packed = measure_case(Case("nbits_64x2", "f32", 2.0 * 2 * 64**2, 2560.0), "pocl", 1, "cpu")
    assert packed.errors.get("clgraph", 0.0) < 64 * 2.0**-24 * 10
    assert packed.bandwidth > 0
    asked = Timed(packed.case, {"clgraph": 1e-6}, {}, {}, 5e9)
    assert "| 0.001 ms, 0.0 TFLOP/s, 2.6 GB/s of weights, 51% of 5.0 |" in gpu_markdown([asked])
    table = gpu_markdown([Timed(timed.case, {"clgraph": 1e-3}, {"clgraph": 1e-7}, {"eager": "no torch"})])
    assert "1.000 ms, 0.0 TFLOP/s, error 1.0e-07" in table
    assert "no torch" in table


@pytest.mark.opencl
def test_a_gpu_takes_the_place_of_the_emulator(gpu_engine, monkeypatch):
    """Tests of kernels with PTX run on an NVIDIA GPU where there is one; here on what calls itself one."""
    device = replace(gpu_engine.device, info=replace(gpu_engine.info, features=gpu_engine.info.features | SM80))
    assert on_device.nvidia_gpu(["pocl", "no such device"]) is None
    monkeypatch.setattr(on_device, "find_device", lambda _: device)
    monkeypatch.setattr(on_device.emulator, "needs_emulation", lambda text: "noted" in text)
    engine = on_device.NvidiaEngine(on_device.nvidia_gpu(["gpu"]), "f16x3")
    assert "f16x3" in engine.info.features
    held = engine.upload(np.zeros(4, np.int32), "numbers")
    for entry in ("noted", "plain"):
        text = f"__kernel void {entry}(__global int* x) {{ x[get_global_id(0)] += 1; }}"
        engine.kernel(text, entry, [held]).on(engine.stream, (4,), (2,))()
    numbers = np.empty(4, np.int32)
    engine.stream.read(held, 0, numbers)
    assert numbers.tolist() == [2] * 4
    assert engine.ran == [("noted", (4,), 1.0)]


@pytest.mark.opencl
def test_a_kernel_tells_the_bandwidth_of_a_device(monkeypatch):
    monkeypatch.setattr(bandwidth, "_GPU_BYTES", 3 << 22)
    monkeypatch.setattr(bandwidth, "_RUNS", 2)
    engine, held = Engine(find_device("pocl")), []
    kept = engine.allocate
    monkeypatch.setattr(engine, "allocate", lambda n, what: held.append(kept(n, what)) or held[-1])
    assert bandwidth.kernel_bandwidth(engine) > 1e8
    # Of three rounds, four elements each of 0, 1 and 2.
    sums = np.empty(1 << 18, np.float32)
    engine.stream.read(held[-1], 0, sums)
    assert (sums == 12).all()
    # It is what a GPU is asked, whatever the host's threads read.
    monkeypatch.setattr(bandwidth, "find_device", lambda _: with_class(find_device("pocl"), "gpu"))
    monkeypatch.setattr(bandwidth, "_of_threads", None)
    assert bandwidth.read_bandwidth("gpu", 1) > 1e8


@pytest.mark.opencl
def test_networks_of_8_bits_are_made_once_and_compared_with_onnxruntime(monkeypatch, tmp_path):
    made = []

    def load(text):
        made.append(text)
        model = small_model()
        return model, {model.graph.input[0].name: image((1, 3, 10, 10))}

    monkeypatch.setenv("CLGRAPH_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(quantised, "load", load)
    for batch in (1, 3):
        model, feeds = quantised.load_int8(f"small-int8@{batch}x3x10x10")
        assert [a.shape for a in feeds.values()] == [(batch, 3, 10, 10)]
    assert made == ["small@1x3x10x10"]
    assert {"QuantizeLinear", "DequantizeLinear"} <= {n.op_type for n in model.graph.node}
    timed = measure_case(Case("small-int8@3x3x10x10", "f32"), "pocl", 1, "cpu")
    # A step of 8 bits, of the range on both sides of zero: some results are rounded to the next one.
    assert timed.errors["clgraph"] < 2.5 / 127
    monkeypatch.setattr(quantised, "installed", lambda _: None)
    with pytest.raises(ClgraphError, match="onnxruntime"):
        quantised.quantised(model, feeds)


@pytest.mark.opencl
def test_a_gpu_is_told_of_no_threads_and_asked_for_no_precision_that_it_has_not(monkeypatch):
    monkeypatch.setenv("CLGRAPH_DEVICE_CLASS", "gpu")
    assert Options("pocl", 2).workers is None
    left = {c.precision for c in taken(cases(quick=True), "pocl")}
    assert left == {"f32", "f16"}
    nvidia = replace(find_device("pocl"), info=PROFILES["t4"].info)
    monkeypatch.setattr(on_gpu, "find_device", lambda _: nvidia)
    assert {c.precision for c in taken(cases(quick=True), "gpu")} == {"f32", "f16", "f16x3"}
    monkeypatch.delenv("CLGRAPH_DEVICE_CLASS")
    assert Options("pocl", 2).workers == 2


def test_what_is_measured_are_the_networks_and_the_products():
    names = {c.name for c in cases(quick=False)}
    assert {"resnet50-int8@1x3x224x224", "resnet50-int8@64x3x224x224", "nbits_16384x1"} <= names
    assert {"resnet50@64x3x224x224", "bert_base_32x128", "gemm_4096", "gemm_8192"} <= names
    model, feeds = product_of(8, np.dtype(np.float32))
    assert np.asarray(feeds["x"]).shape == (8, 8)
    assert [n.op_type for n in model.graph.node] == ["MatMul"]


def test_parts_of_a_long_measurement_stop_no_other_and_go_on_where_they_were_cut_off(tmp_path, capsys):
    def part(name, text, **more):
        # Isolated and without packages, an interpreter is there soon on a busy machine, too.
        return Part(name, (sys.executable, "-I", "-S", "-c", text), **more)

    half = str(tmp_path / "half")
    goes_on = f"import os, time\nif not os.path.exists({half!r}): open({half!r}, 'w').close(); time.sleep(60)"
    parts = [
        part("hangs", "import time; print('begun', flush=True); time.sleep(60)", seconds=0.2),
        part("fails", "import sys; print('why'); sys.exit(3)"),
        part("asked", "import os; print(os.environ['WORD'])", variables={"WORD": "a word"}),
        part("goes_on", goes_on, seconds=0.4, resumes=True),
        part("last", "print('last')"),
    ]
    assert run_parts(parts, tmp_path, "gpu", None) == (["hangs", "fails"], ["goes_on"])
    assert (tmp_path / "gpu-hangs.log").read_text() == "begun\n"
    assert (tmp_path / "gpu-asked.log").read_text() == "a word\n"
    # The next call runs what is left, and tells of the others.
    capsys.readouterr()
    assert run_parts(parts, tmp_path, "gpu", 30.0) == (["hangs", "fails"], [])
    assert "fails: failed, 0 s, by an earlier call" in capsys.readouterr().out
    assert (tmp_path / "gpu-last.log").read_text() == "last\n"
    # All are over: another call begins anew.
    assert run_parts(parts[1:3], tmp_path, "gpu", None) == (["fails"], [])
    assert (tmp_path / "gpu-asked.log").read_text() == "a word\na word\n"


def test_cases_with_goals_are_measured_first():
    assert [c.title for c in cases(quick=False)][: len(FIRST)] == list(FIRST)
