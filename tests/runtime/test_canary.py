"""The canary: right pairs of CPU name and built-in library pass, wrong ones do not; its verdict decides and is kept."""

import json
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from clgraph.engines.opening import by_class
from clgraph.runtime import canary, canary_kernels, canary_rates, child, handles, scratch
from clgraph.runtime.canary import Decision, Subject, Verdict, decide, verdict
from clgraph.runtime.canary_kernels import Canary, Run
from clgraph.runtime.canary_rates import measure
from clgraph.runtime.canary_values import wrong
from clgraph.runtime.child import Outcome
from clgraph.runtime.handles import GPU
from clgraph.runtime.instruction_sets import InstructionSet, instruction_sets, named, of_host
from clgraph.runtime.pocl import LIBRARY_SHA256
from clgraph.runtime.wheel import wheel
from clgraph.selector.costs import Rates, shipped
from clgraph.selector.query import DeviceInfo

TABLE = json.loads((Path(__file__).parents[1] / "data" / "cpus.json").read_text(encoding="utf-8"))
SUBJECT = Subject("pocl:0", LIBRARY_SHA256, 1)
AVX512, AVX2, SSE2 = named("avx512"), named("avx2"), named("sse2")
NOTHING = '{"key": KEY, "why": "", "worker_flops": 1e11, "bandwidths": [[1, 1e10]], "bf16_products": 0}'
UNFETCHED = '{"key": KEY, "why": "", "worker_flops": 1e11, "bandwidths": [[1, 1e10]], "fetching": 0}'
UNCACHED = '{"key": KEY, "why": "", "worker_flops": 1e11, "bandwidths": [[1, 1e10]], "cached": 0}'
UNLOADED = '{"key": KEY, "why": "", "worker_flops": 1e11, "bandwidths": [[1, 1e10]], "loaded_products": 0}'
GOOD = {"why": "", "worker_flops": 1e11, "bandwidths": [[1, 1e10], [2, 1.5e10]]}


def tried(record: InstructionSet, folder: Path) -> Verdict:
    if wheel() is None:
        pytest.skip("the pairs are of the wheel's PoCL")
    if record.machine != "x86_64" or record.simd > of_host()[0].simd:
        pytest.skip(f"this CPU does not execute {record.name}")
    return verdict(SUBJECT, record, folder)


@pytest.mark.opencl
def test_inline_assembly_is_tried_only_where_kernels_use_it(engine, monkeypatch):
    if engine.info.kind != "cpu":
        pytest.skip("an instruction set is a CPU's")
    monkeypatch.setattr(handles, "is_wheel", lambda platform: False)
    assert not Canary(engine.device.handle, named("avx512_bf16"), 1).further


@pytest.fixture
def thin(engine, monkeypatch):
    """The canary of a GPU, on the device of the tests, which few bytes are read on."""
    monkeypatch.setattr(handles, "kind", lambda handle: "gpu")
    monkeypatch.setattr(handles, "features", lambda handle, record: frozenset())
    monkeypatch.setattr(canary_kernels, "_THIN_READ_BYTES", 8 << 20)
    return Canary(engine.device.handle, GPU, 1)


@pytest.mark.opencl
def test_a_gpu_computes_rightly_and_is_measured(thin):
    assert wrong(thin) == ""
    found = measure(thin)
    assert 1e7 < found["worker_flops"] < 1e13
    ((workers, rate),) = found["bandwidths"]
    assert (workers, rate > 1e8) == (thin.workers, True)


