"""State of decoders behind an encoder, and of those that an input tells whether caches are there."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import clgraph
from clgraph.compilation.pass_runs import PassRuns
from clgraph.families.notes import NOTE
from clgraph.model.state.programs import LEAST_PROGRAMS
from tests.support import oracle

pytestmark = pytest.mark.opencl


def crossed():
    """Return attention over own tokens, with caches, and one over what an encoder made, as decoders have."""
    return onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
    crossed (float[b,2,s,8] q, float[b,2,s,8] k, float[b,2,s,8] v, float[b,m] mask, float[b,2,p,8] past_k,
             float[b,2,p,8] past_v, float[b,2,e,8] made_k, float[b,2,e,8] made_v)
        => (float[b,2,s,8] y, float[b,2,t,8] keys, float[b,2,t,8] values)
        <int64[2] middle = {1, 2}> {
        keys = Concat <axis = 2> (past_k, k)
        values = Concat <axis = 2> (past_v, v)
        own = Transpose <perm = [0, 1, 3, 2]> (keys)
        products = MatMul (q, own)
        shares = Softmax <axis = -1> (products)
        mixed = MatMul (shares, values)
        others = Transpose <perm = [0, 1, 3, 2]> (made_k)
        crossing = MatMul (mixed, others)
        bias = Unsqueeze (mask, middle)
        scores = Add (crossing, bias)
        weights = Softmax <axis = -1> (scores)
        y = MatMul (weights, made_v)
    }""")


def chosen_by_an_input(made):
    """Return *made* as the body that ``use_cache`` chooses; the other one joins nothing with its pasts."""
    graph, inner = made.graph, {x for node in made.graph.node for x in node.output}
    outs = [[onnx.ValueInfoProto(name=f"{o.name}{end}") for o in graph.output] for end in ("_then", "_else")]
    bodies = []
    for end, outputs in zip(("_then", "_else"), outs, strict=True):
        nodes = []
        for node in graph.node:
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            if end == "_else" and node.op_type == "Concat":
                copy = helper.make_node("Identity", node.input[1:], node.output)
            copy.input[:] = [f"{x}{end}" if x in inner else x for x in copy.input]
            copy.output[:] = [f"{x}{end}" for x in node.output]
            nodes.append(copy)
        for value, o in zip(outputs, graph.output, strict=True):
            value.type.CopyFrom(o.type)
        bodies.append(helper.make_graph(nodes, f"body{end}", [], outputs))
    choice = helper.make_node(
        "If", ["use_cache"], [o.name for o in graph.output], then_branch=bodies[0], else_branch=bodies[1]
    )
    condition = helper.make_tensor_value_info("use_cache", TensorProto.BOOL, [1])
    whole = helper.make_graph([choice], "merged", [*graph.input, condition], graph.output, graph.initializer)
    return helper.make_model(whole, opset_imports=made.opset_import, ir_version=8)


