"""A decoder as exporters for ONNX Runtime write it, over a prompt and further tokens, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import clgraph
from tests.support import oracle

F = np.float32
WORDS, WIDTH, HEADS, SHARED, BLOCK = 40, 64, 4, 2, 32
SIZE = WIDTH // HEADS


def decoder(rng: np.random.Generator) -> onnx.ModelProto:
    """Return one layer: packed embeddings and weights, rotary grouped attention with a cache, a gated product."""
    data: dict[str, np.ndarray] = {}
    nodes = []

    def node(op_type: str, inputs: str, outputs: str, domain: str = "com.microsoft", **attributes: object) -> None:
        nodes.append(helper.make_node(op_type, inputs.split(), outputs.split(), domain=domain, **attributes))

    def product(x: str, y: str, rows: int, columns: int) -> None:
        data[f"{y}_w"] = rng.integers(0, 256, (columns, rows // BLOCK, BLOCK // 2)).astype(np.uint8)
        data[f"{y}_s"] = rng.uniform(0.01, 0.02, (columns, rows // BLOCK)).astype(F)
        node("MatMulNBits", f"{x} {y}_w {y}_s", y, N=columns, K=rows, bits=4, block_size=BLOCK)

    data["table"] = rng.integers(0, 256, (WORDS, WIDTH // 2)).astype(np.uint8)
    data["table_s"] = rng.uniform(0.05, 0.1, (WORDS, WIDTH // BLOCK)).astype(F)
    node("GatherBlockQuantized", "table ids table_s", "x", bits=4, block_size=BLOCK, quantize_axis=1)
    data |= {name: rng.uniform(0.5, 1.5, WIDTH).astype(F) for name in ("norm0", "norm1", "norm2")}
    node("SimplifiedLayerNormalization", "x norm0", "n", domain="", axis=-1, epsilon=1e-6)
    product("n", "qkv", WIDTH, WIDTH + 2 * SHARED * SIZE)
    angles = np.outer(np.arange(32), 1 / 100 ** (np.arange(SIZE // 2) / (SIZE // 2)))
    data |= {"cos": np.cos(angles).astype(F), "sin": np.sin(angles).astype(F), "one": np.array([1], np.int64)}
    node("ReduceSum", "mask one", "counts", domain="", keepdims=0)
    node("Sub", "counts one", "last64", domain="")
    node("Cast", "last64", "last", domain="", to=TensorProto.INT32)
    node("Shape", "mask", "sizes", domain="")
    data["place"] = np.array(1, np.int64)
    node("Gather", "sizes place", "total64", domain="")
    node("Cast", "total64", "total", domain="", to=TensorProto.INT32)
    reads = ["qkv", "", "", "past_k", "past_v", "last", "total", "cos", "sin"]
    attention = {"num_heads": HEADS, "kv_num_heads": SHARED, "do_rotary": 1}
    made = ["mixed", "present_k", "present_v"]
    nodes.append(helper.make_node("GroupQueryAttention", reads, made, domain="com.microsoft", **attention))
    product("mixed", "o", WIDTH, WIDTH)
    node("SkipSimplifiedLayerNormalization", "x o norm1", "m", epsilon=1e-6)
    nodes[-1].output.extend(["", "", "h"])
    product("m", "gate", WIDTH, 2 * WIDTH)
    product("m", "up", WIDTH, 2 * WIDTH)
    node("QuickGelu", "gate", "opened", alpha=1.0)
    node("Mul", "opened up", "inner", domain="")
    product("inner", "down", 2 * WIDTH, WIDTH)
    node("SkipSimplifiedLayerNormalization", "h down norm2", "last_n", epsilon=1e-6)
    product("last_n", "logits", WIDTH, WORDS)
    cache = ("b", SHARED, "p", SIZE)
    graph = helper.make_graph(
        nodes,
        "decoder",
        [
            helper.make_tensor_value_info("ids", TensorProto.INT64, ("b", "s")),
            helper.make_tensor_value_info("mask", TensorProto.INT64, ("b", "t")),
            *(helper.make_tensor_value_info(name, TensorProto.FLOAT, cache) for name in ("past_k", "past_v")),
        ],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("logits", "present_k", "present_v")],
        [numpy_helper.from_array(a, name) for name, a in data.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.mark.opencl
def test_a_decoder_agrees_over_a_prompt_and_further_tokens(device):
    rng = np.random.default_rng(5)
    model = decoder(rng)
    session = oracle.session(model, threads=1)
    compiled = clgraph.compile(model, device)
    ids, caches = rng.integers(0, WORDS, (1, 5)), [np.zeros((1, SHARED, 0, SIZE), F)] * 2
    for _ in range(2):
        total = caches[0].shape[2] + ids.shape[1]
        feeds = {"ids": ids, "mask": np.ones((1, total), np.int64), "past_k": caches[0], "past_v": caches[1]}
        want, got = session.run(None, feeds), list(compiled.run(feeds).values())
        for mine, theirs in zip(got, want, strict=True):
            # Five products of sums of up to 128, each rounded to 2^-24 of its scale as often, between normalisations.
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=5 * 128 * 2.0**-24 * np.abs(theirs).max())
        ids, caches = want[0][:, -1:].argmax(-1), want[1:]
