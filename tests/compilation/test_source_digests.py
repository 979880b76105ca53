"""Digests of sources are read once, and again where a file was touched."""

import os
from pathlib import Path
from typing import IO

import pytest

from clgraph.saved import source_digests
from clgraph.saved.source_digests import digest_of


@pytest.fixture
def sources(tmp_path):
    folder = tmp_path / "sources"
    (folder / "inner").mkdir(parents=True)
    for name in ("a.py", "b.cl", "inner/c.json", "other.txt"):
        (folder / name).write_text(name)
        os.utime(folder / name, (1000, 1000))
    return folder


@pytest.fixture
def digest(sources, tmp_path, monkeypatch):
    """Return the digest as a new process does, and which files it read for that."""
    # Files of a test have just been made; their times of change cannot be set.
    monkeypatch.setattr(source_digests, "SETTLED_SECONDS", -60.0)

    def find() -> tuple[str, list[str]]:
        for cached in (
            source_digests._remembered,
            source_digests._digest,
            source_digests._state,
            source_digests._states,
        ):
            cached.cache_clear()
        read: list[str] = []

        def opened(path: str, mode: str) -> IO[bytes]:
            read.append(Path(path).name)
            return open(path, mode)

        monkeypatch.setattr(source_digests, "open", opened, raising=False)
        return digest_of([sources], tmp_path / "kept"), read

    yield find
    for cached in (source_digests._remembered, source_digests._digest, source_digests._state, source_digests._states):
        cached.cache_clear()


def test_sources_are_read_again_where_one_of_them_was_touched(sources, digest, tmp_path):
    first, read = digest()
    assert read == ["a.py", "b.cl", "c.json"]
    assert digest() == (first, [])
    assert first == digest_of([sources])
    found = {first}
    for change in (
        lambda: (sources / "a.py").write_text("b.py"),
        lambda: (sources / "inner" / "d.cl").write_text(""),
        lambda: (sources / "b.cl").rename(sources / "e.cl"),
    ):
        change()
        changed, read = digest()
        assert read
        found.add(changed)
    assert len(found) == 4
    assert len(list((tmp_path / "kept").iterdir())) == 1


def test_what_is_kept_is_taken_for_nothing_else(sources, digest, tmp_path):
    first, _ = digest()
    (kept,) = (tmp_path / "kept").iterdir()
    for damage in (b"", b"one two three", b"\xff", kept.read_bytes()[1:]):
        kept.write_bytes(damage)
        assert digest() == (first, ["a.py", "b.cl", "c.json"])
    kept.chmod(0o666)
    assert digest()[1]


def test_files_that_were_just_written_are_read_each_time(sources, digest, monkeypatch):
    monkeypatch.setattr(source_digests, "SETTLED_SECONDS", 60.0)
    assert digest()[1] == digest()[1] == ["a.py", "b.cl", "c.json"]


def test_folders_that_the_system_cannot_list_when_open_are_listed_by_name(sources, digest, monkeypatch):
    first, _ = digest()
    monkeypatch.setattr(os, "supports_fd", set())
    assert digest() == (first, [])
