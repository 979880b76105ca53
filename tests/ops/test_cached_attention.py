"""Attention over caches that stay in memory: lengths and places are run-time values of one program."""

import numpy as np
import pytest

import clgraph
from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import InputError, ShapeError
from clgraph.graph.topology import Topology
from clgraph.ops.cached_attention import CachedAttention, numbers
from clgraph.ops.multi_head_attention import MultiHeadAttention
from tests.support.of_a_kind import on_a_cpu

U32 = 2.0**-24


def topology_of(primitive, batch, heads, shared, tokens, depth, width, dtype=np.float32, state=None):
    made = Topology()
    made.input("q", (batch, heads, tokens, depth), dtype)
    made.input("k", (batch, shared, tokens, depth), dtype)
    made.input("v", (batch, shared, tokens, width), dtype)
    made.input("lengths", (1 + batch,), np.int32)
    made.input("state", (1,), state or dtype)
    for name in primitive.reads:
        made.input(name, *{"bias": ((batch, 1, tokens, 1), np.float32), "sink": ((heads,), dtype)}[name])
    made.output("y", made.add("a", primitive, "q", "k", "v", "lengths", "state", *primitive.reads))
    return made


def types_of(dtype):
    """Return the types of what is read and of a state of *dtype*."""
    return {"dtype": np.float32 if np.dtype(dtype).kind in "iu" else dtype, "state": dtype}


def network_of(topology, deny="", **options):
    model = clgraph.compile(topology, config={"deny_kernels": [deny] if deny else [], **options})
    (found,) = model.compiled.values()
    return found.network


def held(network, array):
    """Return memory of the network's device that holds *array*."""
    memory = network.engine.allocate(array.nbytes, "what a run is given")
    network.engine.stream.write(memory, 0, array)
    network.engine.stream.finish()
    return memory


def drawn(rng, topology, *, first, places):
    """Return feeds; new keys and values are integers where the state is of such."""
    most = {DType.I8: 128, DType.U8: 8}.get(topology.inputs["state"].dtype, 0)
    feeds = {}
    for s in topology.inputs.values():
        if s.name == "lengths":
            feeds[s.name] = np.array([places, *first], np.int32)
        elif s.name != "state":
            shape = (*s.shape[:-1], places) if s.name == "bias" else s.shape
            feeds[s.name] = rng.standard_normal(shape).astype(s.dtype.numpy)
            if most and s.name in "kv":
                feeds[s.name] = rng.integers(-most, most, s.shape).astype(s.dtype.numpy)
    return feeds


def check_run(network, primitive, feeds, memory, state):
    """Run, and compare result and state with the reference's; *state* is the latter's and is updated."""
    given = {**feeds, "state": memory}
    if "bias" in feeds:
        given["bias"] = held(network, feeds["bias"])
    y = network.run(given)["y"]
    inputs = [state if n == "state" else feeds[n] for n in ("q", "k", "v", "lengths", "state", *primitive.reads)]
    exact = [a.astype(np.float64) if a.dtype.kind == "f" and a is not state else a for a in inputs]
    lengths, half = feeds["lengths"], feeds["q"].dtype == np.float16
    (want,) = primitive.reference(*exact)
    network.engine.stream.read(memory, 0, found := np.empty_like(state))
    np.testing.assert_array_equal(found, state)
    caches = primitive.caches(state, lengths, feeds["k"].shape, feeds["v"].shape[3])
    keys, values = (numbers(x).astype(np.float64) for x in caches)
    total, depth = int(lengths[1:].max()) + feeds["q"].shape[2], feeds["q"].shape[3]
    # A score is off by (depth + 4) u of the sum of its products' sizes, at most this one; the exponential by 8 u and by
    # u of its argument, and the sums by 2 u a key: all relative to the largest value.
    scores = depth * np.abs(feeds["q"]).max() * np.abs(keys).max() * primitive.factor(depth) + 1
    scores += max((np.abs(feeds[n]).max() for n in primitive.reads), default=0)
    bound = 2 * ((depth + 4) * scores + 2 * scores + 8 + 2 * total) * U32 * max(1, np.abs(values).max())
    np.testing.assert_allclose(y.astype(np.float64), want, rtol=2.0**-11 if half else 0, atol=float(bound))


