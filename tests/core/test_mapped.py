"""A file that is in use is known by what nobody can set back."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from clgraph.core.mapped import MappedFile
from clgraph.errors import ModelError

WAIT = 0.02
"""Longer than a file system's clock ticks."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "weights"
    path.write_bytes(b"old!")
    time.sleep(WAIT)
    return path


def test_a_file_that_nobody_touches_is_what_it_was(file: Path) -> None:
    mapped = MappedFile(file)
    file.read_bytes()
    mapped.check()


@pytest.mark.parametrize("restored", [False, True])
def test_a_file_that_is_written_to_is_found_out_whatever_its_size_and_time(file: Path, restored: bool) -> None:
    mapped, before = MappedFile(file), file.stat()
    with file.open("r+b") as opened:
        opened.write(b"new!")
    if restored:
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert file.stat().st_mtime_ns == before.st_mtime_ns
    with pytest.raises(ModelError, match="was changed" if restored else "was written to"):
        mapped.check()


def test_a_file_that_was_removed_or_replaced_stays_in_use(file: Path) -> None:
    mapped = MappedFile(file)
    (file.with_name("other")).write_bytes(b"new!")
    file.with_name("other").replace(file)
    mapped.check()
    file.unlink()
    mapped.check()
    assert mapped[:] == b"old!"
