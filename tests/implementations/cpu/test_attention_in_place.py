"""Attention over keys and values that lie where the caller has them, as those of an encoder do at every token."""

from __future__ import annotations

import numpy as np
import pytest

import clgraph
from clgraph.ops.attention import Attention

pytestmark = pytest.mark.opencl
LAYERS = 6


def decoder(rows, keys, depth):
    """As many attentions as a decoder has layers, each of three heads over keys and values of its own."""
    made = clgraph.Topology()
    q = made.input("q", (1, 3, rows, depth))
    for i in range(LAYERS):
        k, v = (made.input(f"{name}{i}", (1, 3, keys, depth)) for name in "kv")
        made.output(f"y{i}", made.add(f"y{i}", Attention(scale=0.5, by_key=True), q, k, v))
    return made


def attended(q, k, v):
    scores = 0.5 * q @ k.swapaxes(-1, -2)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def at_odd_addresses(rng, shape):
    return rng.standard_normal(int(np.prod(shape)) + 5, np.float32)[5:].reshape(shape)


@pytest.mark.parametrize("kernel", ["attention.rows", "attention.columns"])
def test_keys_and_values_of_all_layers_are_read_where_the_caller_has_them(device, engine, kernel):
    if "host_memory" not in engine.info.features or engine.info.kind != "cpu":
        pytest.skip("the device copies")
    rng, other = np.random.default_rng(4), {"attention.rows", "attention.columns"} - {kernel}
    for rows, keys, depth in ((1, 700, 16), (2, 517, 20), (3, 519, 20)):
        model = clgraph.compile(decoder(rows, keys, depth), device=device, config={"deny_kernels": [*other]})
        shape = (1, 3, keys, depth)
        feeds = {f"{name}{i}": at_odd_addresses(rng, shape) for name in "kv" for i in range(LAYERS)}
        feeds["q"] = rng.standard_normal((1, 3, rows, depth), np.float32)
        for i, y in enumerate(model.run(feeds).values()):
            want = attended(*(feeds[n].astype(np.float64) for n in ("q", f"k{i}", f"v{i}")))
            # Scores are off by (depth + 2) 2^-24 sum |q k| / 2, weights by twice that, results by keys 2^-24 besides.
            np.testing.assert_allclose(y, want, rtol=0, atol=(2 * depth**2 + keys) * 2.0**-24 * 4)
        told = str(model.profile(feeds))
        assert told.count("read in place") == 2 * LAYERS, told


def test_many_queries_read_copies(device, engine):
    if "host_memory" not in engine.info.features or engine.info.kind != "cpu":
        pytest.skip("the device copies")
    model = clgraph.compile(decoder(200, 300, 32), device=device)
    rng = np.random.default_rng(6)
    feeds = {f"{name}{i}": rng.standard_normal((1, 3, 300, 32), np.float32) for name in "kv" for i in range(LAYERS)}
    assert "k0: copied" in str(model.profile({**feeds, "q": rng.standard_normal((1, 3, 200, 32), np.float32)}))