@pytest.mark.opencl
@pytest.mark.parametrize("units", [64, 132, 1024])
def test_the_work_items_of_any_gpu_have_sums_of_their_own_and_something_to_read(units, thin, monkeypatch):
    """More than a driver says of compute units: results of 132 once lay behind the end of their buffer."""
    runs = []

    def run(name, groups, values, sums, first, step, count):
        items = groups * 64
        assert items <= sums
        assert first * (items - 1) + step * (count - 1) < values
        runs.append(count)
        return Run(1e-3, 1e-3)

    for name, value in {"upload": len, "run": run, "workers": units, "bytes": 64 << 20}.items():
        monkeypatch.setattr(thin, name, value)
    assert canary_rates._bandwidths(thin, thin.bytes // 4)[0][1] > 0
    assert min(runs) >= 4


@pytest.mark.parametrize(
    ("took", "asked"),
    [([(4, 4)] * 7, 7), ([(8, 4)] * 6 + [(4, 4)], 7), ([(8, 4)] * 9 + [(5, 5)], 10), ([(30, 5), (9, 5)] * 11, 21)],
    ids=["quiet", "one of seven", "at last", "busy all the time"],
)
def test_the_time_of_workers_is_that_of_a_run_in_which_they_worked_at_once(took, asked):
    """One thread that does the work of two takes 8 by the clock, and half of it seems to be each worker's share."""
    runs = iter([Run(wall / 1000, worker / 1000) for wall, worker in took])
    assert canary_rates._side_by_side(lambda: next(runs)) == min(took)[1] / 1000
    assert len(took) - len(list(runs)) == asked


def is_part_of_another(record: InstructionSet) -> bool:
    """Whether the trial of a wider record on this CPU is that of *record*, too, with further instructions."""
    return any(
        (wider.cpu, wider.built_in, wider.simd) == (record.cpu, record.built_in, record.simd)
        and wider.features > record.features
        for wider in of_host()
    )


def is_between_others(record: InstructionSet) -> bool:
    """Whether *record* is neither this CPU's widest or narrowest nor that of AVX2, all that many CPUs have."""
    names = [there.name for there in of_host()]
    return record.name not in {*names[:1], "avx2", *names[-1:]}


@pytest.mark.opencl
@pytest.mark.parametrize(
    "record",
    [
        pytest.param(r, marks=[pytest.mark.slow] * (is_part_of_another(r) or is_between_others(r)))
        for r in instruction_sets()
    ],
    ids=lambda record: record.name,
)
def test_every_record_that_the_cpu_executes_computes_rightly_and_is_measured(record, tmp_path):
    if record.name not in {there.name for there in of_host()}:
        pytest.skip(f"this CPU does not execute {record.name}")
    found = tried(record, tmp_path)
    assert found.why == ""
    assert 1e8 < found.rates.worker_flops < 1e13
    assert 1e8 < found.rates.bandwidth(1) < 1e13
    # What has not been measured is 2; CPUs have made 0.49 (Sapphire Rapids) to 2.
    measured = found.rates.bf16_products
    assert 0.2 < measured < 2.6 and measured != 2.0 if "bf16" in record.features else measured == 2.0
    words = found.rates.byte_products
    assert 0.5 < words < 4 if {"byte_pairs", "vnni"} & record.features == {"byte_pairs"} else words is None
    # What has not been measured is 1; a line costs at most three instead of one, and gains what memory takes in it.
    assert 0.2 < found.rates.fetching < 5
    assert found.rates.fetching != 1.0
    assert 1e8 < found.rates.cached < 1e13
    # A load takes up to the time of four products (emulated vectors), and makes none faster; the clock may be.
    assert 0.2 < found.rates.loaded_products < 1.3


SEEN = {(built_in, simd, right): cpu for cpu, built_in, simd, right in reversed(TABLE["pairs"]) if not right}
"""A CPU of each kind of wrong pair, the first; the records above are right ones."""


@pytest.mark.opencl
@pytest.mark.parametrize(
    ("cpu", "built_in", "simd", "right"),
    [
        pytest.param(cpu, *kind, marks=[pytest.mark.slow] * (SEEN.get(tuple(kind)) != cpu))
        for cpu, *kind in TABLE["pairs"]
    ],
)
def test_a_name_whose_instructions_are_not_the_librarys_is_found_out_in_seconds(cpu, built_in, simd, right, tmp_path):
    """PoCL 3.0 compiles such a pair to wrong values, crashes, or computes for minutes."""
    record = InstructionSet(built_in, "x86_64", cpu, built_in, simd, frozenset(), frozenset())
    start = time.process_time()
    found = tried(record, tmp_path)
    assert (found.why == "") == right, found.why
    assert "\n" not in found.why
    assert time.process_time() - start < 60


@pytest.fixture
def children(monkeypatch):
    """Take the place of the canary's process: give what it finds by the record's name; note who was asked."""
    found: dict[str, Outcome] = {}
    asked: list[str] = []

    def run(module, work, cpu_seconds, folder):
        asked.append(work["record"]["name"])
        return found[asked[-1]]

    monkeypatch.setattr(child, "run", run)
    return found, asked


def test_the_widest_record_that_computes_rightly_is_taken_and_the_others_are_told(children, tmp_path):
    found, asked = children
    found["avx512"] = Outcome(why="it crashed (SIGSEGV)", log="LLVM ERROR: oh\n", died=True)
    found["avx2"] = Outcome({"why": "it computes nan where 1 is right"})
    found["sse2"] = Outcome(GOOD)
    with pytest.warns(UserWarning, match="is not used") as told:
        decided = decide(SUBJECT, (AVX512, AVX2, SSE2), tmp_path)
    assert decided.record is SSE2
    assert not decided.refusal
    assert len(told) == len(decided.notes) == 2
    assert "avx512 is not used: a trial of it failed: it crashed (SIGSEGV), saying 'LLVM ERROR: oh'" in decided.notes[0]
    assert "avx2 is not used: it computes nan" in decided.notes[1]
    with pytest.warns(UserWarning, match="is not used"):
        assert decide(SUBJECT, (AVX512, AVX2, SSE2), tmp_path) == decided
    assert asked == ["avx512", "avx2", "sse2"], "each was tried once"


@pytest.mark.parametrize("ended", [Outcome(why="it crashed (SIGABRT)", died=True), Outcome({"why": "no memory"})])
def test_what_fails_in_want_of_files_or_room_is_tried_again_where_there_are_some(
    children, tmp_path, monkeypatch, ended
):
    """PoCL ends the process where it cannot link: that says nothing of an instruction set."""
    children[0].update(avx2=ended, sse2=ended)
    with monkeypatch.context() as patch:
        patch.setattr(scratch, "unfit_for_code", lambda _: "it is full")
        refusal = decide(SUBJECT, (AVX2, SSE2), tmp_path).refusal
    assert refusal.startswith("instruction sets avx2, sse2 are not used: ")
    assert "is of no use to a compiler: it is full" in refusal
    children[0]["avx2"] = Outcome(GOOD)
    assert decide(SUBJECT, (AVX2, SSE2), tmp_path).record is AVX2


@pytest.mark.parametrize("bad", ["amx_bf16", "vbmi"])
def test_an_optional_feature_whose_trial_fails_is_left_out_alone(bad, tmp_path, monkeypatch):
    def run(module, work, cpu_seconds, folder):
        features = work["record"]["features"]
        return Outcome(why="it crashed (SIGILL)", died=True) if bad in features else Outcome(GOOD)

    monkeypatch.setattr(child, "run", run)
    wide = named("avx512_bf16").on(frozenset({"amx_bf16", "avx512vbmi"}))
    with pytest.warns(UserWarning, match="not used") as told:
        decided = decide(SUBJECT, (wide, AVX512), tmp_path)
    assert decided.record == replace(wide, features=wide.features - {bad})
    message = str(told[0].message)
    assert message.startswith(
        f"{SUBJECT.device}: instruction set{'s' * (bad == 'vbmi')} avx512_bf16 with amx_bf16 and vbmi"
    )
    assert "not used: a trial of it failed: it crashed (SIGILL)" in message
    other = {"amx_bf16": "vbmi", "vbmi": "amx_bf16"}[bad]
    assert message.endswith(f"; avx512_bf16 with {other} is used")


def test_where_none_computes_rightly_the_device_is_refused_in_one_sentence(children, tmp_path):
    children[0]["sse2"] = Outcome(why="it took more than 240 s of CPU time", died=True)
    decided = decide(SUBJECT, (SSE2,), tmp_path)
    assert decided == Decision(SSE2, decided.refusal, None, decided.notes)
    assert (
        decided.refusal == "instruction set sse2 is not used: a trial of it failed: it took more than 240 s of CPU time"
    )


@pytest.mark.parametrize(
    "damage",
    [
        *("", "{}", "[]", "not json", NOTHING, UNFETCHED, UNCACHED, UNLOADED),
        *('{"key": "another", "why": ""}', '{"key": KEY, "why": ""}', '{"key": KEY, "why": 1}'),
    ],
)
def test_a_damaged_verdict_is_found_out_anew(children, tmp_path, damage):
    children[0]["sse2"] = Outcome(GOOD)
    want = verdict(SUBJECT, SSE2, tmp_path)
    (file,) = tmp_path.glob("*.json")
    file.write_text(damage.replace("KEY", json.dumps(file.stem)), encoding="utf-8")
    assert verdict(SUBJECT, SSE2, tmp_path) == want
    assert len(children[1]) == 2
    assert verdict(SUBJECT, SSE2, tmp_path) == want
    assert len(children[1]) == 2


def test_a_verdict_is_of_one_driver_record_cpu_and_number_of_workers(children, tmp_path, monkeypatch):
    children[0].update({r.name: Outcome(GOOD) for r in (AVX2, SSE2)})
    verdict(SUBJECT, SSE2, tmp_path)
    verdict(SUBJECT, AVX2, tmp_path)
    verdict(replace(SUBJECT, driver="another"), SSE2, tmp_path)
    verdict(replace(SUBJECT, workers=2), SSE2, tmp_path)
    verdict(SUBJECT, replace(SSE2, cpu="nehalem"), tmp_path)
    monkeypatch.setattr(canary, "cpu_identity", lambda: "another CPU")
    verdict(SUBJECT, SSE2, tmp_path)
    assert len(children[1]) == len(list(tmp_path.glob("*.json"))) == 6


def test_what_a_busy_machine_did_to_a_trial_is_not_kept(children, tmp_path):
    children[0]["sse2"] = Outcome(why="it waited 60 s for nothing", died=True, hung=True)
    assert "waited" in verdict(SUBJECT, SSE2, tmp_path).why
    children[0]["sse2"] = Outcome(why="it crashed (SIGKILL)")
    assert "SIGKILL" in verdict(SUBJECT, SSE2, tmp_path).why
    children[0]["sse2"] = Outcome(GOOD)
    assert verdict(SUBJECT, SSE2, tmp_path).why == ""


def test_a_device_that_was_not_there_is_tried_again(tmp_path, monkeypatch):
    """``OCL_ICD_VENDORS`` names a folder that is gone: whoever sets it right has the device."""
    monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path / "gone"))
    assert "OpenCL shows no pocl:0 there" in verdict(SUBJECT, SSE2, tmp_path).why
    assert not list(tmp_path.glob("*.json"))


