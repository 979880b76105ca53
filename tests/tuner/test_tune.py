import json
import logging
import math
from dataclasses import replace

import numpy as np
import pytest

import clgraph
from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.engines import opening
from clgraph.errors import OptionError
from clgraph.graph.node import Fused
from clgraph.graph.topology import Topology
from clgraph.network.network import Network
from clgraph.ops.activation import Activation
from clgraph.ops.convolution import Convolution
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.quantized_convolution import QuantizedConvolution
from clgraph.ops.static_quantize import StaticQuantize
from clgraph.passes.base import Context
from clgraph.runtime.device import find_device
from clgraph.selector.choose import choose
from clgraph.selector.costs import shipped
from clgraph.selector.implementation import IMPLEMENTATIONS
from clgraph.selector.query import Query, problem_key
from clgraph.selector.tuning import Tuning, read_tuning
from clgraph.tuner import tune
from clgraph.tuner.fit import estimate_by, fit
from clgraph.tuner.measure import Bench, Sample

pytestmark = pytest.mark.opencl

SLOW, FAST = 2e-3, 1e-4


def small_model(channels: int = 16) -> Topology:
    """One convolution that a direct kernel and Winograd can run, then a sum."""
    rng = np.random.default_rng(1)
    t = Topology()
    x = t.input("x", (1, 16, 12, 12))
    w = t.constant("w", rng.standard_normal((channels, 16, 3, 3)).astype(np.float32))
    t.add("conv", Convolution((1, 1), (1, 1), ((1, 1), (1, 1))), x, w)
    t.add("act", Activation("hard_swish", 1 / 6, 0.5), "conv")
    t.output("act")
    return t


@pytest.fixture
def fake_clock(monkeypatch):
    """Let every candidate take 2 ms, but those named in the list that is returned 0.1 ms."""
    fast: list[str] = []

    def clock(network, feeds):
        return {n.name: FAST if n.choice.name in fast else SLOW for n in network.program}

    original = tune.Bench
    monkeypatch.setattr(tune, "Bench", lambda context, network: original(context, network, clock))
    return fast


def chosen(model: clgraph.Model) -> tuple[str, str, float]:
    node = model.explain()["conv"]
    return node.implementation, node.because, node.estimate


def test_what_was_fastest_is_chosen_from_then_on_and_said_to_be_tuned(tmp_path, fake_clock, device):
    model, where = small_model(), {"device": device, "config": {"tuning": str(tmp_path / "t.json")}}
    fake_clock.append("convolution.fsv16")
    before = chosen(clgraph.compile(model, **where))
    report = clgraph.tune(model, **where)
    assert report.finished
    assert report.path == tmp_path / "t.json"
    assert {r.sample.implementation for r in report.rows} >= {"convolution.fsv16", "convolution.winograd_fsv16"}
    compiled = clgraph.compile(model, **where)
    name, because, seconds = chosen(compiled)
    assert before[0] != "convolution.fsv16"
    assert (name, seconds) == ("convolution.fsv16", FAST)
    assert because.startswith("tuned")
    x = np.random.default_rng(0).standard_normal((1, 16, 12, 12)).astype(np.float32)
    plain = clgraph.compile(model, device=device, config={"tuning": "off"})
    np.testing.assert_allclose(compiled.run({"x": x})["act"], plain.run({"x": x})["act"], atol=1e-4)


def test_results_of_earlier_calls_stay_and_serve_any_number_of_workers(tmp_path, fake_clock, device):
    where = {"device": device, "config": {"tuning": str(tmp_path / "t.json")}}
    fake_clock.append("convolution.fsv16")
    first = clgraph.tune(small_model(), threads=1, **where).tuning
    both = clgraph.tune(small_model(32), threads=1, **where).tuning
    assert first.times.items() < both.times.items()
    for workers in (1, 2, 5):
        assert chosen(clgraph.compile(small_model(), threads=workers, **where))[0] == "convolution.fsv16"


