"""Files of the model cache: which go first, and what is known of a model's file without reading it."""

import gc
import os
import time

import onnx
import pytest

from clgraph.compilation import cache_files as store
from clgraph.compilation import cache_sources as sources
from clgraph.compilation.cache_files import ModelCache, Stamp


def kept(cache, name, nbytes, used):
    path = cache.folder / f"{name}.clg"
    path.write_bytes(bytes(nbytes))
    os.utime(path, (1, 1))
    if used is not None:
        cache.note_use(path)
        os.utime(path.with_suffix(".used"), (used, used))


def test_what_was_used_longest_ago_goes_first(tmp_path):
    cache = ModelCache(tmp_path, 250)
    for name, used in (("a", 1), ("b", 3), ("c", 2), ("d", None)):
        kept(cache, name, 100, used)
    before = (tmp_path / "a.clg").stat().st_ctime_ns
    time.sleep(0.02)
    cache.note_use(tmp_path / "a.clg")
    assert (tmp_path / "a.clg").stat().st_ctime_ns == before
    for name in ("old", "e.used"):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1, 1))
    (tmp_path / ".clgraph-new").touch()
    cache.trim()
    assert sorted(p.name for p in tmp_path.iterdir()) == [".clgraph-new", "a.clg", "a.used", "b.clg", "b.used"]


def test_what_is_left_beside_entries_goes_when_it_is_old(tmp_path):
    for name in ("a.clg", "a.used", "b.image", "b.used", "c.used", "a.other", "d"):
        (tmp_path / name).write_bytes(bytes(10))
        os.utime(tmp_path / name, (1, 1))
    ModelCache(tmp_path, 40).trim()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.clg", "a.used", "b.image", "b.used"]
    os.utime(tmp_path / "b.used", (2, 2))
    ModelCache(tmp_path, 39).trim()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b.image", "b.used"]


def test_entries_that_stay_are_not_made_paths_of_when_one_is_written(tmp_path, monkeypatch):
    """Each of two thousand entries took 0.2 ms, at each model that was compiled."""
    cache = ModelCache(tmp_path, 1000)
    for i in range(5):
        kept(cache, f"{i}", 100, i)
    made = []
    monkeypatch.setattr(store, "Path", lambda *parts: made.append(parts))
    monkeypatch.setattr(type(tmp_path), "with_suffix", made.append)
    monkeypatch.setattr(Stamp, "of", made.append)
    cache.trim()
    assert made == []
    assert len(list(tmp_path.iterdir())) == 10


def test_only_so_many_stamps_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "MOST_STAMPS", 2)
    (tmp_path / "stamps").mkdir()
    for i in range(4):
        (tmp_path / "stamps" / f"{i}").touch()
        os.utime(tmp_path / "stamps" / f"{i}", (i, i))
    ModelCache(tmp_path, 1).trim()
    assert sorted(p.name for p in (tmp_path / "stamps").iterdir()) == ["2", "3"]


def test_the_bytes_of_a_model_that_was_compiled_are_let_go(tmp_path):
    held = onnx.ModelProto(producer_name="p" * 4096)
    source = sources.source_of(held)
    digest = source.learn(ModelCache(tmp_path, 1))
    assert (source.content(ModelCache(tmp_path, 1)), source.nbytes) == (None, held.ByteSize())
    kept(ModelCache(tmp_path, 1), f"{source.nbytes:x}-0", 1, 0)
    assert source.content(ModelCache(tmp_path, 1)) == digest
    assert [r for r in gc.get_referents(source.__dict__) if isinstance(r, bytes)] == []


def test_a_file_that_was_just_written_has_no_content_to_rely_on(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "SETTLED_SECONDS", 60.0)
    file = tmp_path / "m.onnx"
    file.write_bytes(b"x")
    cache = ModelCache(tmp_path / "cache", 1)
    assert cache.learn(file, Stamp.of(file)) is None
    monkeypatch.setattr(store, "SETTLED_SECONDS", -60.0)
    assert cache.learn(file, Stamp.of(file)) == cache.content(file, Stamp.of(file)) != None  # noqa: E711


def test_a_file_that_changes_while_it_is_read_has_no_content(tmp_path, monkeypatch):
    file = tmp_path / "m.onnx"
    file.write_bytes(b"x")
    monkeypatch.setattr(store, "SETTLED_SECONDS", 0.03)
    time.sleep(0.06)
    stamp = Stamp.of(file)
    file.write_bytes(b"xy")
    assert ModelCache(tmp_path / "cache", 1).learn(file, stamp) is None


@pytest.mark.parametrize("path", ["absent", "", ".", "nul\0"])
def test_only_a_regular_file_has_a_stamp(path, tmp_path):
    assert Stamp.of(f"{tmp_path}/{path}") is None
