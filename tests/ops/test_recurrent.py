"""Recurrent networks against ONNX Runtime, over directions, lengths and first states."""

import numpy as np
import pytest

from tests.support.onnx_case import agree

TOKENS, BATCH, INPUTS, HIDDEN = 5, 3, 4, 6


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("op_type", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
@pytest.mark.parametrize("full", [False, True])
def test_all_states_agree_with_onnxruntime(full, op_type, gates, direction, rng):
    ways = 2 if direction == "bidirectional" else 1

    def draw(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    inputs = [draw(TOKENS, BATCH, INPUTS), draw(ways, gates * HIDDEN, INPUTS), draw(ways, gates * HIDDEN, HIDDEN)]
    if full:
        inputs += [draw(ways, 2 * gates * HIDDEN), np.array([5, 2, 4], np.int32), draw(ways, BATCH, HIDDEN)]
        inputs += [draw(ways, BATCH, HIDDEN), draw(ways, 3 * HIDDEN)] if op_type == "LSTM" else []
    outputs = 3 if op_type == "LSTM" else 2
    agree(op_type, inputs, opset=14, outputs=outputs, hidden_size=HIDDEN, direction=direction, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("linear", [0, 1])
def test_a_gru_resets_before_or_after_the_product(linear, rng):
    draw = lambda *shape: rng.standard_normal(shape).astype(np.float32)  # noqa: E731
    inputs = [
        draw(TOKENS, BATCH, INPUTS),
        draw(1, 3 * HIDDEN, INPUTS),
        draw(1, 3 * HIDDEN, HIDDEN),
        draw(1, 6 * HIDDEN),
    ]
    agree("GRU", inputs, opset=14, outputs=2, hidden_size=HIDDEN, linear_before_reset=linear, rtol=1e-4, atol=1e-5)


def test_activations_and_a_bound_are_those_of_the_node(rng):
    draw = lambda *shape: rng.standard_normal(shape).astype(np.float32)  # noqa: E731
    inputs = [draw(TOKENS, BATCH, INPUTS), draw(1, 4 * HIDDEN, INPUTS), draw(1, 4 * HIDDEN, HIDDEN)]
    more = {"activations": ["HardSigmoid", "Tanh", "Softsign"], "activation_alpha": [0.3], "activation_beta": [0.4]}
    agree("LSTM", inputs, opset=14, outputs=3, hidden_size=HIDDEN, clip=1.5, rtol=1e-4, atol=1e-5, **more)
