"""Files are written whole or not at all, and what the user named is treated as the user's."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from clgraph.core.files import output, replacing


class BrokenOffError(Exception):
    pass


def broken_off(write, path: Path) -> None:
    with write(path) as file:
        file.write(b"half")
        raise BrokenOffError


@pytest.mark.parametrize("write", [replacing, output])
def test_what_is_broken_off_leaves_the_old_file_and_nothing_else(write, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(BrokenOffError):
        broken_off(write, path)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert path.read_bytes() == b"old"
    with write(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"


def test_a_replaced_file_is_the_users_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with replacing(tmp_path / "file") as file:
            file.write(b"x")
        with output(tmp_path / "output") as file:
            file.write(b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "output").stat().st_mode) == 0o666


def test_a_link_is_replaced_where_it_may_be_planted_and_followed_where_it_is_the_users(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    planted, own = tmp_path / "planted", tmp_path / "own"
    planted.symlink_to(victim)
    own.symlink_to(victim)
    with replacing(planted) as file:
        file.write(b"new")
    assert victim.read_bytes() == b"precious"
    assert not planted.is_symlink()
    with output(own) as file:
        file.write(b"new")
    assert victim.read_bytes() == b"new"
    assert own.is_symlink()


def test_a_link_to_nothing_is_where_the_users_file_is_made(tmp_path: Path) -> None:
    (tmp_path / "own").symlink_to(tmp_path / "later")
    with output(tmp_path / "own") as file:
        file.write(b"new")
    assert (tmp_path / "later").read_bytes() == b"new"


def test_a_pipe_that_the_user_names_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    with output(pipe) as file:
        file.write(b"new")
    reader.join(10)
    assert found == [b"new"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_name_as_long_as_names_can_be_is_written(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    with replacing(path) as file:
        file.write(b"x")
    assert path.read_bytes() == b"x"
