"""What is found to be state: pairs of a model's inputs and outputs, by structure and by name."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import clgraph
from clgraph.errors import InputError, UnsupportedError
from clgraph.graph.topology import Topology
from clgraph.model.state.doubles import merged
from clgraph.ops.eltwise import Eltwise
from tests.support import oracle
from tests.support.decoder_weights import Decoder
from tests.support.decoders import decoder_feeds, decoder_model, greedy_tokens, onnxruntime_run
from tests.support.hybrid import hybrid_model
from tests.support.rounding import assert_both_round

pytestmark = pytest.mark.opencl


def cell(open_batch=False):
    """Return an LSTM of 5 states over one token, whose states go in and out."""
    rng = np.random.default_rng(2)
    arrays = {"w": rng.standard_normal((1, 20, 3)), "r": rng.standard_normal((1, 20, 5))}
    weights = [onnx.numpy_helper.from_array(a.astype(np.float32), n) for n, a in arrays.items()]
    batch = "batch" if open_batch else 1
    info = lambda name, *shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)  # noqa: E731
    node = helper.make_node("LSTM", ["x", "w", "r", "", "", "h", "c"], ["y", "h2", "c2"], hidden_size=5)
    ins = [info("x", 1, batch, 3), info("h", 1, batch, 5), info("c", 1, batch, 5)]
    outs = [info("y", 1, 1, batch, 5), info("h2", 1, batch, 5), info("c2", 1, batch, 5)]
    graph = helper.make_graph([node], "cell", ins, outs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_states_of_a_cell_are_carried(rng):
    made = cell(open_batch=True)
    ort = oracle.session(made, threads=1)
    model = clgraph.compile(made)
    assert [(p.input, p.output, p.grows) for p in model.state] == [("h", "h2", False), ("c", "c2", False)]
    session, h, c = model.session(), *np.zeros((2, 1, 2, 5), np.float32)
    for _ in range(3):
        x = rng.standard_normal((1, 2, 3)).astype(np.float32)
        y, h, c = ort.run(None, {"x": x, "h": h, "c": c})
        np.testing.assert_allclose(session.run(x=x)["y"], y, rtol=1e-5, atol=1e-6)
    with pytest.raises(InputError, match="no caches of tokens"):
        session.run(x=x, last=True)
    other = session.fork()
    session.reset()
    np.testing.assert_allclose(session.run(x=x, h=h, c=c)["y"], other.run(x=x)["y"], rtol=1e-6)


@pytest.mark.parametrize(
    ("given", "made", "size", "found"),
    [
        ("past_ssm.0", "present_ssm.0", 2, True),
        ("state", "new_state", 2, True),
        ("state.1", "next_state.1", 2, True),
        ("h_in", "h_out", 2, True),
        ("state", "stateN", 2, True),
        ("past_ssm.0", "present_ssm.1", 2, False),
        ("begin", "begout", 2, False),
        ("in", "out", 2, False),
        ("past_ssm.0", "present_ssm.0", 3, False),
    ],
)
def test_pairs_of_one_shape_are_found_by_their_names(given, made, size, found):
    info = lambda name, *shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)  # noqa: E731
    nodes = [helper.make_node("Add", ["x", given], ["sum"]), helper.make_node("Identity", ["sum"], ["y"])]
    if size == 2:
        nodes.append(helper.make_node("Identity", ["sum"], [made]))
    else:
        nodes.append(helper.make_node("Concat", ["sum", "one"], [made], axis=0))
    one = onnx.numpy_helper.from_array(np.ones(1, np.float32), "one")
    graph = helper.make_graph(nodes, "sums", [info("x", 2), info(given, 2)], [info("y", 2), info(made, size)], [one])
    model = clgraph.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    assert [(p.input, p.output, p.grows, p.reader) for p in model.state] == (
        [(given, made, False, "by its name")] if found else []
    )
    if not found:
        with pytest.raises(UnsupportedError, match="has no state"):
            model.session()
        return
    session = model.session()
    for steps in range(1, 3):
        np.testing.assert_array_equal(session.run(x=np.ones(2, np.float32))["y"], np.full(2, steps, np.float32))


def test_what_is_made_of_the_only_input_is_no_state_of_it():
    info = helper.make_tensor_value_info
    nodes = [helper.make_node("Relu", ["image"], ["new_image"])]
    graph = helper.make_graph(nodes, "g", [info("image", 1, [2])], [info("new_image", 1, [2])])
    model = clgraph.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    assert model.state == ()


def test_a_name_is_not_enough_for_a_pair_whose_size_grows():
    """What has a place for each token is no state of one shape, whether its output declares how many or not."""
    info = lambda name, *shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)  # noqa: E731
    for size, found in (("total", 0), (None, 0), ("past", 1)):
        node = helper.make_node("Concat", ["past_0", "x"], ["present_0"], axis=1)
        graph = helper.make_graph(
            [node], "joined", [info("x", 1, 1), info("past_0", 1, "past")], [info("present_0", 1, size)]
        )
        model = clgraph.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
        assert len(model.state) == found, size


def test_a_pair_that_the_user_names_is_carried():
    topology = clgraph.Topology()
    topology.input("x", (2,)), topology.input("sum", (2,))
    from clgraph.ops.eltwise import Eltwise

    topology.output("total", topology.add("y", Eltwise("add"), "x", "sum"))
    model = clgraph.compile(topology)
    with pytest.raises(UnsupportedError, match="no state: no attention reads past keys"):
        model.session()
    with pytest.raises(InputError, match="no output is called 'tot'"):
        model.session(state={"sum": "tot"})
    session = model.session(state={"sum": "total"})
    for n in range(1, 4):
        assert session.run(x=[1, 2]) == {}
        np.testing.assert_array_equal(session.run(x=[0, 0], outputs=["total"])["total"], [n, 2 * n])


def spelled_out(repeated_at, to="Identity"):
    """Return attention of four heads over two of keys, each once for two, with the copies beside it or behind all.

    Joined keys go through the operator *to*.
    """
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    spelled (float[b,4,s,8] q, float[b,2,s,8] k, float[b,2,s,8] v, float[b,2,p,8] past_k, float[b,2,p,8] past_v)
        => (float[b,4,s,8] y, float[b,2,t,8] present_k, float[b,2,t,8] present_v)
        <int64[1] at = {{{repeated_at}}}, int64[5] wide = {{1, {2 if repeated_at == 1 else 1}, {repeated_at}, 1, 1}},
         int64[4] flat = {{0, 4, -1, 8}}, float scale = {{0.5}}> {{
        joined = Concat <axis = 2> (past_k, k)
        present_k = {to} (joined)
        present_v = Concat <axis = 2> (past_v, v)
        k1 = Unsqueeze (present_k, at)
        k2 = Expand (k1, wide)
        k3 = Reshape (k2, flat)
        k4 = Transpose <perm = [0, 1, 3, 2]> (k3)
        v1 = Unsqueeze (present_v, at)
        v2 = Expand (v1, wide)
        v3 = Reshape (v2, flat)
        scores = MatMul (q, k4)
        scaled = Mul (scores, scale)
        shares = Softmax <axis = -1> (scaled)
        y = MatMul (shares, v3)
    }}"""
    return onnx.parser.parse_model(text)


