"""ONNX's RotaryEmbedding, against ONNX Runtime; that of com.microsoft is tested beside its attentions."""

from __future__ import annotations

import itertools

import numpy as np

from tests.support.onnx_case import agree

F = np.float32
HEADS, SIZE = 4, 16


def test_heads_are_turned_by_places_or_by_tables_of_each_token(rng):
    """Of heads side by side or one behind the other, whole or their first part; pairs beside or half a head apart."""
    heads = rng.standard_normal((2, HEADS, 3, SIZE)).astype(F)
    flat = rng.standard_normal((2, 3, HEADS * SIZE)).astype(F)
    places = np.array([[4, 7, 1], [0, 2, 9]])
    for interleaved, part in itertools.product((0, 1), (0, 8)):
        angles = np.linspace(0, 6, 12 * (part or SIZE) // 2).reshape(12, -1)
        cos, sin = np.cos(angles).astype(F), np.sin(angles).astype(F)
        more = {"opset": 23, "interleaved": interleaved, "rotary_embedding_dim": part}
        for x, sizes in ((heads, {}), (flat, {"num_heads": HEADS})):
            agree("RotaryEmbedding", [x, cos, sin, places], **more, **sizes)
            agree("RotaryEmbedding", [x, cos[places], sin[places]], **more, **sizes)
