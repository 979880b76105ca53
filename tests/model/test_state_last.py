"""Results of last tokens alone: which layers compute one row, and that they are the rows that all have."""

from __future__ import annotations

import numpy as np
import pytest

import clgraph
from clgraph.core.dtype import DType
from clgraph.graph.topology import Topology
from clgraph.model.state.last import LAST, of_last_tokens
from clgraph.model.state.tokens import places_of
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.expand import Expand
from clgraph.ops.layer_normalization import LayerNormalization
from clgraph.ops.matmul import MatMul
from clgraph.ops.microsoft.moe import MixtureOfExperts
from clgraph.ops.power import Power
from clgraph.ops.reduce import Reduce
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.ops.shape import ShapeOf
from clgraph.ops.slice import Slice
from clgraph.ops.softmax import Softmax
from clgraph.ops.split import Split
from clgraph.ops.transpose import Transpose
from clgraph.ops.where import Where
from tests.support.decoder_weights import Decoder
from tests.support.decoders import decoder_model

TOKENS, WIDTH = 7, 4
RANDOM = np.random.default_rng(0)


def net(batch: int = 2) -> Topology:
    made = Topology()
    made.input("x", (batch, TOKENS, WIDTH))
    for name in ("w", "v"):
        made.constant(name, RANDOM.standard_normal((WIDTH, WIDTH)).astype(np.float32))
    made.constant("scale", np.ones(WIDTH, np.float32))
    return made


def results_of(topology: Topology, feeds):
    """Return what the references compute, node by node."""
    program = topology.build()
    values = {v.name: feeds[v.name] for v in program.inputs}
    for node in program:
        found = node.primitive.reference(*(values[v.name] if v.constant is None else v.constant for v in node.inputs))
        values |= dict(zip((v.name for v in node.outputs), found, strict=True))
    return {name: values[v.name] for name, v in program.outputs}, {
        v.name: v.layout.shape for n in program for v in n.outputs
    }


def cut(topology: Topology, row: int = 3, like: Topology | None = None):
    """Return the tokens of each value of *topology* for the last of *row* + 1 tokens; its results are those rows.

    Places are those of *like*, the same for other texts.
    """
    program = topology.build()
    probed = program if like is None else like.build()
    results = {name: 1 if TOKENS in v.layout.shape else None for name, v in program.outputs}
    texts = program.inputs[0].layout.shape[0]
    made = of_last_tokens(topology, results, places_of(probed, TOKENS), texts)
    feeds = {name: RANDOM.standard_normal(s.shape).astype(np.float32) for name, s in topology.inputs.items()}
    want, _ = results_of(topology, feeds)
    got, shapes = results_of(made, feeds | {LAST: np.array([row])})
    for name, array in want.items():
        one = results[name] is not None and got[name].shape[1] == 1
        np.testing.assert_allclose(got[name], array[:, row : row + 1] if one else array, rtol=1e-5, atol=1e-6)
    return {name: shape[-2] for name, shape in shapes.items() if len(shape) > 1}


def test_rows_up_to_what_joins_tokens_are_computed_for_the_last_one_alone():
    made = net()
    made.add("seen", Softmax((1,)), "x")
    made.add("o", MatMul(), "seen", "w")
    made.add("sum", Eltwise("add"), "x", "o")
    made.add("norm", LayerNormalization(-1, 1e-5), "sum", "scale")
    made.add("square", Eltwise("mul"), "norm", "norm")
    made.add("mean", Reduce("mean", (-1,)), "square")
    made.add("even", Eltwise("sub"), "norm", "mean")
    made.add("up", MatMul(), "even", "v")
    made.add("act", Activation("relu"), "up")
    made.output("act")
    rows = cut(made)
    assert rows.pop("seen") == TOKENS
    assert set(rows.values()) == {1}
    assert {"seen/last", "x/last", "o", "sum", "mean", "act"} <= rows.keys()


def test_a_value_that_others_read_as_a_whole_stays_whole():
    made = net()
    made.add("a", MatMul(), "x", "w")
    made.add("b", MatMul(), "a", "v")
    made.add("all", Reduce("sum", (1,)), "a")
    made.output("b")
    made.output("all")
    rows = cut(made)
    assert (rows["a"], rows["a/last"], rows["b"]) == (TOKENS, 1, 1)


