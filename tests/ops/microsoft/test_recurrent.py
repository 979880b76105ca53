"""DynamicQuantizeLSTM, against an LSTM of floats and ONNX Runtime."""

from __future__ import annotations

import numpy as np

from clgraph.frontend.onnx_loader import load_onnx
from tests.support.onnx_case import agree, one_node, onnxruntime_outputs, reference_outputs

F = np.float32
HIDDEN, INPUTS = 4, 5


def quantised(rng, directions, rows):
    return rng.integers(-127, 128, (directions, rows, 4 * HIDDEN)).astype(np.int8)


def test_weights_of_8_bits_make_an_lstm(rng):
    for directions, per_row in ((1, False), (2, True)):
        shape = (directions, 4 * HIDDEN) if per_row else (directions,)
        w, r = quantised(rng, directions, INPUTS), quantised(rng, directions, HIDDEN)
        scales = [rng.uniform(0.002, 0.004, shape).astype(F) for _ in range(2)]
        zeros = [np.zeros(shape, np.int8) if per_row else np.full(shape, 2, np.int8) for _ in range(2)]
        x, b = rng.standard_normal((6, 2, INPUTS)).astype(F), rng.standard_normal((directions, 8 * HIDDEN)).astype(F)
        direction = {"hidden_size": HIDDEN, "direction": ["forward", "bidirectional"][directions - 1]}
        parameters = [scales[0], zeros[0], scales[1], zeros[1]]
        inputs = [x, w, r, b, None, None, None, None, *parameters]
        model, feeds = one_node(
            "DynamicQuantizeLSTM",
            inputs,
            opset=14,
            domain="com.microsoft",
            outputs=3,
            constant=(1, 2, 3, 8, 9, 10, 11),
            **direction,
        )
        got = reference_outputs(load_onnx(model).build(), feeds)
        floats = [
            np.ascontiguousarray(
                ((q.astype(F) - z.reshape(directions, 1, -1)) * s.reshape(directions, 1, -1)).transpose(0, 2, 1)
            )
            for q, s, z in zip((w, r), scales, zeros, strict=True)
        ]
        rounding, _ = one_node("DynamicQuantizeLinear", [x], opset=14, outputs=3)
        whole, scale, zero = onnxruntime_outputs(rounding, feeds)
        rounded = (whole.astype(F) - zero.astype(F)) * scale
        plain, feeds_of_plain = one_node(
            "LSTM", [rounded, *floats, b], opset=14, outputs=3, constant=(1, 2, 3), **direction
        )
        # Weights are the same floats to a rounding, the states bounded by 1: 5 + 4 products and 6 steps.
        for mine, exact in zip(got, onnxruntime_outputs(plain, feeds_of_plain), strict=True):
            np.testing.assert_allclose(mine, exact, rtol=1e-5, atol=1e-5)
        # ONNX Runtime rounds the states (of a range of about 2) to 8 bits, too, by which gates, whose slopes are at
        # most 1, are moved by half a step a product, of weights of at most 0.5, once more in each of six steps.
        bound = 6 * HIDDEN * 2 / 255 / 2 * 0.5
        for mine, theirs in zip(got[:2], onnxruntime_outputs(model, feeds), strict=False):
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=bound)


def test_the_first_step_is_onnxruntimes(rng):
    w, r = quantised(rng, 1, INPUTS), quantised(rng, 1, HIDDEN)
    scales, zero = [np.full(1, 0.003, F)] * 2, np.full(1, 2, np.int8)
    x, b = rng.standard_normal((1, 3, INPUTS)).astype(F), rng.standard_normal((1, 8 * HIDDEN)).astype(F)
    inputs = [x, w, r, b, None, None, None, None, scales[0], zero, scales[1], zero]
    # No state is rounded but 0: sums of 5 products, and gates in float32, where ONNX Runtime approximates functions.
    made = {"outputs": 3, "constant": (1, 2, 3, 8, 9, 10, 11)}
    agree("DynamicQuantizeLSTM", inputs, opset=14, domain="com.microsoft", **made, hidden_size=HIDDEN)
