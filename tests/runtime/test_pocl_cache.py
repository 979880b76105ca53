import atexit
import os
import shutil
import struct
import time

import pytest

from clgraph.runtime import binaries, driver, pocl_cache
from clgraph.runtime.pocl_cache import BINARIES, INDEX, SEAL, check, copy_kernels, seal, sweep


def elf(size=4096):
    header = bytearray(64)
    header[:4] = b"\x7fELF"
    header[40:48] = struct.pack("<Q", size - 64)
    header[58:62] = struct.pack("<HH", 64, 1)
    return bytes(header).ljust(size, b"\1")


@pytest.fixture
def program(tmp_path):
    folder = tmp_path / "AB" / "CDEF"
    kernel = folder / "f" / "1-1-1"
    kernel.mkdir(parents=True)
    (folder / "program.bc").write_bytes(b"BC\xc0\xde" + b"1234" * 9)
    (kernel / "f.so").write_bytes(elf())
    return folder


def test_a_sound_program_stays(tmp_path, program):
    assert sweep(tmp_path) == 0
    seal(tmp_path)
    assert (program / SEAL).is_file()
    assert sweep(tmp_path) == 0
    assert program.is_dir()


def test_what_a_folder_that_cannot_be_written_has_of_kernels_is_copied(tmp_path, program):
    """As in a container, whose image has the cache and whose file system can only be read."""
    seal(tmp_path)
    (tmp_path / BINARIES).mkdir()
    (tmp_path / BINARIES / "k.bin").write_bytes(b"binary")
    (tmp_path / BINARIES / "planted.bin").symlink_to(tmp_path / "elsewhere")
    others = program / "others.so"
    others.write_bytes(elf())
    others.chmod(0o666)
    (tmp_path / "links" / "a").mkdir(parents=True)
    copy = tmp_path / "copy"
    copy_kernels(tmp_path, copy)
    found = {p.relative_to(copy).as_posix(): p.read_bytes() for p in copy.rglob("*") if p.is_file()}
    names = ("AB/CDEF/clgraph.seal", "AB/CDEF/f/1-1-1/f.so", "AB/CDEF/program.bc", "programs/k.bin")
    assert found == {name: (tmp_path / name).read_bytes() for name in names}


@pytest.mark.parametrize("sealed", ["indexed", "sealed", "not sealed"])
@pytest.mark.parametrize(
    ("file", "content"),
    [("f/1-1-1/f.so", b""), ("f/1-1-1/f.so", elf()[:-1]), ("program.bc", b""), ("program.bc", b"BC\xc0\xde123")],
)
def test_a_cut_file_takes_its_program_away(tmp_path, program, sealed, file, content):
    if sealed != "not sealed":
        seal(tmp_path)
    if sealed == "indexed":
        sweep(tmp_path)
    (program / file).write_bytes(content)
    assert sweep(tmp_path) == 1
    assert not program.exists()


def test_a_sealed_program_with_a_flipped_bit_or_a_missing_file_is_removed(tmp_path, program):
    seal(tmp_path)
    content = bytearray((program / "program.bc").read_bytes())
    content[10] ^= 1
    (program / "program.bc").write_bytes(content)
    assert sweep(tmp_path) == 1


def test_a_missing_file_takes_its_program_away(tmp_path, program):
    seal(tmp_path)
    (program / "f" / "1-1-1" / "f.so").unlink()
    assert sweep(tmp_path) == 1


def test_a_kernel_that_appeared_after_the_seal_is_sealed_next_time(tmp_path, program):
    seal(tmp_path)
    more = program / "g" / "1-1-1"
    more.mkdir(parents=True)
    (more / "g.so").write_bytes(elf(1024))
    assert sweep(tmp_path) == 0
    seal(tmp_path)
    assert "g/1-1-1/g.so" in (program / SEAL).read_text()


def test_a_sealed_program_is_read_once_until_it_is_touched(tmp_path, program, monkeypatch):
    seal(tmp_path)
    assert sweep(tmp_path) == 0
    read = []
    fingerprint = pocl_cache._fingerprint
    monkeypatch.setattr(pocl_cache, "_fingerprint", lambda path: read.append(path.name) or fingerprint(path))
    assert sweep(tmp_path) == 0
    seal(tmp_path)
    assert not read
    os.utime(program / "program.bc")
    assert sweep(tmp_path) == 0
    assert sorted(read) == ["f.so", "program.bc"]


