"""The emulator of kernels with PTX: its instructions are those of the PTX manual, and it sees what is planted."""

import re

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.graph.primitive import Array
from clgraph.implementations.matrix_units.nvidia import products
from clgraph.implementations.matrix_units.nvidia.tiles import F16, F16X3, F32, TF32X3, TILES, Tiling
from clgraph.ops.matmul import MatMul
from clgraph.selector.sources import kernel_text
from tests.support.check_op import check_op
from tests.support.combinations import ends_of_each
from tests.support.ptx.compiler import to_ptx, why_no_machine
from tests.support.ptx.emulator import EmulationError, run
from tests.support.ptx.engine import EmulatedEngine

pytestmark = pytest.mark.skipif(why_no_machine() is not None, reason=str(why_no_machine()))

HEAD = f'#line 1 "ptx.clh"\n{kernel_text("ptx.clh")}\n#line 2 "test"\n'


def _run(body, *arrays, local=0, **how):
    """Run *body* as a kernel of one warp on *arrays* of words."""
    parameters = ", ".join(f"__global uint* x{i}" for i in range(len(arrays)))
    memory = f"__local __attribute__((aligned(128))) char memory[{local}];" if local else ""
    start = "const int lane = get_local_id(0);"
    text = f"{HEAD}__kernel void k({parameters}) {{ {memory} {start} {body} }}"
    return run(text, "k", arrays, (32,), (32,), **how)


def _words(array: Array) -> Array:
    return np.ascontiguousarray(array).view(np.uint32).reshape(-1)


# Fragments as "Matrix Fragments for mma.m16n8k16 with floating point type" and ".m16n8k8" of the PTX manual draw them:
# group = lane / 4 and i = lane % 4; for each register its rows and columns.
LANES = np.arange(32)
GROUP, IN_GROUP = LANES // 4, LANES % 4


