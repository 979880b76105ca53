"""Recurrent networks against ONNX Runtime, over directions, lengths and first states."""

import numpy as np
import pytest

import clgraph
from clgraph.core.dtype import DType
from clgraph.ops.recurrent_steps import RecurrentSteps
from tests.support.check_op import check_op
from tests.support.onnx_case import agree, one_node, onnxruntime_outputs

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


def sequences(cell, ways, full):
    """Return shapes and types of the inputs, and how to draw them, of 3 sequences of 5 tokens and 20 hidden states."""
    rows = {"rnn": 1, "gru": 3, "lstm": 4}[cell] * 20
    shapes = [(5, 3, ways * rows), (ways, rows, 20)]
    names = ("bias", "lengths", "hidden", *(("cell", "peephole") if cell == "lstm" else ())) if full else ()
    more = {"bias": (ways, rows), "lengths": (3,), "peephole": (ways, 60)}
    shapes += [more.get(name, (ways, 3, 20)) for name in names]
    types = [DType.F32, DType.F32, *(DType.I32 if name == "lengths" else DType.F32 for name in names)]
    draw = {slot: lambda rng, shape: rng.uniform(-1, 1, shape) / 4 for slot in range(len(shapes))}
    draw[1] = lambda rng, shape: rng.uniform(-1, 1, shape) / 64
    if full:
        draw[3] = lambda rng, shape: np.array([5, 0, 3])
    return names, shapes, types, draw


# A gate adds 20 products and the activations are off by 8 ulps, of sums below 2: about 32 units. A row of r adds up to
# at most 20 / 64, so that 4 gates of slopes up to 1 and the cell that is kept hand on less than 3 times what the token
# before was off by: 3^5 in all.
STATES = 32 * 3.0**5


@pytest.mark.opencl
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(
    "steps",
    [
        {"cell": "rnn"},
        {"cell": "gru"},
        {"cell": "gru", "linear_before_reset": True},
        {"cell": "lstm"},
        {"cell": "lstm", "coupled": True, "clip": 0.3},
        {"cell": "lstm", "activations": (("hard_sigmoid", 0.3, 0.4), ("tanh", 0.0, 0.0), ("softsign", 0.0, 0.0))},
    ],
)
def test_every_implementation_walks_like_the_reference(steps, full, direction, engine):
    ways = 2 if direction == "bidirectional" else 1
    names, shapes, types, draw = sequences(steps["cell"], ways, full)
    activations = steps.get("activations", ()) * ways
    walk = RecurrentSteps(**steps | {"activations": activations}, hidden=20, direction=direction, present=names)
    size = lambda *_: 1.0  # noqa: E731
    check_op(engine, walk, *shapes, dtype=types, draw=draw, ulps=STATES, scale=size, families=("normal",))


@pytest.mark.opencl
def test_a_network_of_two_directions_runs_on_the_device(device, rng):
    draw = lambda *shape: (rng.standard_normal(shape) / 4).astype(np.float32)  # noqa: E731
    inputs = [draw(7, 1, 40), draw(2, 128, 40), draw(2, 128, 32), draw(2, 256)]
    source, feeds = one_node(
        "LSTM", inputs, opset=14, constant=(1, 2, 3), outputs=3, hidden_size=32, direction="bidirectional"
    )
    compiled = clgraph.compile(source, device=device, config={"strict": True})
    for got, want in zip(compiled.run(feeds).values(), onnxruntime_outputs(source, feeds), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
