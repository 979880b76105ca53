"""A file that is in use is known by what nobody can set back."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from clgraph.core.mapped import MappedFile, release
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


def test_what_is_released_is_read_again_from_the_file(tmp_path: Path) -> None:
    path, data = tmp_path / "weights", np.random.default_rng(0).integers(0, 256, 1 << 20).astype(np.uint8)
    path.write_bytes(data.tobytes())
    mapped = MappedFile(path)
    part = np.frombuffer(mapped, np.uint8, 900_000, 7)
    np.testing.assert_array_equal(part, data[7:900_007])
    before = _resident(path)
    release(part)
    assert _resident(path) <= before - 800
    np.testing.assert_array_equal(part, data[7:900_007])
    release(np.zeros(4))


def _resident(path: Path) -> int:
    """Return the KiB of a mapped file that are in the process's memory."""
    lines = Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines()
    at = next(i for i, line in enumerate(lines) if line.endswith(str(path)))
    return int(next(line for line in lines[at:] if line.startswith("Rss:")).split()[1])