CASES = [
    (CachedAttention(0, 40), (2, 4, 2, 1, 20, 24), np.float32),
    (CachedAttention(48, 0, 0.3, cap=2.0, window=3), (1, 4, 1, 5, 32, 48), np.float32),
    (CachedAttention(0, 16, causal=False, reads=("bias", "sink")), (2, 2, 2, 3, 8, 8), np.float32),
    (CachedAttention(0, 128), (1, 4, 2, 1, 64, 64), np.float16),
    (CachedAttention(0, 40, 0.002), (2, 4, 2, 3, 20, 24), np.int8),
    (CachedAttention(0, 20, 0.03), (2, 4, 2, 3, 20, 24), np.uint8),
]


@pytest.mark.opencl
@pytest.mark.parametrize(
    "options",
    [{}, {"deny": "cached_attention.rows"}, {"device_class": "gpu"}],
    ids=["tile", "general", "gpu"],
)
@pytest.mark.parametrize(("primitive", "sizes", "dtype"), CASES)
def test_one_program_serves_every_length_and_number_of_places(primitive, sizes, dtype, options, engine, rng):
    batch, tokens = sizes[0], sizes[3]
    topology = topology_of(primitive, *sizes, **types_of(dtype))
    network = network_of(topology, **options)
    for places in (16, 40):
        each = sizes[2] * (sizes[4] + sizes[5]) // (2 if dtype == np.uint8 else 1)
        state = np.zeros(batch * places * each, dtype)
        memory = held(network, state)
        for start in (0, tokens, 9):
            first = [max(0, start - text) for text in range(batch)]
            check_run(network, primitive, drawn(rng, topology, first=first, places=places), memory, state)
    network.kept[0].forget(memory)


@pytest.mark.opencl
def test_two_memories_take_turns(engine, rng):
    primitive, sizes = CASES[0][:2]
    topology = topology_of(primitive, *sizes)
    network = network_of(topology)
    pairs = []
    for _ in range(2):
        state = np.zeros(2 * 16 * 2 * 44, np.float32)
        pairs.append((held(network, state), state))
    for place in range(3):
        for memory, state in pairs:
            check_run(network, primitive, drawn(rng, topology, first=[place, place], places=16), memory, state)


def test_the_reference_agrees_with_attention_that_concatenates(rng):
    q, past, k = (rng.standard_normal((2, n, t, 8)).astype(np.float32) for n, t in ((4, 3), (2, 5), (2, 3)))
    past_v, v = (rng.standard_normal((2, 2, t, 8)).astype(np.float32) for t in (5, 3))
    state = np.zeros(2 * 2 * 9 * 16, np.float32)
    primitive = CachedAttention(0, 16, reads=("bias",))
    bias = rng.standard_normal((2, 1, 3, 9)).astype(np.float32)
    keys, values = primitive.caches(state, np.array([9, 5, 5], np.int32), k.shape, 8)
    keys[:, :, :5], values[:, :, :5] = past, past_v
    (y,) = primitive.reference(q, k, v, np.array([9, 5, 5], np.int32), state, bias)
    whole = MultiHeadAttention(causal=True, reads=("mask", "past_key", "past_value"))
    want, key, value, _ = whole.reference(q, k, v, bias[..., :8], past, past_v)
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(keys[:, :, :8], key)
    np.testing.assert_array_equal(values[:, :, :8], value)


@pytest.mark.opencl
def test_what_is_updated_wants_memory_of_the_device(engine, rng):
    primitive, sizes = CASES[0][:2]
    topology = topology_of(primitive, *sizes)
    feeds = drawn(rng, topology, first=[0, 0], places=16)
    with pytest.raises(InputError, match="requires memory of the device"):
        network_of(topology).run({**feeds, "state": np.zeros(1, np.float32)})


