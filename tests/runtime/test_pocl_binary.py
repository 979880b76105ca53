import struct
from importlib import import_module

import pytest

from clgraph.runtime import pocl_binary
from clgraph.runtime.device import find_device
from clgraph.runtime.engine import Engine
from clgraph.selector.executor_kernel import ENTRY
from clgraph.selector.library import compose

ABOUT = b"name, parameters"
HEAD = struct.pack("<8sQIIQ41s", b"poclbin\0", 77, 8, 1, 5, b"AB/CD")


def file(name, content):
    return struct.pack("<I", len(name)) + name + struct.pack("<I", len(content)) + content


def kernel(files):
    return struct.pack("<QQ", 16 + len(ABOUT) + len(files), len(files)) + ABOUT + files


EMPTY = HEAD + file(b"/program.bc", b"BC\xc0\xde") + kernel(file(b"/k/0-0-0/k.so", b"any size"))


@pytest.fixture
def code(tmp_path):
    path = tmp_path / "k" / "1-1-1" / "k.so"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"machine code")
    return path


def test_a_binary_holds_the_code_that_was_given_and_no_bitcode(code):
    made = pocl_binary.binary_of(code, EMPTY)
    assert made[:32] == HEAD[:32]
    assert made[73:] == file(b"/clgraph", b"no bitcode") + kernel(file(b"/k/1-1-1/k.so", b"machine code"))


def test_other_code_has_another_folder_in_the_cache(code):
    made = pocl_binary.binary_of(code, EMPTY)
    code.write_bytes(b"machine core")
    other = pocl_binary.binary_of(code, EMPTY)
    folder, second = made[32:73], other[32:73]
    assert folder != second
    assert folder[2:3] == b"/"
    assert folder.index(b"\0") == 40
    assert set(folder[:2] + folder[3:40]) <= set(b"ABCDEFGHIJKLMNOP")


def test_the_place_of_a_binary_in_the_cache_is_told_by_itself(code):
    assert pocl_binary.place_of(EMPTY) == "AB/CD"
    made = pocl_binary.binary_of(code, EMPTY)
    assert pocl_binary.place_of(made) == made[32:72].decode()
    later = struct.pack("<8sQIIQ41s", b"poclbin\0", 77, 9, 1, 5, b"AB/CD")
    assert [pocl_binary.place_of(other) for other in (b"", b"ELF" + EMPTY[3:], later)] == [None] * 3


@pytest.mark.parametrize(
    "foreign",
    [
        b"",
        EMPTY[:90],
        EMPTY[:-1],
        EMPTY + b"\0",
        b"ELF" + EMPTY[3:],
        EMPTY[:16] + struct.pack("<I", 9) + EMPTY[20:],
        EMPTY[:20] + struct.pack("<I", 2) + EMPTY[24:],
    ],
)
def test_nothing_is_made_of_a_format_that_is_not_known(code, foreign):
    assert pocl_binary.binary_of(code, foreign) is None


def test_an_empty_kernel_keeps_attributes_and_parameters():
    attribute, head = (
        "__attribute__((reqd_work_group_size(1, 1, 1)))\n",
        "__kernel void f(__global char* a,\n  const int b)",
    )
    text = f"int g(int x) {{ return x; }}\n{attribute}{head} {{\n  a[b] = 1;\n}}\n"
    assert pocl_binary.empty_kernel(text, "f") == f"{attribute}{head} {{}}\n"


@pytest.mark.opencl
def test_pocl_keeps_the_code_of_a_library_that_has_run(engine):
    if not engine.info.name.startswith("pocl"):
        pytest.skip("the binaries of other drivers are kept as they are")
    import_module("clgraph.ops")
    core_library = compose("core", engine.info.simd)
    engine.build(core_library.text, "the core library", library=True)
    again = Engine(find_device(engine.info.name))
    assert not again.build(core_library.text, "the core library", library=True)
    kept = again.programs._cache.read(again.programs._key(core_library.text, True))
    assert kept is not None
    assert f"/{ENTRY}.so".encode() in kept
    assert b"BC\xc0\xde" not in kept