def test_weights_may_be_computed_of_constants():
    made = net()
    made.add("turned", Transpose((1, 0)), "w")
    made.add("y", MatMul(), "x", "turned")
    made.output("y")
    assert cut(made) == {"x/last": 1, "y": 1}


def test_a_result_that_has_no_tokens_is_whole():
    made = net()
    made.add("a", MatMul(), "x", "w")
    made.add("all", Reduce("sum", (1,)), "a")
    made.add("b", MatMul(), "all", "v")
    made.output("b")
    assert LAST not in of_last_tokens(made, {"b": None}, places_of(made.build(), TOKENS), 2).inputs


@pytest.mark.parametrize(
    "joins",
    [
        lambda n: n.add(
            "y", LayerNormalization(1, 1e-5, centred=True), "x", n.constant("s", np.ones((TOKENS, WIDTH), np.float32))
        ),
        lambda n: n.add("y", Softmax((1,)), "x"),
        lambda n: n.add("y", Eltwise("add"), "x", n.add("t", Reduce("sum", (1,)), "x")),
        lambda n: n.add("y", MatMul(), n.constant("m", np.ones((2, TOKENS, TOKENS), np.float32)), "x"),
    ],
    ids=["normalization", "softmax", "sum", "product"],
)
def test_what_joins_tokens_is_computed_for_all(joins):
    made = net()
    joins(made)
    made.add("z", MatMul(), "y", "w")
    made.output("z")
    assert cut(made)["z"] == 1


def test_operands_that_have_a_row_for_each_token_give_that_row():
    made = net()
    made.input("bias", (TOKENS, 1))
    made.add("y", MatMul(), "x", "w")
    made.add("z", Eltwise("add"), "y", "bias")
    made.output("z")
    assert cut(made) == {"x/last": 1, "y": 1, "bias/last": 1, "z": 1}


def test_casts_powers_and_parts_of_rows_are_followed():
    made = net()
    made.add("wide", MatMul(), "x", made.constant("u", RANDOM.standard_normal((WIDTH, 2 * WIDTH)).astype(np.float32)))
    made.add("split", Split(-1, parts=2), "wide", outputs=["left", "right"])
    made.add("square", Power(), "left", made.constant("two", np.array(2, np.float32)))
    made.add("cast", Reorder(DType.F32), "square")
    made.add("part", Slice((0,), (2,), axes=(-1,)), "right")
    made.add("mean", Reduce("mean", (-1,)), "part")
    made.add("chosen", Where(), made.constant("is", np.array([True, False, True, False])), "cast", "mean")
    made.output("chosen")
    rows = cut(made)
    assert rows.keys() >= {"x/last", "wide", "chosen"}
    assert set(rows.values()) == {1}


def test_what_cuts_tokens_is_computed_for_all():
    made = net()
    made.add("turned", Slice((-1,), (-TOKENS - 1,), (-1,), axes=(1,)), "x")
    made.add("y", MatMul(), "turned", "w")
    made.output("y")
    assert cut(made, row=2) == {"turned": TOKENS, "turned/last": 1, "y": 1}


def test_a_row_alone_may_have_its_shape_read():
    made = net()
    made.add("y", MatMul(), "x", "w")
    made.add("shape", ShapeOf(), "y")
    made.add("z", Reshape(reads=("shape",)), made.add("act", Activation("relu"), "x"), "shape")
    made.add("all", Reduce("sum", (1,)), "z")
    made.output("y")
    made.output("all")
    program = of_last_tokens(made, {"y": 1, "all": None}, places_of(made.build(), TOKENS), 2).build()
    shapes = {v.name: v.layout.shape for node in program for v in node.outputs}
    assert (shapes["y"], shapes["z"]) == ((2, 1, WIDTH), (2, TOKENS, WIDTH))