def test_products_of_halves_are_those_of_the_manual():
    rng = np.random.default_rng(0)
    a, b, c = rng.standard_normal((16, 16)), rng.standard_normal((16, 8)), rng.standard_normal((16, 8))
    a, b, c = a.astype(np.float16), b.astype(np.float16), c.astype(np.float32)
    pairs = IN_GROUP[:, None] * 2 + np.arange(2)
    fragments = [a[GROUP[:, None] + 8 * (r % 2), pairs + 8 * (r // 2)] for r in range(4)]
    fragments += [b[pairs + 8 * r, GROUP[:, None]] for r in range(2)]
    words = np.stack([_words(f) for f in fragments], 1)
    sums = np.stack([c[GROUP + 8 * (i // 2), IN_GROUP * 2 + i % 2] for i in range(4)], 1)
    result = _words(sums)
    _run(
        "uint w[6]; float c[4]; for (int i = 0; i < 6; i++) w[i] = x0[6 * lane + i];"
        "for (int i = 0; i < 4; i++) c[i] = as_float(x1[4 * lane + i]);"
        "MMA_F16(c, w, w[4], w[5]); for (int i = 0; i < 4; i++) x1[4 * lane + i] = as_uint(c[i]);",
        _words(words),
        result,
    )
    want = a.astype(np.float64) @ b.astype(np.float64) + c
    got = np.zeros((16, 8))
    for i in range(4):
        got[GROUP + 8 * (i // 2), IN_GROUP * 2 + i % 2] = result.view(np.float32).reshape(32, 4)[:, i]
    # Truncated once: at most a unit in the last place of float32.
    assert (np.abs(got - want) <= 2.0**-23 * np.abs(want)).all()
    assert (np.abs(got) <= np.abs(want)).all()


def test_products_of_tf32_take_the_upper_19_bits():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((16, 8)).astype(np.float32), rng.standard_normal((8, 8)).astype(np.float32)
    fragments = [a[GROUP + 8 * (r % 2), IN_GROUP + 4 * (r // 2)] for r in range(4)]
    fragments += [b[IN_GROUP + 4 * r, GROUP] for r in range(2)]
    result = np.zeros(128, np.uint32)
    _run(
        "uint w[6]; float c[4] = {0, 0, 0, 0}; for (int i = 0; i < 6; i++) w[i] = x0[6 * lane + i];"
        "MMA_TF32(c, w, w[4], w[5]); for (int i = 0; i < 4; i++) x1[4 * lane + i] = as_uint(c[i]);",
        _words(np.stack(fragments, 1)),
        result,
    )
    short = [(x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64) for x in (a, b)]
    want = short[0] @ short[1]
    for i in range(4):
        got = result.view(np.float32).reshape(32, 4)[:, i]
        exact = want[GROUP + 8 * (i // 2), IN_GROUP * 2 + i % 2]
        assert (np.abs(got - exact) <= 2.0**-23 * np.abs(exact)).all()


def test_products_of_signed_bytes_are_those_of_the_manual():
    # "Matrix Fragments for mma.m16n8k32": four neighbouring k a register, the second half of k in the later ones.
    rng = np.random.default_rng(0)
    a, b = rng.integers(-128, 128, (16, 32), np.int8), rng.integers(-128, 128, (32, 8), np.int8)
    c = rng.integers(-(2**31), 2**31, (16, 8)).astype(np.int32)
    fours = IN_GROUP[:, None] * 4 + np.arange(4)
    fragments = [a[GROUP[:, None] + 8 * (r % 2), fours + 16 * (r // 2)] for r in range(4)]
    fragments += [b[fours + 16 * r, GROUP[:, None]] for r in range(2)]
    result = _words(np.stack([c[GROUP + 8 * (i // 2), IN_GROUP * 2 + i % 2] for i in range(4)], 1))
    _run(
        "uint w[6]; int c[4]; for (int i = 0; i < 6; i++) w[i] = x0[6 * lane + i];"
        "for (int i = 0; i < 4; i++) c[i] = (int)x1[4 * lane + i];"
        "MMA_S8(c, w, w[4], w[5]); for (int i = 0; i < 4; i++) x1[4 * lane + i] = (uint)c[i];",
        _words(np.stack([_words(f) for f in fragments], 1)),
        result,
    )
    # Sums wrap around.
    want = (a.astype(np.int64) @ b.astype(np.int64) + c).astype(np.int32)
    for i in range(4):
        got = result.view(np.int32).reshape(32, 4)[:, i]
        np.testing.assert_array_equal(got, want[GROUP + 8 * (i // 2), IN_GROUP * 2 + i % 2])


@pytest.mark.parametrize("transposed", [False, True])
def test_matrices_are_read_as_in_the_manual(transposed):
    matrices = np.arange(256, dtype=np.uint16).reshape(4, 8, 8)
    result = np.zeros(128, np.uint32)
    name = "LDMATRIX_TRANS" if transposed else "LDMATRIX"
    passes = _run(
        "for (int i = lane; i < 128; i += 32) ((__local uint*)memory)[i] = x0[i]; barrier(CLK_LOCAL_MEM_FENCE);"
        f"uint r[4]; {name}(r[0], r[1], r[2], r[3], SHARED(memory) + 16 * lane);"
        "for (int i = 0; i < 4; i++) x1[4 * lane + i] = r[i];",
        _words(matrices),
        result,
        local=512,
    )
    got = result.view(np.uint16).reshape(32, 4, 2)
    for m in range(4):
        seen = matrices[m].T if transposed else matrices[m]
        np.testing.assert_array_equal(got[:, m], seen[GROUP[:, None], IN_GROUP[:, None] * 2 + np.arange(2)])
    assert passes == 1


def test_rows_in_the_same_banks_take_more_passes():
    body = "uint r[4]; LDMATRIX(r[0], r[1], r[2], r[3], SHARED(memory) + 128 * (lane % 8)); x0[lane] = r[0];"
    assert _run(body, np.zeros(32, np.uint32), local=1024) == 8


@pytest.mark.parametrize(("late", "seen"), [(True, 0xFFFFFFFF), (False, 7)])
def test_copies_land_late_or_early_and_fill_with_zeros(late, seen):
    source, result = np.full(128, 7, np.uint32), np.zeros(96, np.uint32)
    _run(
        "COPY16(SHARED(memory) + 16 * lane, x0 + 4 * lane, lane % 2 ? 0 : 16); COPY_COMMIT();"
        "x1[lane] = ((__local uint*)memory)[4 * lane]; COPY_WAIT(0);"
        "x1[32 + lane] = ((__local uint*)memory)[4 * lane];",
        source,
        result,
        local=512,
        late=late,
    )
    assert result[0] == seen
    np.testing.assert_array_equal(result[32:64], np.where(LANES % 2, 0, 7))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("COPY16(SHARED(memory), x0 + 1, 16); COPY_COMMIT(); COPY_WAIT(0);", "not a multiple of 16"),
        ("COPY16(SHARED(memory), x0 + 64, 16); COPY_COMMIT(); COPY_WAIT(0);", "outside of every tensor"),
        ("COPY16(SHARED(memory), x0, 16); COPY_COMMIT();", "under way at the end"),
        ("COPY16(SHARED(memory) + 512, x0, 16); COPY_COMMIT(); COPY_WAIT(0);", "is outside"),
        ("if (lane < 16) x0[lane] = as_uint(shuffle_xor(1.0f, 1));", "16 of 32 lanes"),
        ("if (lane < 16) barrier(CLK_LOCAL_MEM_FENCE);", "are at a barrier"),
        ("uint r[4]; LDMATRIX(r[0], r[1], r[2], r[3], SHARED(memory) + 4); x0[0] = r[0];", "not a multiple of 16"),
        ("x0[0] = SHARED(x0);", "not in local memory"),
    ],
)
def test_what_no_gpu_allows_ends_the_run(body, message):
    with pytest.raises(EmulationError, match=message):
        _run(body, np.zeros(64, np.uint32), local=512)


FAULTS = {
    "no barrier before a stage is read": (r"(COPY_WAIT\(WAITING\);[\s\\]*)barrier\(CLK_LOCAL_MEM_FENCE\);", r"\1"),
    "a wait that leaves one group too many": (r"COPY_WAIT\(WAITING\)", "COPY_WAIT(WAITING + 1)"),
    "a stage that is read too late": (r"from = from == STAGES - 1", "from = from == STAGES - 2"),
    "a stage that is filled too early": (r"to = STAGES - 1;", "to = STAGES - 2;"),
    "another exchange of chunks when reading": (r"PLACE\(row, lane >> 4\)", "PLACE(row, 1 - (lane >> 4))"),
    "another order of the rows of b": (r"\(lane & 7\) \+ \(lane >> 4\) \* 8", "(lane & 7) + ((lane >> 3) & 1) * 8"),
    "no barrier before a slab is read": (r"(tile_lay_down\(sums, slab, warp, lane\);[\s\\]*)barrier\(\w+\);", r"\1"),
    "no barrier before a slab is written": (r"barrier\(CLK_LOCAL_MEM_FENCE\);([\s\\]*\}[\s\\]*\} while \(0\))", r"\1"),
    "no barrier behind the last step": (r"barrier\(CLK_LOCAL_MEM_FENCE\);[\s\\]*\} while \(0\)", "} while (0)"),
    "terms beyond the last are copied": (r"unit < units \? (\w+) : 0", r"\1"),
    "a chunk that is copied to another row": (r"DOWN\(i \* TILE_STRIDE\)", "DOWN(i * (TILE_STRIDE - 1))"),
    "a wait for fewer copies than there are": (r"COPY_WAIT\(WAITING\);", ""),
    "columns that change places": (r"to \+ 8 \* j\) = \(tile_sum2\)\(sums\[0\]\[j\]\[0\], sums\[0\]\[j\]\[1\]\)",
                                   "to + 8 * j) = (tile_sum2)(sums[0][j][1], sums[0][j][0])"),
}  # fmt: skip


def _is_right(engine):
    # 130 rows and 50 chunks of k: tails of a tile, and of a step of eight chunks; the last lies where slabs go.
    scale = lambda a, b: MatMul(transpose_b=True).reference(np.abs(a), np.abs(b))[0]  # noqa: E731
    args = MatMul(transpose_b=True), (130, 400), (72, 400)
    check_op(engine, *args, ulps=401, scale=scale, dtype=DType.F16, families=["normal"], only=["matmul.nvidia_f16"])


@pytest.mark.opencl
@pytest.mark.parametrize("fault", [None, *FAULTS])
@pytest.mark.usefixtures("own_classes")
def test_planted_faults_are_found(fault, nvidia_engine, monkeypatch):
    if not isinstance(nvidia_engine, EmulatedEngine):
        pytest.skip("faults are planted where a hang does no harm")
    tile = next(t for t in TILES if t.unit == "nvidia.f16.64x64")
    monkeypatch.setattr(products, "best_tiling", lambda *_: Tiling(tile, 1, 1e-6))
    if fault is not None:
        pattern, instead = FAULTS[fault]
        changed = lambda text: re.sub(pattern, instead, text)  # noqa: E731
        text = kernel_text("matmul/matmul_nvidia.cl")
        assert changed(text) != text
        monkeypatch.setattr(nvidia_engine, "change", changed)
    found = []
    for late, seed in ((True, 1), (False, 2), (True, 3), (False, 4)):
        monkeypatch.setattr(nvidia_engine, "late", late)
        monkeypatch.setattr(nvidia_engine, "seed", seed)
        try:
            _is_right(nvidia_engine)
        except (EmulationError, AssertionError) as error:
            found.append(error)
            break
    assert bool(found) == (fault is not None)


# Halves alone are read by row.
@pytest.mark.parametrize(
    ("tile", "by_row"),
    ends_of_each(
        [*((t, False) for t in TILES), *((t, True) for t in TILES if t.product == F16)],
        lambda row: (row[0].product, row[1]),
    ),
)
def test_products_stay_in_registers_where_clang_makes_ptx_of_them(tile, by_row):
    jit = tile.jit(DType.F16 if tile.product == F16 else DType.F32, 3).define(B_BY_ROW=by_row)
    ptx = to_ptx(f"{jit}{kernel_text('matmul/matmul_nvidia.cl')}", "sm_80")
    body = ptx[ptx.index(".entry matmul_nvidia") :]
    # What an index that is not a constant would put into memory.
    assert "__local_depot" not in body
    each = {F16: 1, TF32X3: 3, F32: 0, F16X3: 1.5}[tile.product]
    products = tile.warp_sizes[0] // 16 * (tile.warp_sizes[1] // 8) * (tile.chunks // 2)
    assert body.count("mma.sync") == each * products
    assert body.count("cp.async.cg") >= 2
