"""DynamicQuantizeLSTM, against an LSTM of floats and ONNX Runtime."""

from __future__ import annotations

import numpy as np

from clgraph.frontend.onnx_loader import load_onnx
from tests.support.onnx_case import agree, one_node, onnxruntime_outputs, reference_outputs

F = np.float32
HIDDEN, INPUTS = 4, 5


def quantised(rng, directions, rows):
    return rng.integers(-127, 128, (directions, rows, 4 * HIDDEN)).astype(np.int8)


def rounded_states(x, w, r, b):
    """Return for every h of an LSTM how far it moves if each step reads h rounded to 8 bits, as ONNX Runtime does.

    |h| < 1: a range of at most 2, and half a step of it is lost. The functions are monotone, so that what they move is
    largest at an end of what they read.
    """
    moved = []
    h = c = h_off = c_off = np.zeros((x.shape[1], HIDDEN))
    for x_now in x:
        gates = np.split(x_now @ w.T + h @ r.T + b.reshape(2, -1).sum(0), 4, axis=1)
        off = np.split((h_off + (1 / 255 if moved else 0)) @ np.abs(r).T, 4, axis=1)
        functions = (sigmoid, sigmoid, sigmoid, np.tanh)
        i, o, f, g = (function(z) for function, z in zip(functions, gates, strict=True))
        i_off, o_off, f_off, g_off = map(reach, functions, gates, off)
        c_off = f * c_off + f_off * (np.abs(c) + c_off) + i_off * (np.abs(g) + g_off) + i * g_off
        c = f * c + i * g
        tanh_off = reach(np.tanh, c, c_off)
        h_off = o * tanh_off + o_off * (np.abs(np.tanh(c)) + tanh_off)
        h = o * np.tanh(c)
        moved.append(h_off)
    return np.stack(moved)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def reach(function, x, off):
    return np.maximum(function(x + off) - function(x), function(x) - function(x - off))


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
        moved = [
            rounded_states(rounded[:: 1 - 2 * k], *(f[k] for f in floats), b[k])[:: 1 - 2 * k]
            for k in range(directions)
        ]
        last = np.stack([m[-1 if k == 0 else 0] for k, m in enumerate(moved)])
        for mine, theirs, bound in zip(
            got, onnxruntime_outputs(model, feeds), (np.stack(moved, 1), last), strict=False
        ):
            # What the states move, and 9 products and the functions in float32, as above.
            assert (np.abs(mine - theirs) <= bound + 1e-5).all()


def test_the_first_step_is_onnxruntimes(rng):
    w, r = quantised(rng, 1, INPUTS), quantised(rng, 1, HIDDEN)
    scales, zero = [np.full(1, 0.003, F)] * 2, np.full(1, 2, np.int8)
    x, b = rng.standard_normal((1, 3, INPUTS)).astype(F), rng.standard_normal((1, 8 * HIDDEN)).astype(F)
    inputs = [x, w, r, b, None, None, None, None, scales[0], zero, scales[1], zero]
    # No state is rounded but 0: sums of 5 products, and gates in float32, where ONNX Runtime approximates functions.
    made = {"outputs": 3, "constant": (1, 2, 3, 8, 9, 10, 11)}
    agree("DynamicQuantizeLSTM", inputs, opset=14, domain="com.microsoft", **made, hidden_size=HIDDEN)