def test_wrong_results_are_never_timed_and_never_chosen(tmp_path, fake_clock, device, monkeypatch):
    where = {"device": device, "config": {"tuning": str(tmp_path / "t.json")}}
    fake_clock.append("convolution.fsv16")
    original = Bench.measure

    def spoiled(self, proposal, arrays, expected):
        twice = proposal.implementation.name == "convolution.fsv16"
        return original(self, proposal, arrays, [2 * e for e in expected] if twice else expected)

    monkeypatch.setattr(Bench, "measure", spoiled)
    report = clgraph.tune(small_model(), **where)
    wrong = next(r.sample for r in report.rows if r.sample.implementation == "convolution.fsv16")
    assert math.isinf(wrong.seconds)
    assert wrong.error > 0.1
    assert not wrong.right
    node = clgraph.compile(small_model(), **where).explain()["conv"]
    assert node.implementation != "convolution.fsv16"
    kept = json.loads((tmp_path / "t.json").read_text())["times"]
    assert kept[problem_key(wrong.query)]["convolution.fsv16"] is None
    laid_out = replace(wrong.query, device=replace(wrong.query.device, tuning=report.tuning))
    assert choose(laid_out).refusals["convolution.fsv16"] == "gave wrong results when it was tuned"


def test_products_of_integers_are_measured_and_may_round_to_either_neighbour(gpu_engine):
    place = gpu_engine.info.name
    bench = Bench(
        Context({place: gpu_engine.info}), lambda p: Network(p, {place: gpu_engine}), lambda n, _: FakeTimes()
    )
    window = QuantizedConvolution((1, 1), (1, 1), ((1, 1), (1, 1)), zero=3)
    types = (DType.I8, DType.I8, DType.I32, DType.F32, DType.F32)
    inputs = tuple(Layout(d, s) for d, s in zip(types, ((1, 8, 6, 6), (8, 8, 3, 3), (8,), (8,), (8,)), strict=True))
    fused, made = (Fused(StaticQuantize(0.5, -9)),), (Layout(DType.I8, (1, 8, 6, 6)),)
    q = Query(window, inputs, made, gpu_engine.info, 5, fused, frozenset({1, 2, 3, 4}))
    (proposal,) = bench.candidates(q)
    assert proposal.implementation.name == "quantized_convolution.gpu_tiled"
    arrays, expected = bench.expected(q)
    (result,) = expected
    assert bench.measure(proposal, arrays, expected).right
    assert bench.measure(proposal, arrays, [np.clip(result, -128, 126) + 1]).right
    assert not bench.measure(proposal, arrays, [np.clip(result, -128, 125) + 2]).right


class FakeTimes(dict):
    """Two milliseconds for whatever is asked."""

    def __missing__(self, name):
        return SLOW


def test_time_that_runs_out_and_an_interrupt_keep_whole_problems(tmp_path, fake_clock, device):
    where = {"device": device, "config": {"tuning": str(tmp_path / "t.json")}}
    none = clgraph.tune(small_model(), **where, seconds=0.0)
    assert (none.finished, none.rows) == (False, ())
    assert not (tmp_path / "t.json").exists()

    two = small_model()
    two.add("more", Eltwise("mul"), "act", two.constant("g", np.ones((1, 16, 12, 12), np.float32)))
    v = two.constant("v", np.ones((4, 16, 1, 1), np.float32))
    two.add("again", Convolution((1, 1), (1, 1), ((0, 0), (0, 0))), "more", v)
    two.output("again")
    seen = []

    def stop(p):
        seen.append(p.done)
        if p.done == 1:
            raise KeyboardInterrupt

    report = clgraph.tune(two, **where, progress=stop)
    assert not report.finished
    assert report.problems >= 2
    assert seen.count(0) == len(report.rows) > 0
    assert read_tuning(report.path, opening.tuning_identity(find_device(device))).times == report.tuning.times


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"\xff\xfe", b"[]", b'{"format": 1}', b'{"format": 99}'],
    ids=["empty", "cut", "bytes", "list", "bare", "format"],
)
def test_a_damaged_file_is_ignored_with_a_warning_and_replaced(tmp_path, fake_clock, device, caplog, damage):
    path = tmp_path / "t.json"
    path.write_bytes(damage)
    where = {"device": device, "config": {"tuning": str(path)}}
    with caplog.at_level(logging.WARNING, "clgraph"):
        _, because, _ = chosen(clgraph.compile(small_model(), **where))
    assert "is not used" in caplog.text
    assert "tuned" not in because
    clgraph.tune(small_model(), **where)
    assert chosen(clgraph.compile(small_model(), **where))[1].startswith("tuned")


