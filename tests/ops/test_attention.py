"""Attention: softmax of products of queries and keys, times values."""

import itertools

import numpy as np
import pytest

import clgraph
from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.implementations.cpu.attention import MOST_ROWS, AttentionRows
from clgraph.implementations.cpu.attention_columns import AttentionColumns
from clgraph.ops.attention import Attention
from clgraph.ops.matmul import MatMul
from clgraph.ops.reshape import Reshape
from clgraph.ops.softmax import Softmax
from clgraph.ops.transpose import Transpose
from clgraph.selector.query import DeviceInfo
from tests.support.check_op import check_op
from tests.support.run_tiles import check_tiles, pose, post_list, run_tiles

U32 = 2.0**-24


def matrices(rng, batch, m, n, d, e, by_key, bias=None):
    shapes = [(*batch, m, d), (*batch, *((n, d) if by_key else (d, n))), (*batch, n, e)]
    return [rng.standard_normal(s).astype(np.float32) for s in [*shapes, *([bias] if bias is not None else [])]]


def error_size(primitive, q, k, v, bias=None):
    """Return what errors are relative to, and how far scores lie below their row's largest, at most."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    keys = k.swapaxes(-1, -2) if primitive.by_key else k
    products, sizes = np.matmul(q, keys), np.matmul(np.abs(q), np.abs(keys))
    scores = products * primitive.scale + (0 if bias is None else bias)
    weights = Softmax((scores.ndim - 1,)).reference(scores)[0]
    off = abs(primitive.scale) * sizes + (0 if bias is None else np.abs(bias))
    return np.matmul(weights, np.abs(v)), weights, off, scores.max(-1, keepdims=True) - scores


def natural_size(primitive, *arrays):
    """Return the error of the result in units of 2^-24, from those of the scores, the exponentials and the sums."""
    v, d, n = np.abs(arrays[2].astype(np.float64)), arrays[0].shape[-1], arrays[2].shape[-2]
    mixed, weights, off, below = error_size(primitive, *arrays)
    # A score is off by `score`, so is the maximum; the exponential has 8 roundings and one of its argument; the sums of
    # weights and of the mixture have at most n each, the quotient and what follows 8.
    score = (d + 2) * off
    each = score + score.max(-1, keepdims=True) + below + 9
    return 2 * np.matmul(weights * each, v) + mixed * (2 * n + 8)


@pytest.mark.parametrize("by_key", [False, True])
def test_attention_is_a_softmax_between_two_products(by_key, rng):
    q, k, v, bias = matrices(rng, (2, 3), 5, 7, 4, 6, by_key, (2, 1, 1, 7))
    scores = MatMul(transpose_b=by_key).reference(q, k)[0] * np.float32(0.5) + bias
    want = MatMul().reference(Softmax((3,)).reference(scores)[0], v)[0]
    np.testing.assert_allclose(Attention(0.5, by_key).reference(q, k, v, bias)[0], want, rtol=1e-5, atol=1e-6)


def test_matrices_that_do_not_fit_are_refused(rng):
    layouts = [Layout.of(a) for a in matrices(rng, (2,), 5, 7, 4, 6, False, (3, 5, 7))]
    assert Attention().infer(layouts[:3])[0].shape == (2, 5, 6)
    with pytest.raises(ShapeError, match="do not fit"):
        Attention(by_key=True).infer(layouts[:3])
    with pytest.raises(ShapeError, match="bias"):
        Attention().infer(layouts)


@pytest.mark.opencl
@pytest.mark.parametrize(("batch", "sizes", "bias"), [((2, 3), (5, 7, 4, 19), (2, 1, 1, 7)), ((), (3, 65, 5, 2), None)])
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16])
def test_every_implementation_is_within_its_bound(dtype, batch, sizes, bias, engine, rng):
    for by_key in (False, True):
        shapes = [a.shape for a in matrices(rng, batch, *sizes, by_key, bias)]
        primitive = Attention(0.5, by_key)
        scale = lambda *arrays: natural_size(primitive, *arrays)  # noqa: B023, E731
        check_op(engine, primitive, *shapes, ulps=1, scale=scale, dtype=dtype)


@pytest.mark.opencl
@pytest.mark.parametrize("seed", range(24))
def test_tiles_agree_with_float64(engine, seed):
    rng = np.random.default_rng(seed)
    m, n = (int(rng.integers(1, most)) for most in (3 * MOST_ROWS, 200))
    d, e = ((32, 64), (64, 64), (int(rng.integers(1, 40)), int(rng.integers(1, 140))))[seed % 3]
    batch = ((), (3,), (2, 3))[seed % 3 if seed < 12 else 2]
    bias = (None, (n,), (m, n), (*batch[:1], *(1 for _ in batch[1:]), 1, n), (*batch, m, 1))[seed % 5]
    by_key = bool(seed // 2 % 2)
    arrays = matrices(rng, batch, m, n, d, e, by_key, bias)
    primitive, arity = Attention(d**-0.5, by_key), len(arrays)
    size = natural_size(primitive, *arrays)
    fused, slope = post_list(("", "relu", "add")[seed % 3], (*batch, m, e), arrays, rng)
    for tiles in (AttentionRows, AttentionColumns):
        check_tiles(engine, tiles, primitive, arrays, slope, arity=arity, size=size + 8 * bool(fused), fused=fused)


@pytest.mark.opencl
@pytest.mark.parametrize("n", [1, 5, 6, 7, 13])
def test_few_keys_and_any_number_of_queries_agree_with_float64(engine, n):
    """Queries go in vectors of 16, at most four at a time; keys in blocks of six, the last of which begins earlier."""
    rng = np.random.default_rng(n)
    for m, bias in ((1, None), (16, (1, 1)), (17, (n,)), (40, (40, n)), (49, (n,)), (70, (70, 1)), (115, None)):
        arrays = matrices(rng, (2,), m, n, 20, 24, bool(m % 2), bias)
        primitive = Attention(0.25, bool(m % 2))
        check_tiles(engine, AttentionColumns, primitive, arrays, 1, size=natural_size(primitive, *arrays))


@pytest.mark.opencl
def test_heads_are_read_and_written_where_products_have_them(engine, rng):
    for (m, n, d, e), by_key in itertools.product(((70, 37, 16, 32), (3, 5, 16, 21)), (False, True)):
        net = clgraph.Topology()
        feeds = {
            x: rng.standard_normal((2, m if x == "q" else n, 3 * (e if x == "v" else d)), np.float32) for x in "qkv"
        }
        parts = []
        for name, x in feeds.items():
            split = net.add(f"{name}_split", Reshape((*x.shape[:2], 3, -1)), net.input(name, x.shape))
            order = (0, 2, 3, 1) if name == "k" and not by_key else (0, 2, 1, 3)
            parts.append(net.add(f"{name}_turned", Transpose(order), split))
        made = net.add("made", Attention(0.25, by_key), *parts)
        net.output("y", net.add("joined", Reshape((2, m, -1)), net.add("turned", Transpose((0, 2, 1, 3)), made)))
        results = []
        for left_out in ((), ("prepare_buffer_fusing",)):
            config = {"disable_passes": left_out, "deny_kernels": ["attention.rows"], "model_cache": 0}
            model = clgraph.compile(net, "pocl", config=config)
            nodes = {node.name: node for node in model.prepare()}
            assert all(nodes[f"{name}turned"].in_place != bool(left_out) for name in ("q_", "k_", "v_", ""))
            results.append(model.run(feeds)["y"])
        assert np.array_equal(*results)


@pytest.mark.opencl
@pytest.mark.parametrize("keys", [1, 2, 15, 16, 17, 33, 1500])
def test_one_or_two_queries_read_any_rows_of_keys_and_values_where_they_lie(engine, keys):
    rng = np.random.default_rng(keys)
    for m, depth, width in ((1, 32, 32), (2, 64, 64), (1, 5, 1), (2, 16, 16), (1, 33, 31), (1, 48, 48), (2, 70, 100)):
        arrays = matrices(rng, (2,), m, keys, depth, width, True, (m, keys) if depth % 2 else None)
        primitive, arity = Attention(depth**-0.5, True), len(arrays)
        size = natural_size(primitive, *arrays)
        check_tiles(engine, AttentionRows, primitive, arrays, 1, arity=arity, size=size)


def test_one_query_reads_as_many_keys_as_an_encoder_makes():
    """Whisper's encoder makes 1500; scores of a query are all that is kept of them."""
    for rows, keys, served in ((1, 1500, True), (2, 20000, True), (24, 20000, False), (1, 200000, False)):
        shapes = [(1, 4, rows, 64), (1, 4, keys, 64), (1, 4, keys, 64)]
        layouts = [Layout(DType.F32, shape) for shape in shapes]
        q = pose(DeviceInfo(), AttentionRows, Attention(by_key=True), layouts, arity=3)
        assert (AttentionRows.refusal(q) is None) == served, (rows, keys)


