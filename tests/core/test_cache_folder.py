"""The cache folder is used only where nobody else can put files into it."""

from __future__ import annotations

import ast
import os
import stat
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import clgraph
from clgraph.core.cache_folder import (
    cache_folder,
    is_trusted,
    link,
    make_folder,
    read,
    refusal,
    temporary_folder,
    write,
)
from clgraph.errors import OptionError

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65534


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    make_folder(tmp_path / "cache" / "compiled" / "stamps")
    return tmp_path / "cache"


def give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let *path* belong to another user."""
    if os.geteuid() == 0:
        os.chown(path, NOBODY, -1, follow_symlinks=False)
    else:
        real = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: real + 1)


def test_a_folder_of_the_users_own_is_used_without_a_word(cache: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache_folder(cache) == cache


@pytest.mark.parametrize("below", [".", "compiled", "compiled/stamps"])
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o775, 0o1777])
def test_a_folder_that_others_may_write_to_is_not_used_with_one_warning(cache: Path, below: str, mode: int) -> None:
    (cache / below).chmod(mode)
    with pytest.warns(UserWarning, match=f"can be written by others .mode {mode:o}.*chmod.*CLGRAPH_CACHE_DIR") as told:
        found = cache_folder(cache)
    assert len(told) == 1
    assert found == cache_folder(cache) == temporary_folder()
    assert stat.S_IMODE(found.stat().st_mode) == 0o700


@pytest.mark.parametrize("below", [".", "compiled", "compiled/stamps"])
def test_a_folder_of_another_user_is_not_used(cache: Path, below: str, monkeypatch: pytest.MonkeyPatch) -> None:
    give_away(cache / below, monkeypatch)
    with pytest.warns(UserWarning, match="belongs to another user"):
        assert cache_folder(cache) == temporary_folder()


@pytest.mark.parametrize("below", [".", "compiled", "compiled/stamps"])
def test_a_folder_that_only_root_can_read_is_not_used(cache: Path, below: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a first run by ``sudo`` leaves it in the user's home; the tests may run as root, whom no mode shuts out."""
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != cache / below and allowed(path, mode))
    with pytest.warns(UserWarning, match="cannot be read by this user.*CLGRAPH_CACHE_DIR"):
        assert cache_folder(cache) == temporary_folder()


def test_a_folder_that_can_only_be_read_is_used(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda _, mode: not mode & os.W_OK)
    assert refusal(cache) is None


@pytest.mark.parametrize("below", [".", "compiled", "compiled/stamps"])
def test_the_users_own_links_are_followed_and_others_are_not(
    cache: Path, below: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cache / below).rename(tmp_path / "elsewhere")
    (cache / below).symlink_to(tmp_path / "elsewhere")
    assert refusal(cache) is None
    (tmp_path / "elsewhere").chmod(0o777)
    assert "can be written by others" in str(refusal(cache))
    (tmp_path / "elsewhere").chmod(0o700)
    give_away(cache / below, monkeypatch)
    assert "belongs to another user" in str(refusal(cache))


def test_what_cannot_be_made_is_replaced_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.warns(UserWarning, match="is not used"):
            assert cache_folder(path) == temporary_folder()
    assert (tmp_path / "file").is_file()


