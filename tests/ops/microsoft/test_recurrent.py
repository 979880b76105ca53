"""DynamicQuantizeLSTM, against ONNX Runtime."""

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
        # Weights are the same floats to a rounding, the states bounded by 1: 5 + 4 products and 6 steps. No state is as
        # close to the middle of two of the 256 steps that both round it to.
        for mine, theirs in zip(got, onnxruntime_outputs(model, feeds), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)


def test_states_of_a_sequence_that_has_ended_widen_the_steps_of_others_for_one_token(rng):
    """The second sequence goes on with small states, which then are rounded alone."""
    w, r = quantised(rng, 1, INPUTS), quantised(rng, 1, HIDDEN)
    scales, zero = [np.full(1, 0.003, F)] * 2, np.zeros(1, np.int8)
    x, h = (
        rng.standard_normal((5, 2, INPUTS)).astype(F),
        np.float32([[[0.9, -0.9, 0.9, 0.9], [0.02, 0.01, 0.05, 0.03]]]),
    )
    lengths = np.array([1, 5], np.int32)
    inputs = [x, w, r, None, lengths, h, None, None, scales[0], zero, scales[1], zero]
    made = {"outputs": 3, "constant": (1, 2, 8, 9, 10, 11)}
    agree("DynamicQuantizeLSTM", inputs, opset=14, domain="com.microsoft", **made, hidden_size=HIDDEN)


def test_the_first_step_is_onnxruntimes(rng):
    w, r = quantised(rng, 1, INPUTS), quantised(rng, 1, HIDDEN)
    scales, zero = [np.full(1, 0.003, F)] * 2, np.full(1, 2, np.int8)
    x, b = rng.standard_normal((1, 3, INPUTS)).astype(F), rng.standard_normal((1, 8 * HIDDEN)).astype(F)
    inputs = [x, w, r, b, None, None, None, None, scales[0], zero, scales[1], zero]
    # No state is rounded but 0: sums of 5 products, and gates in float32, where ONNX Runtime approximates functions.
    made = {"outputs": 3, "constant": (1, 2, 3, 8, 9, 10, 11)}
    agree("DynamicQuantizeLSTM", inputs, opset=14, domain="com.microsoft", **made, hidden_size=HIDDEN)