def joined_net(texts: int) -> Topology:
    """Return layers whose tokens share an axis with texts between two reshapes."""
    made = net(texts)
    made.add("rows", Reshape((-1, WIDTH)), "x")
    made.add("product", MatMul(), "rows", "w")
    made.add("column", Reduce("sum", (1,)), "rows")
    made.add("shape", ShapeOf(), "product")
    made.add("wide", Expand(reads=("shape",)), "column", "shape")
    made.add("same", Expand(reads=("shape",)), "product", "shape")
    made.add("sum", Eltwise("add"), "same", "wide")
    made.add("apart", Reshape((texts, TOKENS, WIDTH)), "sum")
    made.add("y", MatMul(), made.add("all", Eltwise("add"), "x", "apart"), "v")
    made.output("y")
    return made


@pytest.mark.parametrize("texts", [1, 2])
def test_tokens_of_one_text_are_followed_to_an_axis_that_they_share_with_texts(texts):
    rows = cut(joined_net(texts), like=joined_net(1))
    joined = 1 if texts == 1 else texts * TOKENS
    assert (rows["product"], rows["same"], rows["wide"]) == (joined, joined, texts * TOKENS)
    assert (rows["apart"], rows["y"]) == (1 if texts == 1 else TOKENS, 1)


@pytest.mark.parametrize("texts", [1, 2])
def test_a_mixture_of_experts_takes_one_row_of_one_text(texts):
    def mixture(count: int) -> Topology:
        made = net(count)
        for name, shape in {"router": (WIDTH, 3), "first": (3, 5, WIDTH), "second": (3, WIDTH, 5)}.items():
            made.constant(name, RANDOM.standard_normal(shape).astype(np.float32))
        made.add("scores", MatMul(), made.add("rows", Reshape((-1, WIDTH)), "x"), "router")
        made.add("y", MixtureOfExperts(2), "x", "scores", "first", "second")
        made.output("y")
        return made

    assert cut(mixture(texts), like=mixture(1))["scores"] == (1 if texts == 1 else texts * TOKENS)


@pytest.mark.parametrize("shape", [(WIDTH, TOKENS, 2), (TOKENS, 2, WIDTH)])
def test_reshapes_that_mix_tokens_or_heads_are_not_followed(shape):
    made = Topology()
    made.input("x", (1, 2, TOKENS, WIDTH))
    made.constant("w", np.ones((shape[-1], WIDTH), np.float32))
    made.add("y", MatMul(), made.add("mixed", Reshape(shape), "x"), "w")
    made.output("y")
    results = {"y": shape.index(TOKENS)}
    program = of_last_tokens(made, results, places_of(made.build(), TOKENS), 1).build()
    assert {v.name: v.layout.shape for n in program for v in n.outputs}["mixed"] == shape


def test_where_texts_share_an_axis_with_tokens_rows_are_not_told_apart():
    made = Topology()
    made.input("x", (2 * TOKENS, WIDTH))
    made.constant("w", np.ones((WIDTH, WIDTH), np.float32))
    made.add("y", MatMul(), "x", "w")
    made.output("y")
    assert places_of(made.build(), TOKENS) == {}
    assert of_last_tokens(made, {"y": 0}, {}, 2) is made


@pytest.mark.opencl
@pytest.mark.parametrize("export", ["genai", "onnx23", "optimum"])
def test_the_last_layer_of_a_decoder_computes_one_row_behind_its_attention(export):
    d = Decoder(export, 2, packed_qkv=export == "genai", bits=4 if export == "genai" else 0)
    model, ids = clgraph.compile(decoder_model(d)), np.random.default_rng(2).integers(0, 300, (2, 20))
    session, feeds = model.session(), {"input_ids": ids}
    if export != "genai":
        feeds["position_ids"] = np.tile(np.arange(20), (2, 1))
    want = session.run(feeds)["logits"]
    session.reset()
    got = session.run(feeds, last=True)["logits"]
    np.testing.assert_allclose(got, want[:, -1:], rtol=1e-4, atol=1e-5)
    products = {n.name: n.output.layout.shape[1] for n in model.program if "matmul" in n.primitive.kind}
    assert {rows for name, rows in products.items() if "layers/0" in name and "mlp" in name} == {32}
    late = {rows for name, rows in products.items() if "layers/1" in name and ("mlp" in name or "o_proj" in name)}
    assert late == {1}