def test_rates_that_no_core_has_are_not_believed(children, tmp_path):
    """A driver that ends a wait before the work is done is timed at next to nothing."""
    children[0]["avx2"] = Outcome({**GOOD, "worker_flops": 5.5e12})
    assert verdict(SUBJECT, AVX2, tmp_path) == Verdict("", None)
    assert verdict(SUBJECT, AVX2, tmp_path) == Verdict("", None)
    children[0]["own"] = Outcome({**GOOD, "worker_flops": 4.6e11})
    assert verdict(SUBJECT, GPU, tmp_path).rates.worker_flops == 4.6e11


def test_a_folder_that_cannot_be_written_costs_a_trial_and_nothing_else(children, tmp_path):
    children[0]["sse2"] = Outcome(GOOD)
    (tmp_path / "file").write_text("")
    assert verdict(SUBJECT, SSE2, tmp_path / "file" / "below").rates == Rates(1e11, ((1, 1e10), (2, 1.5e10)))


def test_measured_rates_take_the_place_of_the_classs():
    rates = Rates(1e11, ((1, 1e10), (2, 1.8e10), (4, 2e10)))
    assert [rates.bandwidth(workers) for workers in (1, 2, 3, 4, 9)] == [1e10, 1.8e10, 1.8e10, 2e10, 2e10]
    plain, measured = (DeviceInfo(name="pocl:0", workers=2, rates=r).costs for r in (None, rates))
    assert plain is shipped("pocl-avx512")
    assert (measured.worker_flops, measured.bytes_per_second) == (1e11, 1.8e10)
    slower = plain.worker_flops / 1e11
    assert measured.unit("copy.vector") == pytest.approx(plain.unit("copy.vector") * slower)
    assert measured.cache_bytes_per_second == pytest.approx(plain.cache_bytes_per_second / slower)
    cached = Rates.from_data({"worker_flops": 1e11, "bandwidths": [[1, 1e10]], "cached": 3e10})
    costs = DeviceInfo(name="pocl:0", workers=2, rates=cached).costs
    assert (costs.shared_bytes_per_second, costs.cache_bytes_per_second) == (3e10, measured.cache_bytes_per_second)
    assert measured.shared_bytes_per_second is None
    assert measured.byte_products == plain.byte_products
    assert DeviceInfo(name="pocl:0", workers=2, rates=replace(cached, byte_products=1.9)).costs.byte_products == 1.9
    gpu = DeviceInfo(name="nvidia:0", kind="gpu", vendor="NVIDIA", simd=1, rates=Rates(4e11, ((132, 4e12),)))
    assert gpu.costs.flops(132, 1.9) == 132 * 4e11
    assert gpu.costs.bandwidth(1.0) == 4e12
    assert gpu.costs.units == shipped("nvidia").units


