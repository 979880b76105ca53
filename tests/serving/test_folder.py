from __future__ import annotations

from pathlib import Path

import pytest

from clgraph.errors import OptionError
from clgraph.serving.folder import Folder


def _write(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)


def _scan(root: Path, *, follow_links: bool = False) -> dict[str, dict[int, str]]:
    found = Folder(root, follow_links=follow_links).scan()
    return {
        name: {number: each.fault or each.path.relative_to(root.resolve()).as_posix() for number, each in of.items()}
        for name, of in found.items()
    }


def test_models_lie_by_version_in_a_folder_or_alone(tmp_path: Path) -> None:
    _write(
        tmp_path, "a/1/model.onnx", "a/12/model.clg", "a/model.toml", "b/model.onnx", "c.onnx", "c.toml", "c.onnx.data"
    )
    _write(
        tmp_path, "README.md", ".hidden/model.onnx", ".e.onnx", "d/notes.txt", "a/old/model.onnx", "a/007/model.onnx"
    )
    assert _scan(tmp_path) == {
        "a": {1: "a/1/model.onnx", 12: "a/12/model.clg"},
        "b": {1: "b/model.onnx"},
        "c": {1: "c.onnx"},
    }
    found = Folder(tmp_path).scan()
    assert found["a"][12].options == tmp_path / "a/model.toml"
    assert found["b"][1].options is None
    assert found["c"][1].options == tmp_path / "c.toml"
    assert [name for name, *_ in found["c"][1].stamp] == ["c.onnx", "c.onnx.data", "c.toml"]


def test_what_is_wrong_with_an_entry_is_said_and_others_are_found(tmp_path: Path) -> None:
    _write(tmp_path, "a b.onnx", "c.onnx", "c/model.onnx", "d.onnx")
    (tmp_path / "e" / "3").mkdir(parents=True)
    found = _scan(tmp_path)
    assert found["a b"] == {1: "the name 'a b' has other than letters, digits and . _ -"}
    assert found["c"] == {1: "two files are version 1: model.onnx and c.onnx in " + tmp_path.name}
    assert found["d"] == {1: "d.onnx"}
    assert found["e"] == {3: "there is no file e/3/model.onnx"}


def test_links_that_lead_out_are_refused_unless_they_are_followed(tmp_path: Path) -> None:
    root, outside = tmp_path / "models", tmp_path / "outside"
    _write(outside, "model.onnx", "options.toml")
    _write(root, "in/model.onnx", "opt.onnx", "ver/1/model.onnx")
    (root / "a.onnx").symlink_to(outside / "model.onnx")
    (root / "b").symlink_to(outside)
    (root / "c").mkdir()
    (root / "c" / "model.onnx").symlink_to("../../outside/model.onnx")
    (root / "ver" / "2").symlink_to(outside)
    (root / "opt.toml").symlink_to(outside / "options.toml")
    (root / "inner.onnx").symlink_to("in/model.onnx")
    (root / "round.onnx").symlink_to("round.onnx")
    (root / "gone.onnx").symlink_to("nothing")
    out = "is a link that leads out of the folder of models"
    assert _scan(root) == {
        "a": {1: f"a.onnx {out}"},
        "b": {1: f"b {out}"},
        "c": {1: f"c/model.onnx {out}"},
        "gone": {1: "gone.onnx is a link that leads nowhere"},
        "in": {1: "in/model.onnx"},
        "inner": {1: "in/model.onnx"},
        "opt": {1: f"opt.toml {out}"},
        "round": {1: "round.onnx is a link that leads nowhere"},
        "ver": {1: "ver/1/model.onnx", 2: f"ver/2/model.onnx {out}"},
    }
    followed = Folder(root, follow_links=True).scan()
    assert followed["a"][1].path == followed["b"][1].path == outside / "model.onnx"
    assert not any(followed[name][1].fault for name in ("a", "b", "c", "opt"))


def test_a_change_of_any_file_of_a_model_changes_its_stamp(tmp_path: Path) -> None:
    _write(tmp_path, "a/1/model.onnx", "a/1/weights", "a/model.toml", "b.onnx")
    before = Folder(tmp_path).scan()
    for name in ("a/1/model.onnx", "a/1/weights", "a/model.toml"):
        (tmp_path / name).write_text(f"{name} is longer")
        now = Folder(tmp_path).scan()
        assert now["a"][1].stamp != before["a"][1].stamp
        assert now["b"] == before["b"]
        before = now


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"there is no folder .*/models"):
        Folder(tmp_path / "models")
