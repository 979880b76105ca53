"""Decoders with mixtures of experts: caches are state, and a prompt of another length compiles nothing."""

from __future__ import annotations

import numpy as np
import pytest

import clgraph
from clgraph.core.dtype import DType
from clgraph.graph.signature import Signature
from clgraph.graph.topology import Topology
from clgraph.model.state.examples import Examples
from clgraph.ops.concat import Concat
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.expand import Expand
from clgraph.ops.shape import ShapeOf
from clgraph.ops.slice import Slice
from tests.support.decoders import decoder_feeds, greedy_tokens, onnxruntime_run
from tests.support.mixtures import along, decoder_with, decoder_with_a_table, decoder_with_experts, mixture
from tests.support.sorted_mixtures import sorted_mixture


@pytest.mark.opencl
@pytest.mark.parametrize("spelling", ["traced", "exported", "compared", "sorted"])
def test_prompts_of_any_length_are_chunks_of_four_programs(spelling):
    d, made = decoder_with(sorted_mixture() if spelling == "sorted" else mixture(spelling))
    model, theirs = clgraph.compile(made), onnxruntime_run(made)
    for count in (20, 33, 150, 7):
        prompt = [int(x) for x in np.random.default_rng(count).integers(0, 300, count)]
        ours = greedy_tokens(lambda feeds: list(model.run(feeds).values()), d, prompt, 4)
        assert ours == greedy_tokens(theirs, d, prompt, 4)
    assert len(model._model_state.programs.made) == 4
    assert not model.compiled


@pytest.mark.opencl
def test_the_last_token_alone_is_what_it_is_among_all():
    d, made = decoder_with_experts("exported")
    model = clgraph.compile(made)
    ids = np.random.default_rng(1).integers(0, 300, (1, 21))
    feeds = {"input_ids": ids, "position_ids": np.arange(21)[None]}
    last, all_of = (model.session().run(feeds, last=last)["logits"] for last in (True, False))
    assert last.shape == (1, 1, d.vocabulary)
    # Sums in another order, behind one another: of width, experts and vocabulary, each of at most 24 products.
    np.testing.assert_allclose(last[0, 0], all_of[0, -1], 0, 128 * 2.0**-24 * np.abs(all_of).max())


@pytest.mark.opencl
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    "kind",
    ["arg", "cumulative_sum", "gather_elements", "scatter_elements", "top_k", "repeat", "reshape"],
)
def test_what_mixes_tokens_sees_the_whole_prompt(kind, axis):
    """Chunks of a prompt would hide its other tokens from layers that read along their axis."""
    d, made = decoder_with(along(kind, axis))
    model, theirs = clgraph.compile(made), onnxruntime_run(made)
    for count in (20, 150):
        feeds = decoder_feeds(d, np.random.default_rng(count).integers(0, 300, (1, count)))
        ours, want = model.run(feeds)["logits"], theirs(feeds)[0]
        # Sums in another order, as above; an element that is chosen among others is one of them.
        np.testing.assert_allclose(ours, want, 0, 256 * 2.0**-24 * np.abs(want).max())
    chunks = {s.kept.inputs[0].layout.shape[1] for s in model._model_state.programs.made}
    assert chunks == ({20, 150} if axis == 0 else {32, 128})


@pytest.mark.opencl
def test_rows_of_a_table_of_all_places_are_gathered_by_the_host():
    """Its length is that of all tokens: programs that read it would be others for each length."""
    d, made = decoder_with_a_table()
    model, theirs = clgraph.compile(made), onnxruntime_run(made)
    for count in (20, 33, 150, 7):
        prompt = [int(x) for x in np.random.default_rng(count).integers(0, 300, count)]
        ours = greedy_tokens(lambda feeds: list(model.run(feeds).values()), d, prompt, 4)
        assert ours == greedy_tokens(theirs, d, prompt, 4)
    assert len(model._model_state.programs.made) == 4


def test_examples_have_names_of_sizes_with_which_both_can_be_built():
    top = Topology()
    top.input("ids", ("batch", "tokens"), np.int64)
    top.input("mask", ("batch", "all"))
    for name, size in (("past", "past"), ("new", "tokens")):
        top.input(name, ("batch", 1, size, 4))
    top.constant("start", np.array([0]))
    top.constant("axis", np.array([1]))
    top.constant("zero", np.zeros(1, np.float32))
    top.add("present", Concat(2), "past", "new")
    top.add("all", ShapeOf(2, 3), "present")
    top.add("first", Slice(reads=("starts", "ends", "axes")), "mask", "start", "all", "axis")
    top.add("y", Eltwise("add"), "first", top.add("zeros", Expand(reads=("shape",)), "zero", "all"))
    top.output("present", "present")
    top.output("y", "y")
    top.declared["present"] = Signature("present", DType.F32, ("batch", 1, "whole", 4))
    assert Examples(top).all_shapes("mask") == ((1, 5), (2, 10))


def test_sizes_whose_names_are_numbers_are_these():
    """PyTorch's exporter names sizes that it has found to be one so."""
    top = Topology()
    top.input("new", ("batch", 2, "tokens", 4))
    top.input("past", ("batch", "2", "past", "4"))
    top.add("present", Concat(2), "past", "new")
    top.output("present", "present")
    top.declared["present"] = Signature("present", DType.F32, ("batch", 2, "past + tokens", 4))
    assert Examples(top).all_shapes("past") == ((1, 2, 3, 4), (2, 2, 5, 4))
