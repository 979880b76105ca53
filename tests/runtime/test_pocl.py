import ctypes
import os
import shutil
import struct

import pytest

from clgraph.errors import DeviceError
from clgraph.runtime import pocl
from clgraph.runtime.instruction_sets import instruction_sets
from clgraph.runtime.pocl import natural_library, overlay, patch, reported_cpu

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


@pytest.mark.parametrize("record", instruction_sets(), ids=lambda record: record.name)
def test_the_library_that_pocl_takes_by_itself_is_the_records_on_a_cpu_with_no_more_than_its_flags(record):
    if record.machine == "x86_64":
        assert natural_library(record.flags) == record.built_in


@pytest.mark.parametrize("reported", ["generic", "znver3", "goldmont", "skylake-avx512", "icelake-server", "k8-sse3"])
def test_whatever_llvm_calls_the_cpu_it_gets_the_name_of_its_instruction_set(reported):
    memory = FakeMemory(reported.encode() + b"\0")
    found = reported_cpu(f"OpenCL 3.0 PoCL HSTR: pthread-x86_64-unknown-linux-gnu-{reported}")
    patch(memory, STRUCT, found, "skylake-avx512")
    assert memory.pointer != NAME
    assert ctypes.string_at(memory.pointer) == b"skylake-avx512"
    again = memory.pointer
    patch(memory, STRUCT, reported, "skylake-avx512")
    assert memory.pointer == again


@pytest.mark.parametrize(
    "memory",
    [FakeMemory(b"znver3\0"), FakeMemory(b"generic-rv64\0"), FakeMemory(pointer=0x30000), FakeMemory(pointer=2**63)],
    ids=["another name", "a longer name", "a wild pointer", "no address"],
)
def test_a_struct_that_does_not_look_as_known_is_not_touched(memory):
    before = memory.pointer
    with pytest.raises(DeviceError):
        patch(memory, STRUCT, "generic", "skylake-avx512")
    assert memory.pointer == before


def test_unmapped_memory_is_an_oserror_and_no_crash():
    with pytest.raises(OSError, match="error"):
        pocl.ProcessMemory().read(0x10, 8)


@pytest.mark.parametrize("letters", ["cache", "cach\udce9"], ids=["letters", "bytes of a foreign encoding"])
def test_in_the_folder_of_links_every_built_in_library_is_the_wanted_one(tmp_path, letters):
    tmp_path /= letters
    library = tmp_path / "site" / "pyopencl" / ".libs" / "libpocl-1.so"
    share = tmp_path / "site" / "pocl_binary_distribution" / ".libs" / "share" / "pocl"
    for path in (library, share / "include" / "pocl.h", *(share / f"kernel-x86_64-{i}.bc" for i in ("avx512", "avx2"))):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(path.name)
    for _ in range(2):
        home = overlay(tmp_path / "links", library, "avx2")
    made = home.parent / "pocl_binary_distribution" / ".libs" / "share" / "pocl"
    assert (made / "kernel-x86_64-avx512.bc").read_text() == "kernel-x86_64-avx2.bc"
    assert (made / "kernel-x86_64-avx2.bc").read_text() == "kernel-x86_64-avx2.bc"
    assert (made / "include" / "pocl.h").read_text() == "pocl.h"
    named = os.fsdecode((home / ".libs" / "pocl.icd").read_bytes().strip())
    assert named == str(home / ".libs" / "libpocl-1.so")
    assert home.is_relative_to(tmp_path / "links")
    other = tmp_path / "other" / "pyopencl" / ".libs" / "libpocl-1.so"
    other.parent.mkdir(parents=True)
    (tmp_path / "other" / "pocl_binary_distribution").symlink_to(tmp_path / "site" / "pocl_binary_distribution")
    assert overlay(tmp_path / "links", other, "avx2") != home, "another environment with the same cache"


def test_a_copy_of_the_cache_that_has_followed_links_is_taken(tmp_path):
    library = tmp_path / "site" / "pyopencl" / ".libs" / "libpocl-1.so"
    share = tmp_path / "site" / "pocl_binary_distribution" / ".libs" / "share" / "pocl"
    names = "include/pocl.h", "licenses/POCL.COPYING", "kernel-x86_64-avx512.bc", "kernel-x86_64-avx2.bc"
    for path in (library, *(share / name for name in names)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(path.name)
    overlay(tmp_path / "links", library, "avx2")
    shutil.copytree(tmp_path / "links", tmp_path / "copy")
    home = overlay(tmp_path / "copy", library, "avx512")
    made = home.parent / "pocl_binary_distribution" / ".libs" / "share" / "pocl"
    assert (made / "kernel-x86_64-avx2.bc").read_text() == "kernel-x86_64-avx512.bc"
    assert (made / "include" / "pocl.h").read_text() == "pocl.h"
