"""Which library a platform is."""

import hashlib

import pytest

from clgraph.runtime import driver, handles
from clgraph.runtime.identity import library_of, sha256_of
from clgraph.runtime.pocl import LIBRARY_SHA256
from clgraph.runtime.wheel import pocl_folder, wheel


@pytest.mark.parametrize("letters", ["cache", "cach\udce9"], ids=["letters", "bytes of a foreign encoding"])
def test_the_checksum_is_remembered_until_the_file_changes(tmp_path, letters):
    tmp_path /= letters
    tmp_path.mkdir()
    library = tmp_path / "lib.so"
    library.write_bytes(b"one")
    first = sha256_of(library, tmp_path / "stamps")
    assert first == hashlib.sha256(b"one").hexdigest()
    (stamp,) = (tmp_path / "stamps").iterdir()
    stamp.write_text(f"{stamp.stem} {'0' * 64}")
    assert sha256_of(library, tmp_path / "stamps") == "0" * 64, "it is not read again"
    library.write_bytes(b"other")
    assert sha256_of(library, tmp_path / "stamps") == hashlib.sha256(b"other").hexdigest()
    for content in ("not a checksum", f"{'0' * 32} {'0' * 64}"):
        for other in (tmp_path / "stamps").iterdir():
            other.write_text(content)
        assert sha256_of(library, tmp_path / "stamps") == hashlib.sha256(b"other").hexdigest(), (
            "another file's, or none"
        )
    assert sha256_of(library, tmp_path / "lib.so") == hashlib.sha256(b"other").hexdigest(), "a folder that is none"


@pytest.mark.opencl
def test_a_platform_is_known_by_the_file_its_functions_are_in(engine):
    library = library_of(engine.device.handle.platform)
    assert library is not None
    assert library.is_file()
    if engine.info.name == "pocl:0" and wheel() is not None:
        assert library.is_relative_to(pocl_folder()), "PoCL is loaded through clgraph's links"
        assert hashlib.sha256(library.read_bytes()).hexdigest() == LIBRARY_SHA256


@pytest.mark.opencl
def test_devices_keep_their_names_whatever_the_order_of_the_platforms(monkeypatch):
    platforms = driver.load().get_platforms()
    names = list(handles.named_handles())
    monkeypatch.setattr(driver.load(), "get_platforms", lambda: platforms[::-1])
    assert sorted(handles.named_handles.__wrapped__()) == sorted(names)