def _lying(layout, order):
    """Return the layout with its axes in memory in this order."""
    pitches, pitch = [0] * len(order), 1
    for axis in reversed(order):
        pitches[axis], pitch = pitch, pitch * layout.shape[axis]
    return layout.with_pitches(tuple(pitches))


def test_only_a_query_in_each_lane_reads_heads_side_by_side():
    layouts = [Layout.of(np.zeros((2, 3, 5, 8), np.float32))] * 3
    q = pose(DeviceInfo(), AttentionRows, Attention(by_key=True), layouts, arity=3)
    apart = _lying(layouts[0], (0, 2, 1, 3))
    assert AttentionColumns.refusal(q.with_layouts((apart,) * 3, (apart,))) is None
    assert "dense" in str(AttentionRows.refusal(q.with_layouts((apart,) * 3, (apart,))))
    turned = _lying(layouts[0], (0, 1, 3, 2))
    assert AttentionColumns.refusal(q.with_layouts((turned, turned, apart), (apart,))) is None
    assert "side by side" in str(AttentionColumns.refusal(q.with_layouts((apart, apart, turned), (apart,))))


@pytest.mark.opencl
def test_masked_keys_count_nothing(engine):
    rng = np.random.default_rng(3)
    q, k, v = matrices(rng, (2,), 9, 70, 8, 6, False)
    bias = np.zeros((2, 1, 70), np.float32)
    bias[:, :, 40:] = np.finfo(np.float32).min
    bias[1] = np.finfo(np.float32).min
    size = natural_size(Attention(1.0), q, k[..., :40], v[:, :40]) + np.abs(v).max() * 1000
    other = v.copy()
    other[0, 40:] = 1e6
    for tiles in (AttentionRows, AttentionColumns):
        check_tiles(engine, tiles, Attention(1.0), [q, k, v, bias], 1, size=size)
        laid_out = pose(engine.info, tiles, Attention(1.0), [Layout.of(a) for a in (q, k, v, bias)], arity=4)
        seen, hidden = (run_tiles(engine, tiles, laid_out, [q, k, values, bias]) for values in (v, other))
        assert np.array_equal(seen[0], hidden[0])


def test_scores_that_take_too_much_scratch_are_refused():
    layouts = [Layout.of(np.zeros(s, np.float32)) for s in [(1, 4, 8), (1, 8, 40000), (1, 40000, 8)]]
    for tiles in (AttentionRows, AttentionColumns):
        assert "keeps scores" in str(tiles.refusal(pose(DeviceInfo(), tiles, Attention(), layouts, arity=3)))


@pytest.mark.opencl
def test_scores_beyond_a_cores_own_cache_are_served_and_right(engine):
    q, k, v = matrices(np.random.default_rng(4), (1,), 20, 2500, 4, 5, False)
    layouts = [Layout.of(a) for a in (q, k, v)]
    assert AttentionColumns.refusal(pose(engine.info, AttentionColumns, Attention(0.5), layouts, arity=3)) is None
    check_tiles(engine, AttentionColumns, Attention(0.5), [q, k, v], 1, size=natural_size(Attention(0.5), q, k, v))