def test_a_program_that_is_not_sealed_is_looked_at_each_time(tmp_path, program):
    assert sweep(tmp_path) == 0
    assert sweep(tmp_path) == 0
    (program / "program.bc").write_bytes(b"")
    assert sweep(tmp_path) == 1


def test_a_broken_index_counts_as_none(tmp_path, program):
    seal(tmp_path)
    (tmp_path / INDEX).write_text("[")
    assert sweep(tmp_path) == 0
    (program / "program.bc").write_bytes(b"BC\xc0\xde")
    assert sweep(tmp_path) == 1


def test_a_broken_seal_counts_as_none(tmp_path, program):
    (program / SEAL).write_text("{")
    assert sweep(tmp_path) == 0
    seal(tmp_path)
    assert "program.bc" in (program / SEAL).read_text()


def test_only_old_temporary_files_are_removed(tmp_path):
    ages = {"tempfile_old": 4000, "tempfile_written": 300, "tempfile_empty": 300, "tempfile_new": 0, "other": 4000}
    for name, age in ages.items():
        (tmp_path / name).write_text("" if name == "tempfile_empty" else "x")
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    sweep(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {"tempfile_written", "tempfile_new", "other"}


def test_a_temporary_file_may_go_while_the_cache_is_swept(tmp_path, monkeypatch):
    gone = tmp_path / "tempfile_a.cl"
    gone.write_text("")
    os.utime(gone, (1, 1))
    unlink = os.unlink

    def twice(path):
        unlink(path)
        unlink(path)

    monkeypatch.setattr(os, "unlink", twice)
    assert sweep(tmp_path) == 0
    assert not gone.exists()


def test_a_damaged_kernel_that_appeared_in_a_known_program_takes_it_away(tmp_path, program):
    seal(tmp_path)
    assert sweep(tmp_path) == 0
    assert "f/1-1-1/f.so" in (tmp_path / INDEX).read_text()
    more = program / "f" / "2-1-1"
    more.mkdir()
    (more / "f.so").write_bytes(elf()[:-1])
    assert sweep(tmp_path) == 1


def test_only_programs_that_were_used_since_are_sealed(tmp_path, program):
    (program / "last_accessed").touch()
    os.utime(program / "last_accessed", (100, 100))
    seal(tmp_path, since=101)
    assert not (program / SEAL).exists()
    seal(tmp_path, since=100)
    assert (program / SEAL).exists()


@pytest.mark.parametrize("sealed", [True, False])
def test_one_program_is_looked_at_alone(tmp_path, program, sealed):
    other = tmp_path / "AB" / "OTHER"
    shutil.copytree(program, other)
    if sealed:
        seal(tmp_path, programs=["AB/CDEF"])
        assert (program / SEAL).exists()
        assert not (other / SEAL).exists()
    (other / "program.bc").write_bytes(b"")
    abandoned = tmp_path / "tempfile_empty"
    abandoned.touch()
    os.utime(abandoned, (1, 1))
    assert not check(tmp_path, "AB/CDEF")
    assert not check(tmp_path, "AB/NOT_THERE")
    assert not abandoned.exists()
    (program / "f" / "1-1-1" / "f.so").write_bytes(elf()[:-1])
    assert check(tmp_path, "AB/CDEF")
    assert (program.exists(), other.exists()) == (False, True)


@pytest.mark.opencl
def test_what_is_looked_at_goes_by_what_is_to_be_built(tmp_path, monkeypatch, engine):
    looked = []
    monkeypatch.setattr(driver, "pocl_folder", lambda: tmp_path)
    monkeypatch.setattr(pocl_cache, "sweep", lambda folder: looked.append(folder))
    monkeypatch.setattr(pocl_cache, "check", lambda folder, program: looked.append(folder / program))
    monkeypatch.setattr(atexit, "register", lambda *call: None)
    binary = struct.pack("<8sQIIQ41s", b"poclbin\0", 77, 8, 1, 5, b"AB/CDEF")
    for _ in range(2):
        assert binaries.from_binary(engine._context, engine._handle, binary, "") is None
    assert looked == [tmp_path / "AB" / "CDEF"]
    for _ in range(2):
        binaries.build(engine._context, engine._handle, "__kernel void f() {}", "", "f")
    assert looked[1:] == [tmp_path]