@pytest.mark.parametrize(
    "more", [{}, {"cached": 3e10, "amx_products": 6.5, "byte_products": 1.7}], ids=["without", "with"]
)
def test_rates_come_back_from_json_with_and_without_what_not_every_cpu_has(more):
    rates = Rates(1e11, ((1, 1e10), (2, 1.8e10)), 0.9, 1.2, **more)
    assert Rates.from_data(json.loads(json.dumps(asdict(rates)))) == rates


def test_without_measurements_a_machine_is_estimated_as_its_class():
    rates = Rates(1e11, ((1, 1e10), (2, 1.8e10)))
    measured = DeviceInfo(name="pocl:0", workers=2, flops=2e11, bytes_per_second=1.8e10, rates=rates)
    plain, costs = by_class(measured), shipped("pocl-avx512")
    assert plain.costs is costs
    assert (plain.flops, plain.bytes_per_second) == (2 * costs.worker_flops, costs.bytes_per_second)
    assert by_class(plain) == plain


def test_of_several_that_want_a_verdict_at_once_one_tries(tmp_path, monkeypatch):
    trials, ended = [], threading.Event()

    def trial(subject, record):
        trials.append(record)
        if len(trials) == 1:
            ended.wait(60)
        return GOOD, True

    monkeypatch.setattr(canary, "_try", trial)
    found = []
    threads = [threading.Thread(target=lambda: found.append(verdict(SUBJECT, SSE2, tmp_path))) for _ in range(2)]
    for thread in threads:
        thread.start()
    threads[1].join(0.1)  # it would be over by then if it waited for nobody
    ended.set()
    for thread in threads:
        thread.join(60)
    assert len(trials) == 1
    assert len(found) == 2
    assert found[0] == found[1]