def test_what_does_not_fit_is_refused():
    f32 = lambda *shape: Layout(DType.F32, shape)  # noqa: E731
    q, k, lengths, state = f32(1, 4, 1, 8), f32(1, 2, 1, 8), Layout(DType.I32, (2,)), f32(1)
    assert CachedAttention(0, 8).infer([q, k, k, lengths, state])[0].shape == (1, 4, 1, 8)
    for inputs, what in (
        ([q, f32(1, 3, 1, 8), k, lengths, state], "do not fit"),
        ([q, k, k, Layout(DType.I32, (3,)), state], "lengths"),
        ([f32(4, 1, 8), k, k, lengths, state], "requires"),
        ([q, k, f32(1, 2, 1, 5), lengths, Layout(DType.U8, (1,))], "two in a byte"),
        ([q, k, k, lengths, Layout(DType.I32, (1,))], "state"),
    ):
        with pytest.raises(ShapeError, match=what):
            CachedAttention(0, 8).infer(inputs)


@pytest.mark.opencl
def test_a_saved_program_tells_what_it_updates_before_its_primitives_are_made(tmp_path):
    primitive, *sizes, dtype = CASES[0][0], *CASES[0][1], CASES[0][2]
    clgraph.compile(topology_of(primitive, *sizes, dtype)).save(tmp_path / "m.clg")
    (loaded,) = clgraph.load(tmp_path / "m.clg").compiled.values()
    (node,) = (n for n in loaded.program if n.updates)
    assert (node.updates, node._primitive[:5]) == (primitive.updates, '["p",')
    assert node.primitive.updates == node.updates


LONG = [
    (CachedAttention(0, 48, reads=("sink",)), (2, 6, 2, 3, 24, 40)),
    (CachedAttention(0, 64, cap=5.0, window=270), (1, 8, 1, 9, 64, 64)),
]


@pytest.mark.opencl
@pytest.mark.parametrize(
    ("primitive", "sizes"), [*LONG, (CachedAttention(0, 20, reads=("sink",)), (1, 2, 1, 1, 20, 70))]
)
def test_groups_of_gpus_go_over_long_caches_by_parts(primitive, sizes, engine, rng):
    batch, shared, depth, width = sizes[0], sizes[2], *sizes[4:]
    topology, places = topology_of(primitive, *sizes), 600
    network = network_of(topology, device_class="gpu")
    (node,) = (n for n in network.program if n.updates)
    assert node.choice.implementation.name == "cached_attention.gpu_shared"
    state = rng.standard_normal(batch * places * shared * (depth + width)).astype(np.float32)
    memory = held(network, state)
    for place in (0, 63, 520):
        check_run(network, primitive, drawn(rng, topology, first=[place] * batch, places=places), memory, state)


@pytest.mark.opencl
@pytest.mark.parametrize(("primitive", "sizes"), LONG)
def test_long_caches_and_prompts_in_pieces_have_the_bits_of_whole_ones(primitive, sizes, engine, rng):
    on_a_cpu(engine)  # groups of GPUs share keys among as many queries as there are
    batch, heads, shared, tokens, depth, width = sizes
    whole, one = (topology_of(primitive, batch, heads, shared, n, depth, width) for n in (tokens, 1))
    together, apart = network_of(whole), network_of(one)
    places = 600
    state = rng.standard_normal(batch * places * shared * (depth + width)).astype(np.float32)
    pair = [held(together, state), held(apart, state)]
    for place in (252, 520):
        feeds = drawn(rng, whole, first=[place] * batch, places=places)
        check_run(together, primitive, feeds, pair[0], state)
        want = together.run({**feeds, "state": pair[0]})["y"]
        for t in range(tokens):
            piece = {n: np.ascontiguousarray(feeds[n][:, :, t : t + 1]) for n in "qkv"}
            given = {**feeds, **piece, "lengths": np.array([places, *[place + t] * batch], np.int32)}
            got = apart.run({**given, "state": pair[1]})["y"]
            np.testing.assert_array_equal(got[:, :, 0], want[:, :, t])
