import ctypes
import struct

import pytest

from clgraph.errors import DeviceError
from clgraph.runtime import pocl
from clgraph.runtime.pocl import ISAS, LIBRARY_SHA256, host_isa, needs_overlay, overlay, patch, refusal, sha256_of

AVX512, AVX2, SSE2 = ISAS
ZEN5 = frozenset(
    ["sse2", "avx2", "fma", "bmi2", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd", "avx512_bf16"]
)
STRUCT, NAME = 0x10000, 0x20000


class FakeMemory:
    """Pages of bytes by address; everything else is unmapped."""

    def __init__(self, name=b"generic\0", pointer=NAME):
        self.bytes = {STRUCT: bytearray(4096), NAME: bytearray(name.ljust(64, b"x"))}
        self.bytes[STRUCT][640:648] = struct.pack("<Q", pointer)

    def _page(self, address, count):
        for start, page in self.bytes.items():
            if start <= address and address + count <= start + len(page):
                return page, address - start
        raise OSError("Input/output error")

    def read(self, address, count):
        page, at = self._page(address, count)
        return bytes(page[at : at + count])

    def write(self, address, data):
        page, at = self._page(address, len(data))
        page[at : at + len(data)] = data

    @property
    def pointer(self):
        return struct.unpack("<Q", self.read(STRUCT + 640, 8))[0]


@pytest.fixture(autouse=True)
def _no_patches():
    saved = dict(pocl._KEPT)
    pocl._KEPT.clear()
    yield
    pocl._KEPT.clear()
    pocl._KEPT.update(saved)


@pytest.mark.parametrize(
    ("flags", "isa"),
    [
        (ZEN5, AVX512),
        (ZEN5 - {"avx512cd"}, AVX2),
        ({"avx2", "fma", "bmi2"}, AVX2),
        ({"avx2", "fma"}, SSE2),
        (set(), SSE2),
    ],
)
def test_the_instruction_set_is_the_widest_whose_flags_are_all_there(flags, isa):
    assert host_isa(flags) is isa


def test_only_the_known_binary_of_pocl_3_0_is_patched():
    assert refusal("OpenCL 3.0 PoCL 3.0-rc2  Linux", LIBRARY_SHA256, AVX512, ZEN5) is None
    assert "is not PoCL 3.0" in refusal("OpenCL 3.0 PoCL 3.1", LIBRARY_SHA256, AVX512, ZEN5)
    assert "not the one" in refusal("OpenCL 3.0 PoCL 3.0-rc2", "00" * 32, AVX512, ZEN5)
    assert "not the one" in refusal("OpenCL 3.0 PoCL 3.0-rc2", None, AVX512, ZEN5)


def test_an_instruction_set_that_the_cpu_lacks_is_refused():
    why = refusal("OpenCL 3.0 PoCL 3.0-rc2", LIBRARY_SHA256, AVX512, AVX2.flags)
    assert why == "the CPU has no avx512bw, avx512cd, avx512dq, avx512f, avx512vl"
    assert refusal("OpenCL 3.0 PoCL 3.0-rc2", LIBRARY_SHA256, AVX2, AVX2.flags) is None


@pytest.mark.parametrize("reported", ["generic", "znver3", "goldmont", "skylake-avx512"])
def test_whatever_llvm_calls_the_cpu_it_gets_the_name_of_its_instruction_set(reported):
    memory = FakeMemory(reported.encode() + b"\0")
    patch(memory, STRUCT, reported, AVX512)
    assert memory.pointer != NAME
    assert ctypes.string_at(memory.pointer) == b"skylake-avx512"
    again = memory.pointer
    patch(memory, STRUCT, reported, AVX512)
    assert memory.pointer == again


@pytest.mark.parametrize(
    "memory",
    [FakeMemory(b"znver3\0"), FakeMemory(b"generic-rv64\0"), FakeMemory(pointer=0x30000), FakeMemory(pointer=2**63)],
    ids=["another name", "a longer name", "a wild pointer", "no address"],
)
def test_a_struct_that_does_not_look_as_known_is_not_touched(memory):
    before = memory.pointer
    with pytest.raises(DeviceError):
        patch(memory, STRUCT, "generic", AVX512)
    assert memory.pointer == before


def test_unmapped_memory_is_an_oserror_and_no_crash():
    with pytest.raises(OSError, match="error"):
        pocl.ProcessMemory().read(0x10, 8)


def test_another_instruction_set_than_the_hosts_needs_another_built_in_library():
    assert not needs_overlay(AVX512, ZEN5)
    assert needs_overlay(AVX2, ZEN5)
    assert needs_overlay(SSE2, frozenset())


def test_in_the_folder_of_links_every_built_in_library_is_the_wanted_one(tmp_path):
    library = tmp_path / "site" / "pyopencl" / ".libs" / "libpocl-1.so"
    share = tmp_path / "site" / "pocl_binary_distribution" / ".libs" / "share" / "pocl"
    for path in (library, share / "include" / "pocl.h", *(share / f"kernel-x86_64-{i}.bc" for i in ("avx512", "avx2"))):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(path.name)
    for _ in range(2):
        home = overlay(tmp_path / "links", library, AVX2)
    made = tmp_path / "links" / "pocl_binary_distribution" / ".libs" / "share" / "pocl"
    assert (made / "kernel-x86_64-avx512.bc").read_text() == "kernel-x86_64-avx2.bc"
    assert (made / "kernel-x86_64-avx2.bc").read_text() == "kernel-x86_64-avx2.bc"
    assert (made / "include" / "pocl.h").read_text() == "pocl.h"
    named = (home / ".libs" / "pocl.icd").read_text().strip()
    assert named == str(tmp_path / "links" / "pyopencl" / ".libs" / "libpocl-1.so")


def test_the_checksum_is_remembered_until_the_file_changes(tmp_path):
    library = tmp_path / "lib.so"
    library.write_bytes(b"one")
    first = sha256_of(library, tmp_path / "stamps")
    assert sha256_of(library, tmp_path / "stamps") == first
    library.write_bytes(b"other")
    assert sha256_of(library, tmp_path / "stamps") != first
    for stamp in (tmp_path / "stamps").iterdir():
        stamp.write_text("not a checksum")
    assert sha256_of(library, tmp_path / "stamps") != first
    assert sha256_of(library, tmp_path / "lib.so") != first, "a folder that cannot be made costs time, nothing else"
