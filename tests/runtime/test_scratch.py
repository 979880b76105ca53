"""Tests of folders for compilers, and of what a process is short of."""

import os
import tempfile
import time
from pathlib import Path

import pytest

from clgraph.core.cache_folder import not_writable, unfit_for_code
from clgraph.runtime import process, scratch
from clgraph.settings import settings

resource = pytest.importorskip("resource")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "CHOSEN", [settings().with_(cache_dir=tmp_path / "cache")])
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    return tmp_path / "cache"


def mounted_noexec(folder, monkeypatch):
    """Let the file systems below *folder* be mounted so that nothing there can be executed."""
    statvfs = os.statvfs

    def told(path):
        found = statvfs(path)
        flag = found.f_flag | os.ST_NOEXEC * Path(path).is_relative_to(folder)
        return os.statvfs_result((*found[:8], flag, *found[9:]))

    monkeypatch.setattr(os, "statvfs", told)


def test_compilers_work_in_the_systems_folder_where_code_can_be_loaded_from_there(cache):
    with scratch.scratch_folder("x-") as folder:
        assert Path(folder).parent == cache.with_name("temporary")


def test_and_below_the_cache_folder_where_the_systems_is_mounted_noexec(cache, monkeypatch):
    mounted_noexec(cache.with_name("temporary"), monkeypatch)
    with scratch.scratch_folder("x-") as folder:
        assert Path(folder).parent == cache
    assert list(cache.with_name("temporary").iterdir()) == []


@pytest.mark.parametrize("below_the_cache", [False, True])
def test_what_killed_compilers_left_is_removed_a_day_later(cache, monkeypatch, below_the_cache):
    parent = cache if below_the_cache else cache.with_name("temporary")
    if below_the_cache:
        mounted_noexec(cache.with_name("temporary"), monkeypatch)
    for name, hours in (("x-old", 25), ("x-new", 23), ("y-old", 25)):
        (parent / name).mkdir(parents=True)
        (parent / name / "binary").touch()
        os.utime(parent / name, times=(time.time() - hours * 3600,) * 2)
    (parent / "x-link").symlink_to(parent / "y-old")
    with scratch.scratch_folder("x-") as folder:
        names = {path.name for path in parent.iterdir()}
    assert names == {"x-new", "y-old", "x-link", Path(folder).name}
    assert (parent / "y-old" / "binary").exists()


def test_and_where_there_is_none(cache):
    cache.with_name("temporary").rmdir()
    with scratch.scratch_folder("x-") as folder:
        assert Path(folder).parent == cache


def test_a_cache_folder_that_is_mounted_noexec_gets_no_kernels(tmp_path, monkeypatch):
    """PoCL ends the process when it cannot load what it made."""
    mounted_noexec(tmp_path, monkeypatch)
    assert "noexec" in not_writable(tmp_path)


def test_a_process_that_has_everything_is_short_of_nothing(tmp_path):
    assert unfit_for_code(tmp_path) is None
    assert scratch.shortage(tmp_path) == ""


@pytest.mark.parametrize(
    ("limit", "value", "told"),
    [
        (resource.RLIMIT_NOFILE, 12, "at most 12 files can be open (ulimit -n)"),
        (resource.RLIMIT_FSIZE, 65536, "a file can be at most 64 KiB (ulimit -f)"),
        (resource.RLIMIT_AS, 1 << 30, "memory is limited to 1048576 KiB (ulimit -v)"),
    ],
)
def test_limits_are_named(tmp_path, monkeypatch, limit, value, told):
    known = resource.getrlimit
    monkeypatch.setattr(resource, "getrlimit", lambda which: (value, -1) if which == limit else known(which))
    assert scratch.shortage(tmp_path) == told


def test_a_folder_that_is_gone_is_told(tmp_path):
    assert "No such file" in scratch.shortage(tmp_path / "gone")
