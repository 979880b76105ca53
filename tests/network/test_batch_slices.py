"""Models whose batch is computed in slices behave like others."""

from __future__ import annotations

import numpy as np
import pytest

import clgraph
from clgraph.debugging.bisection import bisect
from clgraph.debugging.compare import compare
from clgraph.engines.opening import options_of
from clgraph.errors import InputError
from clgraph.network import batch_slices as network_slices
from clgraph.ops.activation import Activation
from clgraph.ops.convolution import Convolution
from clgraph.ops.reduce import Reduce
from clgraph.ops.softmax import Softmax
from clgraph.passes.memory import split_batch
from tests.support.programs import RELU, Net

pytestmark = pytest.mark.opencl


CONFIG = {"force_kernels": {"conv": "convolution.fsv16"}}
"""The cheapest way to convolve two images may be another than that to convolve six: here it is the same."""


def network() -> Net:
    net = Net()
    x = net.input("x", (6, 3, 9, 9))
    y = net.add("conv", Convolution((1, 1), (1, 1), ((1, 1), (1, 1))), x, net.data("w", 20, 3, 3, 3))
    net.output(net.add("relu", RELU, y))
    net.output(net.add("mean", Reduce("mean", (2, 3), keepdims=False), net.add("tanh", Activation("tanh"), "relu")))
    return net


@pytest.fixture
def whole(device):
    return clgraph.compile(network(), device, config=CONFIG)


@pytest.fixture
def model(device, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(split_batch, "best_slices", lambda *_: 3)
        return clgraph.compile(network(), device, config=CONFIG)


@pytest.fixture
def feeds():
    return {"x": np.random.default_rng(0).standard_normal((6, 3, 9, 9)).astype(np.float32)}


def test_the_results_are_those_of_the_whole_batch(model, whole, feeds) -> None:
    assert (model.program.batch_slices, whole.program.batch_slices) == (3, 1)
    assert model.outputs == whole.outputs
    wanted = whole.run(feeds)
    for found in (
        model.run(feeds),
        model.clone().run(feeds),
        model.run(feeds, ["mean"]),
        model.run(feeds, tensors=True),
    ):
        for name, result in found.items():
            np.testing.assert_array_equal(np.asarray(result), wanted[name])


def test_results_are_left_where_they_are_wanted_even_in_the_feed(model, whole, feeds) -> None:
    wanted = whole.run(feeds)
    target = np.empty((6, 20, 9, 9), np.float32)
    assert model.run(feeds, {"relu": target})["relu"] is target
    np.testing.assert_array_equal(target, wanted["relu"])
    # The mean of the first part would overwrite the second part's feed.
    memory = np.concatenate([feeds["x"].ravel(), np.zeros(64, np.float32)])
    mean = memory[2 * 243 : 2 * 243 + 120].reshape(6, 20)
    model.run({"x": memory[:1458].reshape(6, 3, 9, 9)}, {"mean": mean})
    np.testing.assert_array_equal(mean, wanted["mean"])


def test_a_profile_is_about_all_parts(model, whole, feeds) -> None:
    assert sum(c.flops for c in model.profile(feeds).commands) == sum(c.flops for c in whole.profile(feeds).commands)


def test_a_saved_model_knows_its_parts(model, whole, feeds, device, tmp_path) -> None:
    model.save(tmp_path / "model.clg")
    loaded = clgraph.load(tmp_path / "model.clg", device, config=CONFIG)
    assert loaded.program.batch_slices == 3
    assert "as saved" in loaded.notes[0]
    np.testing.assert_array_equal(loaded.run(feeds)["mean"], whole.run(feeds)["mean"])


def test_what_does_not_fit_is_an_input_error(model, feeds) -> None:
    network = model._specialisations.latest.network
    with pytest.raises(InputError, match=r"'x' requires 3 batch slices of \[2, 3, 9, 9\], not \[5, 3, 9, 9\]"):
        network.run({"x": feeds["x"][:5]})
    with pytest.raises(InputError, match="'mean', computed in 3 batch slices, requires an array"):
        network.run(feeds, {"mean": np.empty((2, 20), np.float32)})
    with pytest.raises(InputError, match="CLGRAPH_SPLIT_BATCH=0"):
        network.watch(feeds, None)


def test_the_option_leaves_batches_whole(device) -> None:
    net = Net()
    net.output(net.add("relu", RELU, net.input("x", (64, 64, 56, 56))))
    assert clgraph.compile(net, device, config={"split_batch": False}).program.batch_slices == 1


def test_the_pass_can_be_left_out_and_its_note_is_explained(device, monkeypatch, whole, feeds) -> None:
    monkeypatch.setattr(split_batch, "best_slices", lambda *_: 3)
    model = clgraph.compile(network(), device, config={**CONFIG, "verify_passes": True, "model_cache": 0})
    assert model.program.batch_slices == 3
    assert model.explain().notes["split_batch"] == "computed in 3 slices of 2, one after another"
    np.testing.assert_array_equal(model.run(feeds)["mean"], whole.run(feeds)["mean"])
    left = clgraph.compile(network(), device, config={"disable_passes": ["split_batch"], "model_cache": 0})
    assert left.program.batch_slices == 1


def test_slices_that_mix_entries_are_found_by_comparison_and_bisection(device, monkeypatch, feeds) -> None:
    net = Net()
    net.output(net.add("y", Softmax((0,)), net.add("relu", RELU, net.input("x", (6, 3, 9, 9)))))
    options = options_of(device)
    assert compare(net, feeds, options).agrees
    monkeypatch.setattr(split_batch, "best_slices", lambda *_: 3)
    assert compare(net, feeds, options).agrees
    monkeypatch.setattr(split_batch, "keeps_apart", lambda *_: True)
    assert "'y' of the batch in slices is off by" in compare(net, feeds, options).verdict()
    found = bisect(net, feeds, options)
    assert found.rewrite == "split_batch"
    assert str(found) == "pass 'split_batch' changes what the model computes"


def test_slices_that_a_run_puts_together_wrongly_are_the_pass_s_fault(device, monkeypatch, feeds) -> None:
    """The program is right and a run of it wrong: every optional pass is left out, and it is the only one to blame."""
    monkeypatch.setattr(split_batch, "best_slices", lambda *_: 3)
    monkeypatch.setattr(network_slices, "_slice", lambda array, i, size: array[(2 - i) * size : (3 - i) * size])
    net = Net()
    net.output(net.add("relu", RELU, net.input("x", (6, 3, 9, 9))))
    found = bisect(net, feeds, options_of(device))
    assert (found.rewrite, found.pass_) == (None, "split_batch")