@pytest.mark.parametrize(
    ("repeated_at", "to", "found"),
    [(2, "Identity", "multi_head_attention"), (1, "Identity", "concat"), (2, "Cast <to = 1>", "multi_head_attention")],
)
def test_attention_that_is_spelled_out_is_found_where_numbers_confirm_it(repeated_at, to, found, rng):
    made = spelled_out(repeated_at, to)
    model = clgraph.compile(made)
    assert [pair.reader.split()[0] for pair in model.state] == [found] * 2
    ort = oracle.session(made, threads=1)
    feeds = {n: np.zeros((1, 2, 0, 8), np.float32) for n in ("past_k", "past_v")}
    for tokens in (3, 1):
        new = {n: rng.standard_normal((1, h, tokens, 8)).astype(np.float32) for n, h in (("q", 4), ("k", 2), ("v", 2))}
        got, want = model.run(new | feeds), ort.run(None, new | feeds)
        assert_both_round(made, new | feeds, got, dict(zip(got, want, strict=True)))
        feeds = {"past_k": got["present_k"], "past_v": got["present_v"]}


@pytest.mark.parametrize(("biased", "masked"), [(False, False), (True, False), (False, True), (True, True)])
def test_attention_of_onnxruntimes_runs_over_caches(biased, masked, rng):
    node = "MultiHeadAttention <num_heads = 2, unidirectional = 1>"
    bias = (", float[1,2,s,t] bias" if biased else "") + (", int32[b,t] mask" if masked else "")
    reads = f"added, {'mask' if masked else ''}, {'bias' if biased else ''}"
    text = f"""<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
    crossing (float[b,s,16] q, float[b,s,16] k, float[b,s,16] v{bias}, float[b,2,p,8] past_k, float[b,2,p,8] past_v)
        => (float[b,s,16] y, float[b,2,t,8] present_k, float[b,2,t,8] present_v)
        <float[48] added = {{{", ".join(f"{n / 40}" for n in range(48))}}}> {{
        y, present_k, present_v = com.microsoft.{node} (q, k, v, {reads}, past_k, past_v)
    }}"""
    made = onnx.parser.parse_model(text)
    model = clgraph.compile(made)
    assert len(model.state) == 2
    ort = oracle.session(made, threads=1)
    feeds, past = {n: np.zeros((1, 2, 0, 8), np.float32) for n in ("past_k", "past_v")}, 0
    for tokens in (3, 1, 1):
        new = {n: rng.standard_normal((1, tokens, 16)).astype(np.float32) for n in "qkv"}
        if biased:
            new["bias"] = rng.standard_normal((1, 2, tokens, past + tokens)).astype(np.float32)
        if masked:
            new["mask"] = np.arange(2, 2 + past + tokens, dtype=np.int32)[None] % 4 // 2
        got, want = model.run(new | feeds), ort.run(None, new | feeds)
        assert_both_round(made, new | feeds, got, dict(zip(got, want, strict=True)))
        feeds, past = {"past_k": got["present_k"], "past_v": got["present_v"]}, past + tokens
    assert not model.compiled