def test_a_cache_is_made_for_the_user_alone_with_the_folders_above(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        assert cache_folder(tmp_path / "a" / "b") == tmp_path / "a" / "b"
        write(tmp_path / "a" / "b" / "compiled" / "file", b"x")
    finally:
        os.umask(before)
    made = [tmp_path / "a", *(tmp_path / "a").rglob("*")]
    assert [stat.S_IMODE(p.stat().st_mode) for p in made] == [0o700, 0o700, 0o700, 0o600]


def test_a_relative_folder_stays_the_same_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    relative = Path(tmp_path.name)
    monkeypatch.chdir(tmp_path)
    assert cache_folder(relative) == tmp_path / relative
    monkeypatch.chdir("/")
    assert cache_folder(relative) == tmp_path / relative


def test_without_a_temporary_folder_there_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(**_: object) -> str:
        raise FileNotFoundError("No usable temporary directory")

    monkeypatch.setattr("tempfile.mkdtemp", refused)
    with pytest.raises(OptionError, match=r"No usable temporary directory.*CLGRAPH_CACHE_DIR"):
        temporary_folder.__wrapped__()


def test_only_an_own_file_is_read(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(cache / "own", b"x")
    assert read(cache / "own") == b"x"
    assert is_trusted(cache / "own")
    (cache / "link").symlink_to(cache / "own")
    write(cache / "open", b"x")
    (cache / "open").chmod(0o666)
    os.mkfifo(cache / "pipe")
    (cache / "folder").mkdir()
    for name in ("link", "open", "pipe", "folder", "absent"):
        with pytest.raises(OSError, match=r"."):
            read(cache / name)
        assert not is_trusted(cache / name), name
    give_away(cache / "own", monkeypatch)
    with pytest.raises(PermissionError, match="another user"):
        read(cache / "own")
    assert not is_trusted(cache / "own")


@pytest.mark.parametrize("target", ["victim", "absent"])
def test_a_planted_link_is_never_written_through(cache: Path, tmp_path: Path, target: str) -> None:
    (tmp_path / "victim").write_bytes(b"precious")
    (cache / "entry").symlink_to(tmp_path / target)
    write(cache / "entry", b"new")
    assert read(cache / "entry") == b"new"
    assert (tmp_path / "victim").read_bytes() == b"precious"
    assert not (tmp_path / "absent").exists()


def test_a_link_is_put_where_another_one_or_a_file_is(cache: Path, tmp_path: Path) -> None:
    for target in (tmp_path / "one", tmp_path / "other", tmp_path / "other"):
        link(cache / "links" / "l", target)
        assert (cache / "links" / "l").readlink() == target
    assert [p.name for p in (cache / "links").iterdir()] == ["l"]


WITHOUT_HOME = """
import pwd, warnings
def unknown(number):
    raise KeyError(number)
pwd.getpwuid = unknown
from clgraph.settings import settings
from clgraph.core.cache_folder import cache_folder, write
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    found = cache_folder(settings().cache_dir)
write(found / "compiled" / "entry", b"x")
print(found, len(told), told[0].message if told else "")
"""


def without_home(temporary: Path, **environment: str) -> str:
    """Do what a container does that is given any number as a user; return what was printed."""
    variables = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_HOME],
        env={**variables, "TMPDIR": str(temporary), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_user_without_a_home_has_a_cache_below_the_temporary_folder_and_is_told(tmp_path: Path) -> None:
    said = without_home(tmp_path)
    assert said.startswith(f"{tmp_path}/clgraph-{os.getuid()} 1 ")
    assert "no home folder: CLGRAPH_CACHE_DIR names another one" in said


def test_what_somebody_put_where_that_cache_would_be_is_not_used(tmp_path: Path) -> None:
    placed = tmp_path / f"clgraph-{os.getuid()}"
    placed.mkdir()
    placed.chmod(0o777)
    said = without_home(tmp_path)
    assert not said.startswith(f"{placed} ")
    assert "can be written by others" in said


def test_a_user_without_a_home_may_name_a_folder(tmp_path: Path) -> None:
    assert without_home(tmp_path, CLGRAPH_CACHE_DIR=str(tmp_path / "mine")) == f"{tmp_path}/mine 0"
    assert without_home(tmp_path, XDG_CACHE_HOME=str(tmp_path / "xdg")) == f"{tmp_path}/xdg/clgraph 0"


def test_a_home_in_which_nothing_can_be_made_is_replaced_by_a_temporary_folder(tmp_path: Path) -> None:
    said = without_home(tmp_path, HOME="/proc/nobody")
    assert said.startswith(f"{tmp_path}/clgraph-")
    assert "/proc/nobody/.cache/clgraph is not used: No such file" in said
    assert "name a folder that can be written by CLGRAPH_CACHE_DIR" in said


WRITES = {"write_text", "write_bytes", "mkdir", "makedirs", "symlink_to", "symlink", "touch", "mkstemp", "mkdtemp"}
WRITES |= {"NamedTemporaryFile", "TemporaryDirectory", "tofile"}
ELSEWHERE = {
    "core/cache_folder.py": "the one place",
    "core/files.py": "the one place",
    "demo/fetch.py": "pip's folder, made for it and removed",
    "cli/results.py": "results, where the user says",
    "cli/reports.py": "reports, where the user says",
    "cli/bench_command.py": "a report, where the user says",
    "cli/bench_streams.py": "a report, where the user says",
    "cli/profile_command.py": "a picture, where the user says",
    "cli/view_command.py": "a page, where the user says",
    "explorer/entry.py": "a page, where the user says",
    "explorer/model_explorer/graphs.py": "a folder made for a dump and removed",
    "explorer/making.py": "a folder made for a dump and removed; programs, where the user says",
    "network/profile.py": "a trace, where the user says",
    "onnxruntime/adapters.py": "adapters, where the user says",
    "onnxruntime/compiling.py": "models, where the user says",
    "onnxruntime/profiling.py": "a trace, where onnxruntime's option says",
    "passes/observers.py": "dumps, where the user says",
    "saved/constant_files.py": "dumps, where the user says",
    "compilation/pass_runs.py": "dumps, where the user says",
    "compilation/models.py": "dumps, where the user says",
    "runtime/pocl.py": "the process's own memory",
    "runtime/compile_child.py": "a file for its parent, in a folder made for that",
    "runtime/scratch.py": "that folder, and one for the canary's process",
}


def writes(call: ast.Call) -> bool:
    texts = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    if isinstance(call.func, ast.Attribute) and call.func.attr in WRITES:
        return True
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    return name == "open" and any(set(text) & set("wax+") for text in texts if len(text) < 4)


def test_nothing_else_in_clgraph_makes_files_or_folders() -> None:
    found = set()
    package = Path(clgraph.__file__).parent
    for path in package.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if not any(name in text for name in (*WRITES, "open")):
            continue  # to parse and walk all modules takes 2 s
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and writes(node):
                found.add(path.relative_to(package).as_posix())
    assert found == ELSEWHERE.keys()


def test_the_cache_folder_of_the_options_is_used_by_way_of_the_check() -> None:
    for path in Path(clgraph.__file__).parent.rglob("*.py"):
        if path.parent.name != "runtime":
            assert ".cache_dir /" not in path.read_text(encoding="utf-8"), path


def test_the_runtime_knows_no_other_options_than_those_with_the_checked_folder() -> None:
    runtime = Path(clgraph.__file__).parent / "runtime"
    found = sorted(p.name for p in runtime.glob("*.py") if "settings()" in p.read_text(encoding="utf-8"))
    assert found == ["canary_child.py", "process.py"], "the child has a folder that its parent has made for it"
