"""Attention, MultiHeadAttention, QAttention and RotaryEmbedding of ONNX Runtime, against it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from clgraph.errors import ModelError, ShapeError, UnsupportedError
from clgraph.frontend.onnx_loader import load_onnx
from tests.support.drawing import normal
from tests.support.onnx_case import agree, one_node

F, INT = np.float32, np.int32
MICROSOFT = {"opset": 17, "domain": "com.microsoft"}
BATCH, TOKENS, HEADS, WIDTH = 2, 5, 2, 8

MASKS = {
    "none": None,
    "lengths": np.array([3, 5], INT),
    "ends and starts": np.array([4, 5, 1, 0], INT),
    "lengths and offsets": np.array([3, 5, 0, 5, 10, 0, 5, 10], INT),
    "keys": np.array([[1, 1, 0, 1, 0], [0, 1, 1, 1, 1]], INT),
    "rows": (np.arange(50).reshape(2, 5, 5) % 3 > 0).astype(INT),
    "nothing": np.zeros((2, 5), INT),
}


@pytest.mark.parametrize("mask", MASKS)
def test_masks_of_every_form_hide_what_onnxruntime_hides(mask, rng):
    inputs = [normal(rng, BATCH, TOKENS, 6), normal(rng, 6, 3 * WIDTH), normal(rng, 3 * WIDTH), MASKS[mask]]
    inputs = inputs[: 3 if MASKS[mask] is None else 4]
    for causal, more in itertools.product((0, 1), ({}, {"mask_filter_value": -3.0}, {"scale": 0.7})):
        agree("Attention", inputs, **MICROSOFT, num_heads=HEADS, unidirectional=causal, **more)


def test_sizes_pasts_and_a_bias_of_the_scores_are_onnxruntimes(rng):
    x, bias = normal(rng, BATCH, TOKENS, 6), normal(rng, 1, HEADS, TOKENS, TOKENS)
    attention = {**MICROSOFT, "num_heads": HEADS}
    sizes = [x, normal(rng, 6, 20), normal(rng, 20), None, None, bias]
    agree("Attention", sizes, **attention, qkv_hidden_sizes=[8, 8, 4])
    whole = [x, normal(rng, 6, 24), normal(rng, 24)]
    agree("Attention", whole, **attention, outputs=2)
    past = normal(rng, 2, BATCH, HEADS, 3, WIDTH // HEADS)
    for mask in (None, np.array([6, 8], INT), np.ones((BATCH, 8), INT)):
        for causal in (0, 1):
            agree("Attention", [*whole, mask, past], **attention, outputs=2, unidirectional=causal)


def test_attention_of_integers_is_onnxruntimes(rng):
    x, w = (rng.integers(0, 256, s).astype(np.uint8) for s in ((BATCH, TOKENS, 6), (6, 24)))
    scales = [F(0.02), rng.uniform(0.005, 0.01, 24).astype(F)]
    zeros = [np.uint8(128), rng.integers(100, 150, 24).astype(np.uint8)]
    mask, bias = np.array([3, 5], INT), normal(rng, 24)
    quantised = {**MICROSOFT, "num_heads": HEADS, "constant": (1, 2, 3, 4, 6, 7)}
    agree("QAttention", [x, w, bias, *scales, mask, *zeros], **quantised)
    past = normal(rng, 2, BATCH, HEADS, 3, 4)
    one = [x, (w // 2).astype(np.int8), bias, F(0.02), F(0.01), None, np.uint8(128), np.int8(3), past]
    agree("QAttention", one, **quantised, outputs=2, unidirectional=1)


def test_queries_keys_and_values_come_in_every_form_that_onnxruntime_takes(rng):
    q, k, v = normal(rng, BATCH, TOKENS, 8), normal(rng, BATCH, 4, 8), normal(rng, BATCH, 4, 6)
    attention = {**MICROSOFT, "num_heads": HEADS}
    bias = normal(rng, 22)
    for mask in (None, np.array([2, 4], INT), np.array([[1, 0, 1, 1], [1, 1, 1, 0]], INT)):
        agree("MultiHeadAttention", [q, k, v, bias, mask], **attention)
    agree("MultiHeadAttention", [q, k, v, None, None, normal(rng, 1, 1, TOKENS, 4)], **attention, scale=0.3)
    heads = [normal(rng, BATCH, HEADS, 4, 4) for _ in range(2)]
    agree("MultiHeadAttention", [q, *heads], **attention)
    same = [normal(rng, BATCH, TOKENS, 8) for _ in range(3)]
    agree("MultiHeadAttention", same, **attention, unidirectional=1)
    pasts = [normal(rng, BATCH, HEADS, 3, 4) for _ in range(2)]
    agree("MultiHeadAttention", [*same, normal(rng, 24), None, None, *pasts], **attention, outputs=3)
    agree("MultiHeadAttention", [*same, None, None, None, *pasts], **attention, outputs=3, unidirectional=1)


def test_packed_keys_and_values_are_the_same_as_apart(rng):
    from tests.support.onnx_case import reference_outputs

    parts = [normal(rng, BATCH, TOKENS, 8) for _ in range(3)]
    apart = [p.reshape(BATCH, TOKENS, HEADS, 1, 4) for p in parts]
    forms = (parts, [np.concatenate(apart, 3)], [parts[0], np.concatenate(apart[1:], 3)])
    bias = normal(rng, 24)
    found = []
    for inputs in forms:
        given = [*inputs, *[None] * (3 - len(inputs)), bias]
        model, feeds = one_node("MultiHeadAttention", given, **MICROSOFT, num_heads=HEADS)
        found += reference_outputs(load_onnx(model).build(), feeds)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_heads_are_turned_as_onnxruntime_does(rng):
    angles = rng.uniform(0, 6, (12, 4)).astype(F)
    tables = [np.cos(angles), np.sin(angles)]
    places = np.array([[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]])
    for interleaved, positions in itertools.product((0, 1), (places, np.array([3]))):
        turned = {**MICROSOFT, "interleaved": interleaved}
        agree("RotaryEmbedding", [normal(rng, 2, 5, 16), positions, *tables], **turned)
        agree("RotaryEmbedding", [normal(rng, 2, 3, 5, 8), positions, *tables], **turned)
        part = {"num_heads": 2, "rotary_embedding_dim": 8}
        # ONNX Runtime reads no scale, whatever a file says.
        agree("RotaryEmbedding", [normal(rng, 2, 5, 24), positions, *tables], **turned, **part, scale=2.0)


def test_what_is_not_there_is_refused_by_name(rng):
    x, w = normal(rng, 1, 3, 6), normal(rng, 6, 24)
    for more, what in (
        ({"do_rotary": 1}, "do_rotary"),
        ({"past_present_share_buffer": 1}, "past_present_share_buffer"),
    ):
        model, _ = one_node("Attention", [x, w], **MICROSOFT, num_heads=2, **more)
        with pytest.raises(UnsupportedError, match=f"'node' \\(Attention\\): {what}=1"):
            load_onnx(model)
    model, _ = one_node("Attention", [x, w], **MICROSOFT)
    with pytest.raises(ModelError, match="lacks attribute 'num_heads'"):
        load_onnx(model)
    model, _ = one_node("Attention", [x, w, None, np.ones((7, 2), INT)], **MICROSOFT, num_heads=2)
    with pytest.raises(ShapeError, match=r"a mask \[7, 2\] fits no batch of 1 with 3 tokens"):
        load_onnx(model).build()
