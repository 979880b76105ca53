"""Attention for NVIDIA GPUs, in the emulator: what it runs is what a plan launches."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.implementations.matrix_units.nvidia.attention import AttentionNvidia
from clgraph.ops.activation import Activation
from clgraph.ops.attention import Attention
from clgraph.ops.eltwise import Eltwise
from clgraph.selector.query import DeviceInfo, Query
from tests.ops.test_attention import matrices, natural_size
from tests.support.check_op import check_op, run_raw

NAME = AttentionNvidia.name
SHAPES = AttentionNvidia._shapes
CASES = {
    "a_tile": ((2,), (64, 64, 64, 64), None),
    "tails": ((2, 3), (70, 90, 40, 24), (2, 1, 1, 90)),
    "wide_heads": ((2,), (33, 50, 128, 104), (33, 50)),
    "narrow_heads": ((3,), (20, 70, 16, 8), (70,)),
    "a_bias_a_query": ((2,), (33, 40, 8, 16), (33, 1)),
}


def scale_of(primitive, *arrays):
    """What other kernels are held to, and the weights as halves: 2^-11 of each and 2^-25 of the largest, before the
    sum of them; for each tile of 16 keys at least, ten roundings in the mixture and in the sum.
    """
    q, k, v = arrays[:3]
    mixed = primitive.reference(q, k, np.abs(v), *arrays[3:])[0]
    tiles = -(-v.shape[-2] // 16)
    return natural_size(primitive, *arrays) + (2**13 + 20 * tiles) * mixed + 0.5 * np.abs(v).sum(-2, keepdims=True)


def _shapes(rng, batch, sizes, bias):
    return [a.shape for a in matrices(rng, batch, *sizes, True, bias)]


@pytest.mark.opencl
@pytest.mark.parametrize("case", CASES)
def test_mixtures_are_within_their_bound(case, nvidia_engine, rng):
    batch, sizes, bias = CASES[case]
    primitive, count = Attention(0.25, True), len(nvidia_engine.ran)
    scale = lambda *a: scale_of(primitive, *a)  # noqa: E731
    check_op(
        nvidia_engine,
        primitive,
        *_shapes(rng, batch, sizes, bias),
        ulps=1,
        scale=scale,
        dtype=DType.F16,
        only=[NAME],
        families=["normal", "equal", "wide"],
    )
    assert all(passes == 1 for _, _, passes in nvidia_engine.ran[count:])


@pytest.mark.opencl
@pytest.mark.parametrize("tiles", [1, 2])
@pytest.mark.usefixtures("own_classes")
def test_every_number_of_queries_a_warp(tiles, nvidia_engine, rng, monkeypatch):
    monkeypatch.setattr(AttentionNvidia, "_shape", lambda q: next(s for s in SHAPES(q) if s.tiles == tiles))
    primitive = Attention(0.25, True)
    check = {"scale": lambda *a: scale_of(primitive, *a), "families": ["normal"], "only": [NAME]}
    shapes = _shapes(rng, (1, 2), (150, 70, 64, 64), (150, 70))
    check_op(nvidia_engine, primitive, *shapes, ulps=1, dtype=DType.F16, **check)


@pytest.mark.opencl
@pytest.mark.parametrize("late", [False, True])
def test_keys_hidden_by_minus_infinity_count_nothing_as_in_a_causal_mask(late, nvidia_engine, rng, monkeypatch):
    monkeypatch.setattr(nvidia_engine, "late", late)
    size, primitive = 72, Attention(0.25, True)
    q, k, v = (a.astype(np.float16) for a in matrices(rng, (1,), size, size, 32, 32, True))
    mask = np.triu(np.full((size, size), -np.inf), 1).astype(np.float16)
    mask[:, :5] = -np.inf
    layouts = tuple(Layout.of(a) for a in (q, k, v, mask))
    query = Query(primitive, layouts, primitive.infer(layouts[:3]), nvidia_engine.info, 4)
    (seen,) = run_raw(nvidia_engine, AttentionNvidia, query, [q, k, v, mask])
    seen = seen.reshape(size, 32)
    # Rows that see no key at all have no mixture.
    assert np.isnan(seen[:5]).all()
    for row in range(5, size):
        exact = [a.astype(np.float64) for a in (q[:, row : row + 1], k[:, 5 : row + 1], v[:, 5 : row + 1])]
        want = primitive.reference(*exact)[0][0, 0]
        bound = 2.0**-24 * scale_of(primitive, *exact)[0, 0] + 2.0**-11 * np.abs(want)
        assert (np.abs(seen[row] - want) <= bound).all()


@pytest.mark.opencl
def test_fused_operations_are_applied(nvidia_engine, rng):
    batch, sizes, _ = CASES["tails"]
    primitive, y = Attention(0.5, True), (*batch, sizes[0], sizes[3])
    fused = [(Eltwise("add"), [y], 0), (Activation("relu"), [], 0)]
    scale = lambda *a: scale_of(primitive, *a[:3]) + np.abs(a[3]) + np.abs(primitive.reference(*a[:3])[0])  # noqa: E731
    check = {"scale": scale, "fused": fused, "only": [NAME], "families": ["normal"]}
    check_op(nvidia_engine, primitive, *_shapes(rng, batch, sizes, None), ulps=1, dtype=DType.F16, **check)


def test_what_it_does_not_serve_is_refused():
    gpu = DeviceInfo("nvidia:0", "gpu", local_bytes=48 << 10, features=AttentionNvidia.serves.features)

    def refusal(d, by_key=True, scale=1.0):
        q, k = Layout(DType.F16, (2, 64, d)), Layout(DType.F16, (2, 64, d) if by_key else (2, d, 64))
        return str(AttentionNvidia.refusal(Query(Attention(scale, by_key), (q, k, q), (q,), gpu, 3)))

    assert refusal(64) == "None"
    assert "heads of multiples of 8 up to 128" in refusal(36)
    assert "heads of multiples of 8 up to 128" in refusal(136)
    assert "side by side" in refusal(64, by_key=False)
    assert "requires a scale above 0, not -0.5" in refusal(64, scale=-0.5)