def test_what_an_encoder_made_is_of_a_length_of_its_own(rng):
    """As in decoders of T5, BART and Whisper, whose attention over their own tokens is followed by one over others."""
    made = crossed()
    model = clgraph.compile(made)
    ort = oracle.session(made, threads=1)
    feeds = {n: np.zeros((1, 2, 0, 8), np.float32) for n in ("past_k", "past_v")}
    others = {n: rng.standard_normal((1, 2, 5, 8)).astype(np.float32) for n in ("made_k", "made_v")}
    others["mask"] = rng.standard_normal((1, 5)).astype(np.float32)
    for tokens in (3, 1, 1):
        new = {n: rng.standard_normal((1, 2, tokens, 8)).astype(np.float32) for n in "qkv"}
        got, want = model.run(new | others | feeds), ort.run(None, new | others | feeds)
        for a, b in zip(got.values(), want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
        feeds = {"past_k": got["keys"], "past_v": got["values"]}
    assert len(model.state) == 2
    assert not model.compiled


@pytest.mark.parametrize(("most", "kept"), [(256, 20), (0, LEAST_PROGRAMS)])
def test_programs_of_an_encoders_lengths_are_kept_within_a_limit(most, kept, rng):
    made = crossed()
    model, ort = clgraph.compile(made, config={"shape_cache": most}), oracle.session(made, threads=1)
    for length in (*range(5, 25), 5):
        feeds = {n: np.zeros((1, 2, 0, 8), np.float32) for n in ("past_k", "past_v")}
        others = {n: rng.standard_normal((1, 2, length, 8)).astype(np.float32) for n in ("made_k", "made_v")}
        others["mask"] = rng.standard_normal((1, length)).astype(np.float32)
        for _ in range(2):
            given = {n: rng.standard_normal((1, 2, 1, 8)).astype(np.float32) for n in "qkv"} | others | feeds
            got, want = model.run(given), ort.run(None, given)
            np.testing.assert_allclose(got["y"], want[0], rtol=1e-4, atol=1e-5)
            feeds = {"past_k": got["keys"], "past_v": got["values"]}
    assert len(model._model_state.programs.made) == kept


@pytest.mark.parametrize("batch", [1, 2])
def test_a_length_of_what_an_encoder_made_is_bound_to_a_family(batch, rng, monkeypatch):
    """A chunk of 3 tokens and one of a token have a family each: a representative is compiled twice, a member never."""
    compiled = []
    original = PassRuns.run
    monkeypatch.setattr(PassRuns, "run", lambda self, *given: (compiled.append(given[1]), original(self, *given))[1])
    made = crossed()
    model, ort = clgraph.compile(made, config={"model_cache": 0}), oracle.session(made, threads=1)
    for length in (5, 2, 40, 300, 17):
        feeds = {n: np.zeros((batch, 2, 0, 8), np.float32) for n in ("past_k", "past_v")}
        others = {n: rng.standard_normal((batch, 2, length, 8)).astype(np.float32) for n in ("made_k", "made_v")}
        others["mask"] = rng.standard_normal((batch, length)).astype(np.float32)
        for tokens in (3, 1, 1):
            given = {n: rng.standard_normal((batch, 2, tokens, 8)).astype(np.float32) for n in "qkv"} | others | feeds
            got, want = model.run(given), ort.run(None, given)
            np.testing.assert_allclose(got["y"], want[0], rtol=1e-4, atol=1e-5)
            feeds = {"past_k": got["keys"], "past_v": got["values"]}
    programs = model._model_state.programs
    assert [s.program.notes[NOTE].startswith("bound") for s in programs.made] == [True] * 10
    assert len(compiled) == 2
    assert len(programs._opened) == 2


def test_the_body_with_caches_that_an_input_chooses_has_state(rng, tmp_path):
    """As in Optimum's merged decoders, whose other body makes the first caches, whatever pasts are fed."""
    made = chosen_by_an_input(crossed())
    model = clgraph.compile(made)
    ort = oracle.session(made, threads=1)
    feeds = {n: np.zeros((1, 2, 1, 8), np.float32) for n in ("past_k", "past_v")}
    others = {n: rng.standard_normal((1, 2, 5, 8)).astype(np.float32) for n in ("made_k", "made_v")}
    others["mask"] = rng.standard_normal((1, 5)).astype(np.float32)
    session = model.session()
    for step, tokens in enumerate((1, 1, 1, 3)):
        new = {n: rng.standard_normal((1, 2, tokens, 8)).astype(np.float32) for n in "qkv"}
        given = new | others | feeds | {"use_cache": np.array([step > 0])}
        got, want = model.run(given), ort.run(None, given)
        for a, b in zip(got.values(), want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(session.run(new | others)["y"], want[0], rtol=1e-4, atol=1e-5)
        feeds = {"past_k": got["keys"], "past_v": got["values"]}
    assert [p.input for p in model.state] == ["past_k", "past_v"]
    assert len(model.compiled) == 1
    model.save(tmp_path / "merged.clg")
    loaded = clgraph.load(tmp_path / "merged.clg")
    np.testing.assert_allclose(loaded.run(given)["y"], want[0], rtol=1e-4, atol=1e-5)
    assert len(loaded.state) == 2
    assert len(loaded.compiled) == 1
