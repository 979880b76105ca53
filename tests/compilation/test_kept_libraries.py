"""A library is composed once for the same sources, and whatever else lies in its place is not a library."""

from pathlib import Path

import pytest

from clgraph.saved import kept_libraries
from clgraph.selector.library import Library

MADE = Library("core", "kernel \u00e4", ("first", "second"), 3)


@pytest.fixture
def composed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Return the names of what is composed, each call a process of its own."""
    calls: list[str] = []

    def compose(name: str, simd: int) -> Library:
        calls.append(name)
        return MADE

    monkeypatch.setattr(kept_libraries, "compose", compose)
    monkeypatch.setattr(kept_libraries, "_kept", kept_libraries._kept.__wrapped__)
    monkeypatch.setattr(kept_libraries, "sources_digest", lambda cache_dir: "sources")
    monkeypatch.setattr(kept_libraries.DESCRIPTORS, "third_party", frozenset)
    monkeypatch.setattr(kept_libraries.FAMILIES, "third_party", frozenset)
    return calls


def kept(tmp_path: Path) -> Path:
    (found,) = (tmp_path / "compiled" / "libraries").iterdir()
    return found


def test_a_library_is_composed_once(composed: list[str], tmp_path: Path) -> None:
    assert [kept_libraries.library_of("core", 16, tmp_path) for _ in range(3)] == [MADE] * 3
    assert composed == ["core"]
    kept_libraries.library_of("core", 8, tmp_path)
    assert composed == ["core", "core"]


def test_other_sources_take_the_place_of_those_before(
    composed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for sources in ("before", "now", "now"):
        monkeypatch.setattr(kept_libraries, "sources_digest", lambda cache_dir, told=sources: told)
        kept_libraries.library_of("core", 16, tmp_path)
    assert composed == ["core", "core"]
    assert kept(tmp_path).is_file()


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b"", lambda b: b"[]\n", lambda b: b"\xff" + b])
def test_a_damaged_file_is_composed_anew(composed: list[str], tmp_path: Path, damage: object) -> None:
    kept_libraries.library_of("core", 16, tmp_path)
    kept(tmp_path).write_bytes(damage(kept(tmp_path).read_bytes()))  # type: ignore[operator]  # a function
    assert kept_libraries.library_of("core", 16, tmp_path) == MADE
    assert composed == ["core", "core"]


def test_what_others_declare_is_composed(composed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept_libraries.library_of("core", 16, tmp_path)
    monkeypatch.setattr(kept_libraries.FAMILIES, "third_party", lambda: frozenset({"plugin"}))
    kept_libraries.library_of("core", 16, tmp_path)
    assert composed == ["core", "core"]
