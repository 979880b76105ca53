"""Kernels through the compilers of GPUs that are not there: what they refuse, and what they spill. Nothing is run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path, PurePosixPath

import pytest

from clgraph.core.dtype import DType
from clgraph.implementations.gpu.vectors import vector_jit
from clgraph.implementations.matrix_units.nvidia.tiles import F16, TILES, PtxTile
from clgraph.selector.jit import Jit
from clgraph.selector.sources import kernel_files, kernel_text
from tests.support.ptx.compiler import why_not
from tools.gpu_compilers.nvidia import MULTIPROCESSORS, assemble, main_loop, why_not_assembled
from tools.gpu_compilers.problems import texts_for
from tools.gpu_compilers.profiles import PROFILES
from tools.gpu_compilers.report import Compiled, refusals, row
from tools.gpu_compilers.table import changes, read, rows_of, write
from tools.gpu_compilers.texts import Text, distinct

NVIDIA = [name for name, profile in PROFILES.items() if profile.compiler == "nvidia"]
WITH_PTX = sorted(n for _, n in kernel_files() if '#line 1 "ptx.clh"' in kernel_text(n))
assembled = pytest.mark.skipif(why_not_assembled("sm_90") is not None, reason=str(why_not_assembled("sm_90")))

HOT = [t for t in TILES if t.product == F16 or t.unit == "nvidia.f32.128x128"]
"""Tiles of what networks mostly compute."""


def tile_text(tile: PtxTile, source: str, rank: int) -> Text:
    jit = tile.jit(DType.F16 if tile.product == F16 else DType.F32, rank)
    return Text(source, jit, f"{jit}{kernel_text(source)}", (tile.items, 1, 1))


def spills_nothing(made: Compiled) -> None:
    """Assert that nothing is spilled, and that the main loop is one that never reads private memory."""
    assert made.error == ""
    assert made.spilled == (0, 0), f"{made.text.variant}: {made.spilled} bytes spilled of {made.registers} registers"
    assert not {"LDL", "STL"} & (made.loop or {}).keys()


LOADS = {"convolution_nvidia": 3, "matmul_nvidia": 0}
"""Loads to registers in the main loop: of the place of the next tap. Sizes and pitches are not to be read there."""


@assembled
@pytest.mark.parametrize("name", WITH_PTX)
def test_a_kernel_with_ptx_spills_nothing_with_its_defaults(name: str) -> None:
    stem = PurePosixPath(name).stem
    made = assemble(Text(stem, Jit(), kernel_text(name), (128, 1, 1)), "sm_90")
    spills_nothing(made)
    assert 0 < made.registers <= 255
    assert made.local <= 48 << 10
    if made.loop and stem in LOADS:
        assert made.loop["HMMA"] == 64
        assert made.loop["LDSM"] == 16
        assert made.loop["LDG"] <= LOADS[stem]


def attention(depth: int, keys: int, tiles: int, architecture: str) -> Compiled:
    jit = vector_jit(DType.F16, 4).define(DEPTH=depth, WIDTH=depth, KEYS=keys, TILES=tiles)
    source = "attention/attention_nvidia.cl"
    return assemble(Text(source, jit, f"{jit}{kernel_text(source)}", (128, 1, 1)), architecture)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["sm_80", "sm_86", "sm_90"])
def test_hot_kernels_spill_nothing(architecture: str) -> None:
    if reason := why_not_assembled(architecture):
        pytest.skip(reason)
    for tile in HOT:
        for source in ("convolution/convolution_nvidia.cl", "matmul/matmul_nvidia.cl"):
            spills_nothing(assemble(tile_text(tile, source, 5), architecture))
    for depth, keys, tiles in ((64, 64, 2), (64, 64, 1), (128, 32, 1)):
        spills_nothing(attention(depth, keys, tiles, architecture))


@pytest.mark.slow
@pytest.mark.parametrize("profile", list(PROFILES))
def test_every_kernel_that_a_gpu_may_be_given_is_compiled(profile: str) -> None:
    device = PROFILES[profile]
    if reason := device.why_not():
        pytest.skip(reason)
    texts = distinct(texts_for(device.info))
    assert len(texts) > 100
    refused = [m for m in map(device.compile, texts) if m.error]
    assert not refused, refusals(refused)


@pytest.mark.slow
@pytest.mark.parametrize("profile", list(PROFILES))
def test_what_compilers_make_of_the_kernels_is_what_the_table_has(profile: str) -> None:
    device = PROFILES[profile]
    if reason := device.why_not():
        pytest.skip(reason)
    before = {key: kept for key, kept in read().items() if key[0] == profile}
    assert before, f"the table has no kernel of {profile}: tools/compile_gpu {profile} --write"
    if others := {kept["compiler"] for kept in before.values()} - {device.version()}:
        pytest.skip(f"the table is of {', '.join(others)}, this compiler is {device.version()}")
    made = [device.compile(text) for text in distinct(texts_for(device.info, chosen=True))]
    found = changes(before, rows_of(profile, device.version(), made))
    assert not found, "tools/compile_gpu --write takes over what is wanted:\n" + "\n".join(found)


def test_the_table_says_what_has_changed(tmp_path: Path) -> None:
    text = Text("kernel", Jit((("T", "half"),)), "")
    table = tmp_path / "table.csv"
    write(rows_of("h200", "one 1.0", [Compiled(text, 40, (8, 4), 16, 1024, 8, 64)]), table)
    before = read(table)
    assert changes(before, before) == []
    after = rows_of("h200", "one 1.0", [Compiled(text, 48, (0, 0), 16, 1024, 8, 64, error="no\nsuch")])
    assert changes(before, after) == [
        "h200 kernel T=half: registers 40 -> 48, stored 8 -> 0, loaded 4 -> 0, error none -> no"
    ]
    assert changes(before, {}) == ["h200 kernel T=half: gone"]
    assert changes({}, after) == ["h200 kernel T=half: new"]


def test_the_table_leaves_out_general_kernels_that_are_fine_and_what_nobody_launches() -> None:
    general, other = Text("add_ref", Jit(), ""), Text("add_gpu", Jit(), "", chosen=False)
    assert rows_of("h200", "", [Compiled(general, 40), Compiled(other, 40, (8, 8))]) == {}
    assert len(rows_of("h200", "", [Compiled(general, 40, (8, 8))])) == 1
    assert len(rows_of("h200", "", [Compiled(general, error="refused")])) == 1


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
@pytest.mark.parametrize(("profile", "name"), [("mi250", "matmul"), ("rx7900", "convolution")])
def test_sums_of_the_largest_tiles_of_vectors_are_in_registers_of_amd(profile: str, name: str) -> None:
    source, jit = f"{name}/{name}_gpu_vectors.cl", Jit().define(ROWS=2, COLUMNS=2)
    made = PROFILES[profile].compile(Text(source, jit, f"{jit}{kernel_text(source)}", (16, 16, 1)))
    assert made.error == ""
    assert (made.stack, made.spilled) == (0, (0, 0))
    assert made.registers > 64
    assert made.local >= 8192
    assert 0 < made.waves <= made.of


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
@pytest.mark.parametrize("profile", ["mi250", "rx7900"])
def test_attention_leaves_an_amd_gpu_registers_for_several_waves(profile: str) -> None:
    name = "attention/attention_gpu_tiled.cl"
    made = PROFILES[profile].compile(Text(name, Jit(), kernel_text(name), (16, 16, 1)))
    assert made.error == ""
    assert made.spilled == (0, 0)
    assert made.registers <= 128


@pytest.mark.parametrize("profile", NVIDIA)
def test_the_products_of_a_gpu_need_what_it_has(profile: str) -> None:
    device = PROFILES[profile]
    names = {t.name for t in texts_for(device.info, "gemm_256_weights", chosen=True)}
    assert ("matmul_nvidia" in names) == ("sm75" in device.info.features)


def test_occupancy_is_what_nvidias_tables_say() -> None:
    # Of an H100: 65536 registers, 228 KiB of which a group takes one more than it asks for.
    sm = MULTIPROCESSORS["sm_90"]
    assert sm.groups_of(256, 32, 0) == 8
    assert sm.groups_of(256, 255, 0) == 1
    assert sm.groups_of(128, 168, 0) == 3
    assert sm.groups_of(128, 128, 48 << 10) == 4
    assert sm.groups_of(32, 16, 0) == 32
    assert MULTIPROCESSORS["sm_75"].groups_of(128, 64, 48 << 10) == 1


def test_the_main_loop_is_where_most_instructions_are_products() -> None:
    lines = [".L_x_0:", *["FFMA R1, R1, R2, R3 ;"] * 4, "LDS.128 R4, [R5] ;", "@P0 BRA `(.L_x_0) ;"]
    lines += [".L_x_1:", *["FFMA R1, R1, R2, R3 ;"] * 6, *["IADD3 R1, R1, R2, RZ ;"] * 9, "BRA `(.L_x_1) ;"]
    assert main_loop(lines) == {"FFMA": 4, "LDS.128": 1, "BRA": 1}
    assert main_loop(["HMMA.16816.F32 R1, R2, R3, R4 ;", *lines]) == {}


def test_a_table_shows_what_is_refused_below_it() -> None:
    text = Text("kernel", Jit((("T", "half"), ("LOAD(p, i)", "vload_half(i, p)"))), "")
    refused, made = Compiled(text, error="no such thing"), Compiled(text, 40, (8, 4), 16, 1024, 8, 64)
    assert row(made) == "| kernel | T=half | yes | 40 | 8/4 | 16 | 1024 | 8/64 |  |"
    assert "| refused |" in row(refused)
    assert refusals([refused, made]) == "\nkernel T=half is refused:\nno such thing"


def test_a_loop_that_nothing_read_is_no_change_of_the_table(tmp_path: Path) -> None:
    text = Text("kernel", Jit((("T", "half"),)), "")
    loop = Counter({"FFMA": 16, "LDS": 2})
    known, unread, none = (
        rows_of("h200", "ptxas 13", [Compiled(text, 40, loop=found)]) for found in (loop, None, Counter[str]())
    )
    write(unread, tmp_path / "table.csv")
    assert read(tmp_path / "table.csv") == unread
    assert changes(known, unread) == changes(unread, known) == []
    assert changes(known, none) == ["h200 kernel T=half: loop 18 -> 0, products 16 -> 0"]