def test_values_that_are_no_times_or_figures_make_a_file_damaged(tmp_path, fake_clock, device, caplog):
    path = tmp_path / "t.json"
    where = {"device": device, "config": {"tuning": str(path)}}
    clgraph.tune(small_model(), **where)
    whole = json.loads(path.read_text())
    for change in ({"times": {"a": {"b": -1}}}, {"times": 3}, {"costs": {"name": "x"}}, {"driver": "another"}):
        caplog.clear()
        path.write_text(json.dumps(whole | change))
        assert not chosen(clgraph.compile(small_model(), **where))[1].startswith("tuned")
        assert "is not used" in caplog.text


def test_the_host_cannot_be_tuned():
    with pytest.raises(OptionError, match="no OpenCL kernels run there"):
        clgraph.tune(small_model(), device="host")


def test_a_saved_model_says_what_it_was_tuned_with(tmp_path, fake_clock, device):
    where = {"device": device, "config": {"tuning": str(tmp_path / "t.json")}}
    clgraph.tune(small_model(), **where)
    clgraph.compile(small_model(), **where).save(tmp_path / "tuned.clg")
    clgraph.compile(small_model(), device=device, config={"tuning": "off"}).save(tmp_path / "plain.clg")
    assert "as saved" in clgraph.load(tmp_path / "tuned.clg", **where).notes[0]
    # Without a tuning here, what was tuned elsewhere is run as it is.
    untuned = clgraph.load(tmp_path / "tuned.clg", device=device, config={"tuning": "off"})
    assert "as saved" in untuned.notes[0]
    assert untuned.explain()["conv"].because.startswith("tuned")
    assert "tuning none, here" in clgraph.load(tmp_path / "plain.clg", **where).notes[0]


def test_a_fit_recovers_the_peak_and_the_scales_that_made_the_times(tmp_path, device):
    """Times that another model gives are fitted back to it: the peak halved, the mover three times as slow."""
    compiler = tune.Compiler(opening.options_of(device, None, None, {"tuning": "off"}))
    bench = Bench(compiler.context, lambda program: None)
    base = compiler.context.default.costs
    true = replace(base, worker_flops=base.worker_flops / 2, scales={"pooling.fsv16": 3.0})
    samples = []
    for topology in tune.standard():
        for q in tune.problems(topology.build(), compiler.context):
            for p in bench.candidates(q):
                name = p.implementation.name
                samples.append(Sample(p.query, name, 0.0, estimate_by(true, Sample(p.query, name, 0.0, 1.0))))
    got = fit(base, samples)
    assert got.worker_flops == pytest.approx(true.worker_flops, rel=0.02)
    assert got.scales["pooling.fsv16"] == pytest.approx(3.0, rel=0.05)
    for s in samples:
        assert estimate_by(got, s) == pytest.approx(s.seconds, rel=0.5)
    assert fit(base, []) is base


def test_tunings_are_equal_by_what_they_hold():
    one = Tuning(shipped("cpu"), {"p": {"a": 1.0, "b": math.inf}})
    again = Tuning.from_data(json.loads(json.dumps(one.to_data())))
    assert (again.times, again.digest, hash(again)) == (one.times, one.digest, hash(one))
    assert one != Tuning(shipped("cpu"), {"p": {"a": 2.0, "b": math.inf}})
    assert "convolution.fsv16" in IMPLEMENTATIONS
