"""Parts of mapped files in large pages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from clgraph.core import large_pages
from clgraph.core.large_pages import CHUNK, PAGE, chunks, replace
from clgraph.core.mapped import MappedFile, place_in, release

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="replacing pages is a call of Linux's")


@pytest.fixture
def file(tmp_path: Path) -> MappedFile:
    """Return a mapped file of three large pages and a bit."""
    path = tmp_path / "weights"
    np.random.default_rng(3).integers(0, 256, 3 * PAGE + 5000).astype(np.uint8).tofile(path)
    return MappedFile(path)


def _in_file(file: MappedFile) -> int:
    """Return the bytes of address space that the file itself takes."""
    rows = Path("/proc/self/maps").read_text("utf-8").splitlines()
    bounds = [row.split()[0].split("-") for row in rows if row.endswith(str(file.path))]
    return sum(int(end, 16) - int(begin, 16) for begin, end in bounds)


def test_what_is_replaced_keeps_its_addresses_and_content_and_is_not_the_files(file: MappedFile) -> None:
    whole = np.frombuffer(file, np.uint8)
    want, before = whole.copy(), _in_file(file)
    parts = chunks(file, [(0, len(file))])
    assert all(replace(file, begin, end) for begin, end in parts)
    assert _in_file(file) == before - sum(end - begin for begin, end in parts) == 4096
    np.testing.assert_array_equal(whole, want)
    with file.path.open("r+b") as opened:
        opened.write(bytes(PAGE))
    np.testing.assert_array_equal(whole[: parts[-1][1]], want[: parts[-1][1]])
    release(whole)
    np.testing.assert_array_equal(whole, want, "what is not in the file any more is not given back")


def test_a_file_that_was_cut_is_not_read(file: MappedFile) -> None:
    with file.path.open("r+b") as opened:
        opened.truncate(PAGE)
    assert not replace(file, 0, 2 * PAGE)
    assert not file.replaced


@pytest.mark.parametrize("pages", [0, 10])
def test_at_the_limit_of_memory_the_content_stays(file: MappedFile, pages: int) -> None:
    code = f"""
import resource, sys
from pathlib import Path
import numpy as np
from clgraph.core.large_pages import PAGE, chunks, replace
from clgraph.core.mapped import MappedFile
file = MappedFile(Path(sys.argv[1]))
whole = np.frombuffer(file, np.uint8)
want = bytes(file)
data = next(int(row.split()[1]) for row in open("/proc/self/status") if row.startswith("VmData"))
resource.setrlimit(resource.RLIMIT_DATA, (1024 * data + {pages} * PAGE, -1))
done = [replace(file, begin, end) for begin, end in chunks(file, [(0, len(file))])]
resource.setrlimit(resource.RLIMIT_DATA, (-1, -1))
print(any(done), whole.tobytes() == want)
"""
    ran = subprocess.run([sys.executable, "-c", code, file.path], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == [str(pages > 0), "True"]


def test_chunks_are_of_large_pages_each_once_and_end_with_the_file(
    file: MappedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_pages, "_address", lambda _: 100 * PAGE + 8192)
    first, last = PAGE - 8192, len(file) // 4096 * 4096
    assert chunks(file, [(0, 1), (5, 10)]) == [(0, first)]
    assert chunks(file, [(first + 5, first + 6)]) == [(first, first + PAGE)]
    assert chunks(file, [(2 * PAGE + first, 2 * PAGE + first + 1), (0, 1)]) == [(0, first), (first + 2 * PAGE, last)]
    monkeypatch.setattr(large_pages, "CHUNK", 2 * PAGE)
    assert chunks(file, [(0, len(file))]) == [(0, first + PAGE), (first + PAGE, last)]
    assert CHUNK % PAGE == 0


def test_an_array_is_found_in_its_file(file: MappedFile) -> None:
    assert place_in(file, np.frombuffer(file, np.float32)[3:10]) == (12, 40)