def test_keys_that_are_joined_and_repeated_in_front_of_onnxruntimes_attention_are_caches(rng):
    """As ONNX Runtime GenAI's builder writes halves for CPUs: D has a name, keys and values lie as rows of tokens."""
    parts = "".join(
        f"""
        {x}1 = Reshape ({x}, apart)
        {x}2 = Transpose <perm = [0, 2, 1, 3]> ({x}1)
        present_{x} = Concat <axis = 2> (past_{x}, {x}2)
        {x}3 = Unsqueeze (present_{x}, two)
        {x}4 = Expand ({x}3, twice)
        {x}5 = Reshape ({x}4, flat)
        {x}6 = Transpose <perm = [0, 2, 1, 3]> ({x}5)
        {x}7 = Reshape ({x}6, rows)"""
        for x in "kv"
    )
    text = f"""<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
    repeated (float[b,s,32] q, float[b,s,16] k, float[b,s,16] v, float[1,1,s,t] bias, float[b,2,p,d] past_k,
        float[b,2,p,d] past_v) => (float[b,s,32] y, float[b,2,t,d] present_k, float[b,2,t,d] present_v)
        <int64[1] two = {{2}}, int64[4] apart = {{0, 0, 2, -1}}, int64[5] twice = {{1, 1, 2, 1, 1}},
         int64[4] flat = {{0, 4, -1, 8}}, int64[3] rows = {{0, 0, 32}}> {{{parts}
        y = com.microsoft.MultiHeadAttention <num_heads = 4> (q, k7, v7, , , bias)
    }}"""
    made = onnx.parser.parse_model(text)
    model = clgraph.compile(made)
    assert [(p.input, p.output) for p in model.state] == [(f"past_{x}", f"present_{x}") for x in "kv"]
    ort = oracle.session(made, threads=1)
    feeds, past = {n: np.zeros((1, 2, 0, 8), np.float32) for n in ("past_k", "past_v")}, 0
    for tokens in (3, 1):
        new = {n: rng.standard_normal((1, tokens, 32 if n == "q" else 16)).astype(np.float32) for n in "qkv"}
        new["bias"] = rng.standard_normal((1, 1, tokens, past + tokens)).astype(np.float32)
        got, want = model.run(new | feeds), ort.run(None, new | feeds)
        assert_both_round(made, new | feeds, got, dict(zip(got, want, strict=True)))
        feeds, past = {"past_k": got["present_k"], "past_v": got["present_v"]}, past + tokens
    assert not model.compiled


def test_a_model_whose_shapes_depend_on_data_has_no_caches_and_says_why(rng):
    text = """<ir_version: 11, opset_import: ["" : 23]>
    staged (float[b,2,s,8] q, float[b,2,s,8] k, float[b,2,s,8] v, float[b,2,p,8] past_k, float[b,2,p,8] past_v)
        => (float[b,2,s,8] y, float[b,2,t,8] present_k, float[b,2,t,8] present_v, int64[4,n] places) {
        y, present_k, present_v = Attention <is_causal = 1> (q, k, v, , past_k, past_v)
        places = NonZero (y)
    }"""
    model = clgraph.compile(onnx.parser.parse_model(text))
    with pytest.raises(UnsupportedError, match="depends on data"):
        model.session()
    feeds = {n: rng.standard_normal((1, 2, 3, 8)).astype(np.float32) for n in ("q", "k", "v", "past_k", "past_v")}
    results = model.run(feeds)
    assert results["present_k"].shape == (1, 2, 6, 8)
    assert results["places"].shape == (4, 48)


