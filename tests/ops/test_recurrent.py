"""Recurrent networks against ONNX Runtime, over directions, lengths and first states."""

import numpy as np
import pytest

import clgraph
from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.implementations.gpu.recurrent_steps import RecurrentStepsGroups, RecurrentStepsTokens
from clgraph.ops.recurrent_steps import GATES, RecurrentSteps
from clgraph.selector.choose import choose
from clgraph.selector.query import DeviceInfo, Query
from tests.support.check_op import check_op
from tests.support.of_a_kind import on_a_cpu
from tests.support.onnx_case import agree, one_node, onnxruntime_outputs
from tools.gpu_compilers.profiles import PROFILES

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
    agree(op_type, inputs, opset=14, outputs=outputs, hidden_size=HIDDEN, direction=direction)


@pytest.mark.parametrize(("op_type", "gates"), [("RNN", 1), ("LSTM", 4)])
def test_tokens_without_elements_leave_the_bias(op_type, gates, rng):
    weights, bias = np.zeros((1, gates * HIDDEN, 0), np.float32), rng.standard_normal((1, 2 * gates * HIDDEN))
    states = rng.standard_normal((1, gates * HIDDEN, HIDDEN)).astype(np.float32)
    tokens = np.zeros((TOKENS, BATCH, 0), np.float32)
    agree(op_type, [tokens, weights, states, bias.astype(np.float32)], opset=14, outputs=2, hidden_size=HIDDEN)


@pytest.mark.parametrize("linear", [0, 1])
def test_a_gru_resets_before_or_after_the_product(linear, rng):
    draw = lambda *shape: rng.standard_normal(shape).astype(np.float32)  # noqa: E731
    inputs = [
        draw(TOKENS, BATCH, INPUTS),
        draw(1, 3 * HIDDEN, INPUTS),
        draw(1, 3 * HIDDEN, HIDDEN),
        draw(1, 6 * HIDDEN),
    ]
    agree("GRU", inputs, opset=14, outputs=2, hidden_size=HIDDEN, linear_before_reset=linear)


RARE = (
    (("LSTM", 4), {"outputs": 3, "clip": 0.25}),
    (
        ("GRU", 3),
        {"outputs": 2, "activations": ["Sigmoid", "ScaledTanh"], "activation_alpha": [0.5], "activation_beta": [0.3]},
    ),
    (("RNN", 1), {"outputs": 2, "activations": ["ThresholdedRelu"], "activation_alpha": [0.4]}),
)
"""A bound that cells exceed, and functions that no kernel has."""


