from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    for name in ("programs/a.bin", "programs/deep/b.bin", "models/m.onnx", "mine/notes.txt"):
        path = tmp_path / "cache" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 1000)
    return tmp_path / "cache"


def test_the_cache_is_shown_by_area(clgraph_command: Command, cache: Path) -> None:
    status, out, _ = clgraph_command("cache", "show", "--cache-dir", cache)
    assert status == 0
    rows = [line.split()[:2] for line in out.splitlines()[1:3]]
    assert rows == [["programs", "2"], ["models", "1"]]
    assert f"2.9 KiB in {cache}" in out
    _, out, _ = clgraph_command("cache", "show", "--cache-dir", cache, "--json")
    assert json.loads(out)["areas"]["programs"] == {"files": 2, "nbytes": 2000}


def test_what_is_named_is_removed_and_what_is_not_clgraphs_never(clgraph_command: Command, cache: Path) -> None:
    status, out, _ = clgraph_command("cache", "clear", "programs", "--cache-dir", cache)
    assert status == 0
    assert "2.0 KiB freed" in out
    assert sorted(p.name for p in cache.iterdir()) == ["mine", "models"]
    (cache / "tuning").mkdir()
    clgraph_command("cache", "clear", "--cache-dir", cache)
    assert sorted(p.name for p in cache.iterdir()) == ["mine", "tuning"]
    status, out, _ = clgraph_command("cache", "clear", "--cache-dir", cache)
    assert (status, out) == (0, f"there was nothing to remove in {cache}\n")


def test_what_was_removed_is_told_as_json(clgraph_command: Command, cache: Path) -> None:
    for removed in ({"programs": 2000}, {}):
        status, out, _ = clgraph_command("cache", "clear", "programs", "--cache-dir", cache, "--json")
        assert status == 0
        assert json.loads(out) == {"folder": str(cache), "removed": removed, "nbytes": sum(removed.values())}


def test_a_link_is_removed_and_not_what_it_leads_to(clgraph_command: Command, cache: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("")
    (cache / "pocl").symlink_to(kept, target_is_directory=True)
    clgraph_command("cache", "clear", "pocl", "--cache-dir", cache)
    assert not (cache / "pocl").exists()
    assert (kept / "file").exists()


def test_the_environments_cache_is_meant(
    clgraph_command: Command, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLGRAPH_CACHE_DIR", str(cache))
    assert str(cache) in clgraph_command("cache", "show")[1]


def test_a_warning_that_filters_make_an_error_is_one_line_without_a_request_to_report_it(
    clgraph_command: Command, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cache := tmp_path / "cache").mkdir()
    cache.chmod(0o777)
    monkeypatch.setenv("CLGRAPH_CACHE_DIR", str(cache))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        status, _, err = clgraph_command("check", model, "--device", "host")
    assert (status, err.count("\n")) == (1, 1), err
    assert err.startswith(f"error: the cache folder {cache} is not used")
    assert "report" not in err
