"""Rules for the kernel files: each compiles alone, says what it is, and is used."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

import pytest

from clgraph.selector.descriptor import DESCRIPTORS
from clgraph.selector.executor_kernel import EXECUTOR
from clgraph.selector.library import tile_text
from clgraph.selector.micro_kernels import FAMILIES
from clgraph.selector.sources import includes, kernel_files, kernel_text
from tests.support.ptx.compiler import to_amdgcn, to_ptx, why_not
from tests.support.quick_engine import QuickEngine

FOLDER = Path(__file__).parents[2] / "cl_kernels"
FILES = [name for folder, name in kernel_files() if folder == FOLDER]
HEADERS = sorted(p.relative_to(FOLDER).as_posix() for p in FOLDER.rglob("*.clh"))
TILES = {name for name in FILES if PurePosixPath(name).stem in DESCRIPTORS}
MICROS = {m.file for family in FAMILIES.values() for instances in family.instances.values() for m in instances}


def read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def kernels(text: str) -> list[str]:
    return re.findall(r"__kernel\b[^;{]*?\bvoid\s+(\w+)\s*\(", text)


def deepest_conditional(text: str) -> int:
    """Return how deep #if stands in #if, without the defaults of macros (an #ifndef with nothing but its #define)."""
    text = re.sub(r"#\s*ifndef (\w+)\n(?:\s*#\s*define \1\b.*\n)(?:\s*#\s*define .*\n)*#\s*endif", "", text)
    depth = deepest = 0
    for line in text.splitlines():
        if re.match(r"\s*#\s*if", line):
            depth += 1
            deepest = max(deepest, depth)
        elif re.match(r"\s*#\s*endif", line):
            depth -= 1
    return deepest


def test_built_in_functions_of_compilers_stand_behind_a_feature():
    """``__has_builtin`` says what the front end takes, not what a driver makes code of."""
    for name in (*FILES, *HEADERS):
        inside, lines = [], re.sub(r"//.*", "", read(name)).splitlines()
        for line in lines:
            if match := re.match(r"\s*#\s*(if|el|endif)(.*)", line):
                inside = inside if match[1] == "if" else inside[:-1]
                inside += [match[2]] * (match[1] != "endif")
            elif "__builtin_" in line and name != "include/amd_matrix.clh":
                declared = r"(if)?(def | defined\()CLGRAPH_"
                assert any(re.match(declared, condition) for condition in inside), f"{name}: {line}"
        assert "__has_builtin" not in "\n".join(lines), name


def test_bounds_of_vectors_of_integers_are_vectors():
    """Oclgrind, which runs what GPUs may be given, takes a scalar for the first element only."""
    for name in (*FILES, *HEADERS):
        for call in re.finditer(r"\b(?:clamp|min|max)\((\(u?(?:char|short|int|long)\d+\))\([^;]*;", read(name)):
            assert f", {call[1]}" in re.sub(r"\s+", " ", call[0]), f"{name}: {call[0]}"


@pytest.fixture(scope="module")
def compiler(engine):
    """Return an engine whose compiler does not optimise, PoCL's, since what it refuses does not depend on that."""
    return QuickEngine(engine.device) if engine.info.name.startswith("pocl") else engine


@pytest.mark.opencl
@pytest.mark.parametrize("name", FILES)
def test_a_file_compiles_alone_with_its_defaults(name, engine, compiler):
    stem = PurePosixPath(name).stem
    text = tile_text(stem, engine.info.simd) if name in TILES else kernel_text(name)
    if name in TILES | MICROS and engine.info.kind != "cpu":
        pytest.skip("written for CPUs")
    if "ptx.clh" in includes(name) and "nvidia_ptx" not in engine.info.features:
        if reason := why_not():
            pytest.skip(reason)
        assert "mma.sync" in to_ptx(text, "sm_80")
        return
    if "amd_matrix.clh" in includes(name) and "amd_matrix" not in engine.info.features:
        if reason := why_not():
            pytest.skip(reason)
        assert "v_wmma_f32_16x16x16_f16" in to_amdgcn(text, "gfx1100")
        return
    if "intel_matrix.clh" in includes(name) and "intel_dpas" not in engine.info.features:
        pytest.skip("needs Intel's compiler: tests/implementations/matrix_units/test_intel_compiler.py")
    needed = name.rpartition("_")[2].removesuffix(".cl")
    if needed in ("vnni", "pairs", "bf16") and {"pairs": "byte_pairs"}.get(needed, needed) not in engine.info.features:
        pytest.skip("inline assembly of AVX-512 VNNI")
    compiler.build(text, name)


def test_a_file_holds_one_kernel_or_function_of_its_own_name():
    for name in FILES:
        stem, text = PurePosixPath(name).stem, read(name)
        if name in TILES | MICROS:
            result = "void" if name in TILES else "(void|int)"
            assert re.search(rf"\bstatic {result} {stem}\(", text), f"{name} has no function {stem}"
            assert kernels(text) in ([], [f"{stem}_alone"]), name
        else:
            assert kernels(text) == [stem], name


def test_a_file_begins_with_what_it_is():
    for name in (*FILES, *HEADERS):
        first = read(name).splitlines()[0]
        assert first.startswith("// "), name
        assert len(first) > 20, name


def test_a_general_kernel_states_grid_and_error():
    for name in FILES:
        if name.endswith(("_ref.cl", "_tiled.cl")):
            header = "".join(line for line in read(name).splitlines() if line.startswith("//"))
            assert "Grid: " in header, name
            assert "table: " in header or "table as of" in header, name


def test_conditionals_are_not_nested():
    assert [name for name in (*FILES, *HEADERS) if deepest_conditional(read(name)) > 1] == []


def test_a_file_is_used():
    sources = _sources()
    for name in FILES:
        named = name.removesuffix(".cl")
        stem = PurePosixPath(name).stem
        assert name in TILES | MICROS | {EXECUTOR} or f'"{named}' in sources or f'"{stem}"' in sources, (
            f"no implementation, library or family names {name}"
        )


def test_a_header_is_included():
    texts, sources = {name: read(name) for name in (*FILES, *HEADERS)}, _sources()
    for name in HEADERS:
        include = PurePosixPath(name).name
        others = (text for other, text in texts.items() if other != name)
        assert any(f'#include "{include}"' in text for text in others) or f'"{include}"' in sources, name


def _sources() -> str:
    """Return the text of all of clgraph's modules."""
    return "".join(p.read_text(encoding="utf-8") for p in (FOLDER.parent / "clgraph").rglob("*.py"))