@pytest.mark.parametrize("export", ["genai", "onnx23", "hybrid"])
def test_sizes_of_caches_that_have_names_are_those_that_weights_decide(export):
    d = Decoder("genai" if export == "hybrid" else export, 1)
    made = hybrid_model(d) if export == "hybrid" else decoder_model(d)
    for end in (*made.graph.input, *made.graph.output):
        if end.name.endswith(("key", "value")):
            for axis, name in ((1, "num_key_value_heads"), (3, "kv_cache_dim")):
                end.type.tensor_type.shape.dim[axis].dim_param = name
    model = clgraph.compile(made)
    assert len([pair for pair in model.state if pair.grows]) == 2
    assert [(c.heads, c.depth) for c in model._model_state.parts.caches.caches] == [(d.shared, d.head_size)] * 2


def test_a_window_over_caches_of_the_latest_tokens_is_one_over_all_tokens():
    d = Decoder("genai", 1, window=5)
    made = decoder_model(d)
    want = greedy_tokens(onnxruntime_run(made), d, [3, 1, 4, 1, 5, 9], 8)
    for node in made.graph.node:
        if node.op_type == "GroupQueryAttention":
            node.attribute.append(helper.make_attribute("sliding_window_cache", 1))
    model = clgraph.compile(made)
    assert greedy_tokens(lambda feeds: list(model.run(feeds).values()), d, [3, 1, 4, 1, 5, 9], 8) == want
    latest = [np.zeros((1, d.shared, 5, d.head_size), np.float32)] * 2
    with pytest.raises(InputError, match="those of another text"):
        model.run(decoder_feeds(d, np.array([[3]]), latest) | {"attention_mask": np.ones((1, 9), np.int64)})


def test_attention_as_tracing_exporters_write_it_is_found(rng):
    """The mask is cut to the keys, tokens are counted in embeddings, scale and sizes are computed of shapes."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
    traced (int64[b,s] ids, int64[b,t] seen, float[b,2,p,8] past_k, float[b,2,p,8] past_v)
        => (float[b,s,32] y, float[b,2,t,8] present_k, float[b,2,t,8] present_v)
        <float[9,32] table, int64 one = {1}, int64 nothing = {0}, int64[1] zero = {0}, int64[1] first = {1},
         int64[1] second = {2}, int64[1] third = {3}, int64[1] half = {16}, int64[4] heads = {0, 0, 4, 8},
         int64[4] shared = {0, 0, 2, 8}, int64[5] twice = {1, 1, 2, 1, 1}, int64[4] flat = {0, 4, -1, 8},
         int64[2] column = {-1, 1}, int64[1] width = {32}, int64[2] outer = {1, 2}, float none = {0},
         float low = {-3e38}> {
        x = Gather (table, ids)
        q1 = Reshape (x, heads)
        q = Transpose <perm = [0, 2, 1, 3]> (q1)
        narrow = Slice (x, zero, half, second)
        k1 = Reshape (narrow, shared)
        k = Transpose <perm = [0, 2, 1, 3]> (k1)
        present_k = Concat <axis = -2> (past_k, k)
        present_v = Concat <axis = -2> (past_v, k)
        k2 = Unsqueeze (present_k, second)
        k3 = Expand (k2, twice)
        k4 = Reshape (k3, flat)
        k5 = Transpose <perm = [0, 1, 3, 2]> (k4)
        v2 = Unsqueeze (present_v, second)
        v3 = Expand (v2, twice)
        v4 = Reshape (v3, flat)
        embedded = Shape (x)
        tokens = Gather (embedded, one)
        kept = Shape (past_k)
        past = Gather (kept, second)
        before = Squeeze (past)
        total = Add (before, tokens)
        keys = Range (nothing, total, one)
        row = Range (before, total, one)
        rows = Reshape (row, column)
        behind = LessOrEqual (keys, rows)
        counts = Cast <to = 9> (seen)
        counted = Unsqueeze (counts, outer)
        shown = And (behind, counted)
        repeated = Shape (k4)
        length = Gather (repeated, second)
        cut = Slice (shown, zero, length, third)
        bias = Where (cut, none, low)
        sizes = Shape (q)
        depth = Gather (sizes, third)
        wide = Cast <to = 1> (depth)
        root = Sqrt (wide)
        half_root = Sqrt (root)
        q2 = Div (q, half_root)
        k6 = Div (k5, half_root)
        products = MatMul (q2, k6)
        scores = Add (products, bias)
        shares = Softmax <axis = -1> (scores)
        mixed = MatMul (shares, v4)
        turned = Transpose <perm = [0, 2, 1, 3]> (mixed)
        count = Slice (embedded, first, second)
        batch = Slice (kept, zero, first)
        joined = Concat <axis = 0> (batch, count, width)
        y = Reshape (turned, joined)
    }"""
    made = onnx.parser.parse_model(text)
    table = rng.standard_normal((9, 32)).astype(np.float32)
    made.graph.initializer.append(onnx.numpy_helper.from_array(table, "table"))
    model = clgraph.compile(made)
    assert [pair.input for pair in model.state] == ["past_k", "past_v"]
    ort = oracle.session(made, threads=1)
    session = model.session()
    for hidden in (0, 2):
        feeds = {n: np.zeros((1, 2, 0, 8), np.float32) for n in ("past_k", "past_v")}
        session.reset()
        for tokens in (19, 3, 1):
            past = feeds["past_k"].shape[2]
            seen = np.arange(past + tokens)[None] >= hidden
            new = {"ids": rng.integers(0, 9, (1, tokens)), "seen": seen.astype(np.int64)}
            y, *presents = ort.run(None, new | feeds)
            # Where all is masked ONNX Runtime takes the mean of values, here there is none to take.
            start = max(0, hidden - past)
            np.testing.assert_allclose(session.run(new)["y"][:, start:], y[:, start:], rtol=1e-4, atol=1e-5)
            feeds = dict(zip(feeds, presents, strict=True))
    assert len(model._model_state.programs.made) == 6  # of 1, 16 and 32 tokens, with and without a bias


