"""Float weights in few bits: what becomes a block_matmul or a table of bytes, how far that is, and what stays."""

from __future__ import annotations

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.errors import OptionError
from clgraph.ops.activation import Activation
from clgraph.ops.block_matmul import BlockMatMul
from clgraph.ops.gather import Gather
from clgraph.ops.matmul import MatMul
from clgraph.passes.base import Context
from clgraph.passes.quantization.compress_weights import CompressWeights
from clgraph.passes.quantization.few_bits import Compressed, group_of, rounded
from tests.support.programs import Net, run

F = np.float32
K, N = 272, 256
"""The last group of 128 is not full."""


class Weights(Net):
    """A table that rows are picked of, and two products of them."""

    def __init__(self) -> None:
        super().__init__()
        self.input("ids", (3,), DType.I64)
        self.data("table", 300, K)
        self.add("x", Gather(0), "table", "ids")
        self.add("a", MatMul(transpose_b=True), "x", self.data("w", N, K), self.data("bias", N))
        self.add("r", Activation("relu"), "a")
        self.add("y", MatMul(), "r", self.data("v", N, K))


def compressed(net: Net, *outputs: str, **options) -> tuple[list[str], list[str]]:
    program = net.program(*outputs)
    CompressWeights().run(program, Context(**options))
    return [n.primitive.kind for n in program], program.notes.get("compress_weights", "").splitlines()


@pytest.mark.parametrize(("weights", "bits"), [("int8", 8), ("int4", 4)])
def test_products_read_records_and_tables_are_bytes_and_the_last_product_has_8_bits(weights, bits) -> None:
    net = Weights()
    floats = {v.name: v.constant for v in net.program("y").constants}
    program = run(net.program("y"), CompressWeights(), context=Context(weights=weights))
    found = {n.name: n for n in program}
    first, last = found["a"], found["y"]
    assert first.primitive == BlockMatMul(N, K, bits, 128, zeros=bits == 4)
    assert last.primitive == BlockMatMul(K, N, 8, 128)
    for node, name, transpose in ((first, "w", True), (last, "v", False)):
        p, held = node.primitive, node.inputs[1].constant
        want = floats[name].T if transpose else floats[name]
        got = p.records.floats(held, p.columns, p.depth)
        # Half a step of a group: of its range by 2^bits - 1 steps, or of twice its largest number by 2^bits - 2.
        steps = np.repeat(
            np.ptp(pad(want, p.block), 1) if p.zeros else 2 * np.abs(pad(want, p.block)).max(1), p.block, 0
        )
        half = steps[: p.depth] / ((1 << p.bits) - 1 - (not p.zeros)) / 2
        assert (np.abs(got - want) <= half * (1 + 2**-20) + 2**-23 * steps[: p.depth]).all()
    rows = found["x"].inputs[0].producer.inputs[0].producer.inputs[0].constant
    assert (rows.dtype, rows.shape) == (np.int8, (300, K))


def pad(matrix, block):
    """Return ``[groups][block][N]`` of a matrix ``[K, N]``, with zeros behind."""
    rest = -len(matrix) % block
    return np.pad(matrix, ((0, rest), (0, 0))).reshape(-1, block, matrix.shape[1])


def test_the_note_has_each_error_and_is_read_again() -> None:
    _, lines = compressed(Weights(), "y", weights="int4")
    found = [Compressed.read(line) for line in lines]
    assert [(c.node, c.bits, c.group) for c in found] == [("x", 8, K), ("a", 4, 128), ("y", 8, 128)]
    assert [str(c) for c in found] == lines
    sizes = [(c.nbytes, c.before) for c in found]
    assert sizes == [
        (300 * K + 300 * 4, 300 * K * 4),
        (4 * 3 * 64 * (64 + 5), N * K * 4),
        (5 * 2 * 64 * 132, N * K * 4),
    ]
    for c in found:
        # Errors are even within half a step: a twelfth of its square on average, and normal numbers reach 4 deviations.
        assert 0 < c.rms < 8 / ((1 << c.bits) - 2) / np.sqrt(12) * 1.1
        assert c.rms < c.product < 2 * c.rms
        assert 0 < c.largest <= 1 / ((1 << c.bits) - 2)


def test_errors_are_those_of_the_floats_that_integers_stand_for() -> None:
    w = np.random.default_rng(1).standard_normal((70, 96)).astype(F)
    w[3] = 0
    for bits, symmetric in ((8, True), (4, False)):
        made = rounded(w, bits, 32, symmetric=symmetric)
        by_group = made.integers.reshape(70, 3, 32).astype(F) - made.zeros[..., None]
        off = (by_group * made.scales[..., None]).reshape(70, 96) - w
        lengths = np.linalg.norm(w.astype(float), axis=1)
        product = (np.linalg.norm(off, axis=1) / np.where(lengths, lengths, 1)).max()
        want = [np.linalg.norm(off) / np.linalg.norm(lengths), np.abs(off).max() / np.abs(w).max(), product]
        np.testing.assert_allclose(made.errors, want, rtol=1e-5)
        transposed = rounded(np.ascontiguousarray(w.T), bits, 32, symmetric=symmetric, transpose=True)
        np.testing.assert_array_equal(made.integers, transposed.integers)


def test_groups_are_whole_where_the_length_allows_it() -> None:
    assert [group_of(depth, 128) for depth in (768, 192, 96, 100, 31)] == [128, 64, 32, 128, 128]


def test_what_others_read_or_the_user_keeps_stays_float() -> None:
    kinds, lines = compressed(Weights(), "y", weights="int8", keep_f32=frozenset({"a"}))
    assert kinds.count("matmul") == 1
    assert "a stays float: a is kept" in lines
    net = Weights()
    net.add("e", Activation("relu"), "w")
    kinds, lines = compressed(net, "y", "e", weights="int8")
    assert kinds.count("matmul") == 1
    assert "a stays float: e reads w as input 0" in lines
    net = Weights()
    net.constant("odd", np.full((K, N), np.inf, F))
    net.add("z", MatMul(), "x", "odd")
    assert "z stays float: odd has numbers that are not finite" in compressed(net, "z", weights="int8")[1]
    with pytest.raises(OptionError, match="no node of the program is called 'nobody'"):
        compressed(Weights(), "y", weights="int8", keep_f32=frozenset({"nobody"}))


def test_convolutions_and_small_products_stay_float_and_nothing_changes_where_nobody_asks() -> None:
    net = Net()
    net.input("i", (1, 256, 8, 8))
    net.conv("c", "i", 256, 256)
    net.input("x", (3, 64))
    net.add("y", MatMul(), "x", net.data("w", 64, 64))
    kinds, lines = compressed(net, "y", "c", weights="int8")
    assert sorted(kinds) == ["convolution", "matmul"]
    assert lines == ["1 convolutions stay float: they read their weights once for many places"]
    assert "block_matmul" not in compressed(Weights(), "y")[0]