@pytest.mark.opencl
@pytest.mark.parametrize("device_class", ["cpu", "gpu"])
@pytest.mark.parametrize(("op_type", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
@pytest.mark.parametrize("constant", [(), (1, 2)])
def test_a_bound_keeps_what_is_no_number(constant, op_type, gates, device_class, device, rng):
    inputs = [rng.standard_normal(s).astype(np.float32) for s in ((2, 1, 3), (1, 4 * gates, 3), (1, 4 * gates, 4))]
    inputs[0][0, 0, 1] = np.nan
    model, feeds = one_node(op_type, inputs, opset=14, constant=constant, hidden_size=4, clip=0.5)
    with clgraph.compile(model, device=device, config={"device_class": device_class}) as compiled:
        (y,) = compiled.run(feeds).values()
    assert np.isnan(y).all()


def test_activations_and_a_bound_are_those_of_the_node(rng):
    draw = lambda *shape: rng.standard_normal(shape).astype(np.float32)  # noqa: E731
    inputs = [draw(TOKENS, BATCH, INPUTS), draw(1, 4 * HIDDEN, INPUTS), draw(1, 4 * HIDDEN, HIDDEN)]
    more = {"activations": ["HardSigmoid", "Tanh", "Softsign"], "activation_alpha": [0.3], "activation_beta": [0.4]}
    agree("LSTM", inputs, opset=14, outputs=3, hidden_size=HIDDEN, clip=1.5, **more)
    for cell, more in RARE:
        inputs = [draw(TOKENS, BATCH, INPUTS), *(draw(1, cell[1] * HIDDEN, n) for n in (INPUTS, HIDDEN))]
        agree(cell[0], inputs, opset=14, hidden_size=HIDDEN, **more)


def sequences(cell, ways, full, dtype=DType.F32):
    """Return shapes and types of the inputs, and how to draw them, of 3 sequences of 5 tokens and 20 hidden states."""
    rows = {"rnn": 1, "gru": 3, "lstm": 4}[cell] * 20
    shapes = [(5, 3, ways * rows), (ways, rows, 20)]
    names = ("bias", "lengths", "hidden", *(("cell", "peephole") if cell == "lstm" else ())) if full else ()
    more = {"bias": (ways, rows), "lengths": (3,), "peephole": (ways, 60)}
    shapes += [more.get(name, (ways, 3, 20)) for name in names]
    types = [dtype, dtype, *(DType.I32 if name == "lengths" else dtype for name in names)]
    draw = {slot: lambda rng, shape: rng.uniform(-1, 1, shape) / 4 for slot in range(len(shapes))}
    draw[1] = lambda rng, shape: rng.uniform(-1, 1, shape) / 64
    if full:
        draw[3] = lambda rng, shape: np.array([5, 0, 3])
    return names, shapes, types, draw


# A gate adds 20 products and the activations are off by 8 ulps, of sums below 2: about 32 units. A row of r adds up to
# at most 20 / 64, so that 4 gates of slopes up to 1 and the cell that is kept hand on less than 3 times what the token
# before was off by: 3^5 in all.
STATES = 32 * 3.0**5


# No state of these is as close to the middle of two steps as the bound, so that kernels round it as the reference does.
ROUNDED = {"cell": "lstm", "rounded": True}
CELLS = pytest.mark.parametrize(
    "steps",
    [
        {"cell": "rnn"},
        {"cell": "gru"},
        {"cell": "gru", "linear_before_reset": True},
        {"cell": "lstm"},
        {"cell": "lstm", "coupled": True, "clip": 0.1},
        {"cell": "lstm", "activations": (("hard_sigmoid", 0.3, 0.4), ("tanh", 0.0, 0.0), ("softsign", 0.0, 0.0))},
        ROUNDED,
    ],
)


def _walk(engine, steps, full, direction, dtype=DType.F32, **more):
    ways = 2 if direction == "bidirectional" else 1
    names, shapes, types, draw = sequences(steps["cell"], ways, full, dtype)
    activations = steps.get("activations", ()) * ways
    walk = RecurrentSteps(**steps | {"activations": activations}, hidden=20, direction=direction, present=names)
    size = lambda *_: 1.0  # noqa: E731
    return check_op(
        engine, walk, *shapes, dtype=types, draw=draw, ulps=STATES, scale=size, families=("normal",), **more
    )


@pytest.mark.opencl
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("full", [False, True])
@CELLS
def test_every_implementation_walks_like_the_reference(steps, full, direction, engine):
    on_a_cpu(engine)
    assert "recurrent_steps.products" in _walk(engine, steps, full, direction, constant=(1,))


@pytest.mark.opencl
@pytest.mark.parametrize(("direction", "full"), [("reverse", False), ("bidirectional", True)])
@CELLS
def test_doubles_are_walked_on_every_device_that_has_them(steps, full, direction, engine, gpu_engine):
    # OpenCL's functions of doubles are off by 5 ulps at most, those that the bound is made for by 8.
    for device in (engine, gpu_engine):
        if "fp64" in device.info.features:
            assert set(_walk(device, steps, full, direction, DType.F64)) == {"recurrent_steps.lines"}


@pytest.mark.opencl
@pytest.mark.parametrize(
    ("direction", "full", "dtype"), [("reverse", False, DType.F16), ("bidirectional", True, DType.F32)]
)
@CELLS
def test_kernels_of_a_gpu_walk_like_the_reference(steps, dtype, full, direction, gpu_engine):
    wanted = {"recurrent_steps.gpu_groups", "recurrent_steps.gpu_tokens"}
    if steps is ROUNDED:
        dtype, wanted = DType.F32, {"recurrent_steps.lines"}
    for constant in ((), (1,)):
        assert wanted <= set(_walk(gpu_engine, steps, full, direction, dtype, constant=constant))


@pytest.mark.opencl
def test_states_are_rounded_to_256_steps(engine, gpu_engine):
    walk = RecurrentSteps("lstm", 20, present=("hidden",), rounded=True)
    draw = dict.fromkeys((0, 2), lambda rng, shape: rng.uniform(-1, 1, shape))
    draw[1] = lambda rng, shape: rng.uniform(-1, 1, shape) / 4
    for device, name in ((engine, "recurrent_steps.products"), (gpu_engine, "recurrent_steps.lines")):
        if name.endswith("products") and device.info.kind != "cpu":
            continue
        # A gate is off by 32 units as above. A row of r adds up to at most 20 / 4, so that 4 gates of slopes up to 1
        # and the cell hand on less than 21 times what the token before was off by. Half a step is 60000 units.
        shapes, size = ((2, 3, 80), (1, 80, 20), (1, 3, 20)), lambda *_: 1.0
        check = {"draw": draw, "ulps": 32 * 22, "scale": size, "families": ("normal",), "constant": (1,)}
        assert name in check_op(device, walk, *shapes, **check)


@pytest.mark.opencl
@pytest.mark.parametrize("cell", ["gru", "lstm"])
@pytest.mark.parametrize("batch", [1, 11])
def test_work_items_share_the_products_of_a_unit_and_sequences_its_weights(batch, cell, gpu_engine):
    """More states than work-items of a group, sequences for one group or for two."""
    walk, rows = RecurrentSteps(cell, 70), GATES[cell] * 70
    draw = {0: lambda rng, shape: rng.uniform(-1, 1, shape) / 4, 1: lambda rng, shape: rng.uniform(-1, 1, shape) / 256}
    # A gate adds 70 products, the activations are off by 8 ulps: 80 units of sums below 1. A row of r adds up to
    # at most 70 / 256, so that a token hands on less than 3 times what the one before was off by: 1 + 3 + 9.
    found = check_op(
        gpu_engine,
        walk,
        (3, batch, rows),
        (1, rows, 70),
        draw=draw,
        ulps=80 * 13,
        scale=lambda *_: 1.0,
        families=("normal",),
        only=["recurrent_steps.gpu_tokens"],
    )
    assert set(found) == {"recurrent_steps.gpu_tokens"}


@pytest.mark.opencl
@pytest.mark.parametrize(("device_class", "batch"), [("gpu", 3), ("cpu", 61)])
@pytest.mark.parametrize(("op_type", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_units_beyond_a_group_and_many_sequences(op_type, gates, device_class, batch, device, rng):
    draw = lambda *shape: (rng.standard_normal(shape) / 16).astype(np.float32)  # noqa: E731
    inputs = [draw(6, batch, 24), draw(1, gates * 300, 24), draw(1, gates * 300, 300), draw(1, 2 * gates * 300)]
    more = {"opset": 14, "constant": (1, 2, 3), "outputs": 2 + (op_type == "LSTM"), "hidden_size": 300}
    source, feeds = one_node(op_type, inputs, **more)
    made = clgraph.compile(source, device=device, config={"strict": True, "device_class": device_class})
    for got, want in zip(made.run(feeds).values(), onnxruntime_outputs(source, feeds), strict=True):
        # 300 products of numbers near 1/16 and 1 at most, over 6 tokens whose rows of r add up to less than 16.
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "shape"), [("lengths", (4,)), ("hidden", (1, 4, 6)), ("cell", (1, 3, 7)), ("peephole", (1, 6))]
)
def test_what_is_not_one_for_each_sequence_is_refused(name, shape):
    """Kernels read lengths and states of all sequences: of more than there are they would read other memory."""
    shapes = [(2, 3, 4 * 6), (1, 4 * 6, 6), shape]
    with pytest.raises(ShapeError, match=name):
        RecurrentSteps("lstm", 6, present=(name,)).infer([Layout(DType.F32, s) for s in shapes])


def _problem(hidden, device, tokens=2, batch=1):
    walk = RecurrentSteps("lstm", hidden)
    inputs = tuple(Layout(DType.F32, s) for s in [(tokens, batch, 4 * hidden), (1, 4 * hidden, hidden)])
    return Query(walk, inputs, walk.infer(inputs), device, 2, constant=frozenset({1}))


def test_states_that_local_memory_has_no_room_for_are_refused():
    q = _problem(3000, DeviceInfo(kind="gpu", local_bytes=32 << 10))
    assert RecurrentStepsGroups.refusal(q) == "requires 49152 bytes of local memory, the device has 32768"
    q = _problem(3000, DeviceInfo(kind="gpu", local_bytes=1 << 10))
    assert RecurrentStepsTokens.refusal(q) == "requires 1056 bytes of local memory, the device has 1024"


def test_all_compute_units_make_a_token_where_a_launch_takes_less_than_the_weights():
    """A compute unit reads 64 KiB of a shared cache in 0.66 us, 4 MiB in 42 us; a launch takes 6."""
    device = PROFILES["h200"].info
    names = {hidden: choose(_problem(hidden, device)).name for hidden in (64, 512)}
    assert names == {64: "recurrent_steps.gpu_groups", 512: "recurrent_steps.gpu_tokens"}
    # All sequences of a batch wait for their weights at once, on units of their own; but not of more than there are.
    costs = [RecurrentStepsGroups.cost(_problem(512, device, batch=batch)) for batch in (1, 132, 133)]
    assert costs[0] == costs[1] < 0.6 * costs[2]
    assert RecurrentStepsTokens.refusal(_problem(512, device, tokens=4097)) == "takes 4097 launches, at most 4096"
    assert choose(_problem(512, device, tokens=4097)).name == "recurrent_steps.gpu_groups"


@pytest.mark.parametrize("simd", [8, 16])
def test_one_sequence_is_multiplied_by_packed_weights(simd):
    """With vectors of 8 floats it takes 0.57 of the time that a work-item takes (50 tokens, 128 states, Zen 4)."""
    for hidden in (64, 128, 256):
        assert choose(_problem(hidden, DeviceInfo(name="pocl:0", simd=simd), 50)).name == "recurrent_steps.products"


@pytest.mark.opencl
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_cells_in_line_end_with_their_sequences(direction, device, rng):
    """LSTMs of whole vectors of units, with the usual functions, have a loop of their own."""
    draw = lambda *shape: (rng.standard_normal(shape) / 4).astype(np.float32)  # noqa: E731
    ways = 2 if direction == "bidirectional" else 1
    inputs = [draw(7, 3, 40), draw(ways, 128, 40), draw(ways, 128, 32), draw(ways, 256), np.array([7, 2, 4], np.int32)]
    inputs += [draw(ways, 3, 32), draw(ways, 3, 32)]
    more = {"opset": 14, "constant": (1, 2, 3), "outputs": 3, "hidden_size": 32, "direction": direction}
    source, feeds = one_node("LSTM", inputs, **more)
    compiled = clgraph.compile(source, device=device, config={"strict": True})
    for got, want in zip(compiled.run(feeds).values(), onnxruntime_outputs(source, feeds), strict=True):
        # 72 products of numbers near 1/16, over 7 tokens whose rows of r add up to less than 8.
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


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