def test_layers_that_exporters_repeat_become_one():
    top = Topology()
    top.input("x", (2,))
    for name in ("one", "other"):
        top.constant(f"{name}.two", np.array([2], np.float32))
        top.add(f"{name}.sum", Eltwise("add"), "x", f"{name}.two")
        top.add(name, Eltwise("mul"), f"{name}.sum", "x")
        top.output(name)
    made = merged(top)
    assert [layer.name for layer in made.layers] == ["one.sum", "one", "other"]
    assert made.layers[2].inputs == made.layers[1].inputs == ("one.sum", "x")
    assert [layer.inputs for layer in top.layers[2:]] == [("x", "other.two"), ("other.sum", "x")]


@pytest.mark.parametrize("more", ["", "scale = 0.4", "is_causal = 1"])
def test_an_attention_whose_keys_are_joined_in_front_of_it_is_found(more, rng):
    """Unless it is causal: then it counts places from the first key, wherever the new tokens stand."""
    text = f"""<ir_version: 11, opset_import: ["" : 23]>
    joined (float[b,4,s,8] q, float[b,2,s,8] k, float[b,2,s,8] v, bool[s,t] seen, float[b,2,p,8] past_k,
            float[b,2,p,8] past_v)
        => (float[b,4,s,8] y, float[b,2,t,8] present_k, float[b,2,t,8] present_v) {{
        present_k = Concat <axis = 2> (past_k, k)
        present_v = Concat <axis = 2> (past_v, v)
        y = Attention <{more}> (q, present_k, present_v, seen)
    }}"""
    text = text.replace("<>", "")
    made = onnx.parser.parse_model(text)
    model = clgraph.compile(made)
    assert [pair.input for pair in model.state] == ([] if "causal" in more else ["past_k", "past_v"])
    ort = oracle.session(made, threads=1)
    feeds = {n: np.zeros((1, 2, 0, 8), np.float32) for n in ("past_k", "past_v")}
    for tokens in (3, 1):
        new = {n: rng.standard_normal((1, h, tokens, 8)).astype(np.float32) for n, h in (("q", 4), ("k", 2), ("v", 2))}
        past = feeds["past_k"].shape[2]
        new["seen"] = np.tri(tokens, past + tokens, past, dtype=np.bool_)
        got, want = model.run(new | feeds), ort.run(None, new | feeds)
        assert_both_round(made, new | feeds, got, dict(zip(got, want, strict=True)))
        feeds = {"past_k": got["present_k"], "past_v": got["present_v"]}
