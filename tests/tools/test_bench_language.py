"""What ``tools/bench --set language`` measures, and its tables."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.decoder_weights import Decoder
from tools.benchmark import bandwidth, language, language_models, language_peers
from tools.benchmark.found import Found
from tools.benchmark.language import LanguageFigures, language_markdown, measure_language
from tools.benchmark.language_models import LANGUAGE, LANGUAGE_SET, bytes_of_a_token, folder_of
from tools.benchmark.language_peers import GENAI, LANGUAGE_RUNTIMES
from tools.benchmark.measuring import Schedule
from tools.benchmark.peers import Options

FIGURES = LanguageFigures(
    "tiny",
    2,
    50_000_000,
    60 << 20,
    30_000_000,
    10e9,
    {"clgraph": [0.004, 0.006, 0.005], "onnxruntime": [0.01, 0.01, 0.01]},
    {str(n): {"clgraph": [0.5], "onnxruntime": [0.4]} for n in (128, 512)},
    {"onnxruntime": 16},
    {"clgraph": 90.0, "onnxruntime": 80.0},
    0.5,
)


def test_the_largest_model_has_half_a_billion_parameters_in_4_bits() -> None:
    sizes = {name: LANGUAGE[name].parameters for name in LANGUAGE_SET}
    largest = LANGUAGE[max(sizes, key=sizes.__getitem__)]
    assert 0.45e9 < largest.parameters < 0.55e9
    assert largest.bits == 4
    assert {d.export for d in LANGUAGE.values()} == {"genai", "onnx23", "optimum"}


def test_tables_have_rates_ratios_and_memory() -> None:
    text = language_markdown([FIGURES])
    assert "| tiny, 2 | clgraph | 5.00 | 200.0 |  | 500.0 | 500.0 |  |  |" in text
    assert "|  | onnxruntime | 10.00 | 100.0 | 0.50 | 400.0 | 400.0 | 1.25 / 1.25 | 16 of 16 |" in text
    assert (
        "| tiny, 2 | 50 M | 60 | clgraph 7.5, onnxruntime 3.0 | 75% of 10.0 GB/s | clgraph 90, onnxruntime 80 |" in text
    )
    found = Found(language=[FIGURES])
    assert Found.from_data(found.to_data()).language == [FIGURES]
    assert text in "\n".join(found.sections())


def test_a_folder_is_written_once_and_again_for_other_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    d = Decoder(bits=4, packed_qkv=True)
    monkeypatch.setitem(LANGUAGE, "tiny", d)
    folder = folder_of("tiny", tmp_path)
    written = (folder / "model.onnx.data").stat()
    assert folder_of("tiny", tmp_path) == folder
    assert (folder / "model.onnx.data").stat().st_mtime_ns == written.st_mtime_ns
    # Half a byte and an eighth of a scale a weight of products; norms, tables of angles, and the graph itself.
    least = (d.parameters - d.vocabulary * d.width) * (0.5 + 4 / 32)
    assert least < bytes_of_a_token(d, folder) < least + (2 * d.positions * d.head_size // 2 + 5 * d.width) * 4 + 30_000
    monkeypatch.setitem(LANGUAGE, "tiny", replace(d, bits=8))
    folder_of("tiny", tmp_path)
    assert (folder / "model.onnx.data").stat().st_size > written.st_size


def test_a_process_whose_memory_is_measured_finds_none_of_the_models_files_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("model.onnx", "model.onnx.data", "tokenizer.json"):
        (tmp_path / name).write_bytes(b"0")
    monkeypatch.setattr(language, "folder_of", lambda name: tmp_path)
    done: list[str] = []

    def told(what: str) -> Callable[..., None]:
        return lambda file, *_: done.append(f"{what} {Path(f'/proc/self/fd/{file}').readlink().name}")

    def started(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        done.append("start")
        return subprocess.CompletedProcess(command, 0, "12.5\n", "")

    monkeypatch.setattr(os, "fsync", told("write"))
    monkeypatch.setattr(os, "posix_fadvise", told("forget"))
    monkeypatch.setattr(subprocess, "run", started)
    assert language._memory("clgraph", "tiny", Options("pocl:0", 1)) == 12.5
    files = ("model.onnx", "model.onnx.data")
    assert done == [*(f"{what} {name}" for name in files for what in ("write", "forget")), "start"]


def test_threads_read_as_fast_as_in_their_best_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bandwidth, "_CPU_BYTES", 1 << 10)
    monkeypatch.setattr(bandwidth, "_PASSES", 3)
    clock = iter([0.0, 4.0, 5.0, 6.0, 7.0, 10.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    assert bandwidth.read_bandwidth("host", 2) == 2 << 10


@pytest.mark.opencl
def test_runtimes_continue_alike_and_everything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    monkeypatch.setitem(LANGUAGE, "tiny", Decoder())
    monkeypatch.setattr(language, "PROMPTS", (4, 6))
    monkeypatch.setattr(language, "TOKENS", 2)
    monkeypatch.setattr(bandwidth, "_CPU_BYTES", 1 << 20)
    monkeypatch.setattr(language, "_memory", lambda *_: 1.0)
    monkeypatch.setattr(language, "folder_of", lambda name: language_models.folder_of(name, tmp_path))
    found = measure_language("tiny", Options(device, 1), Schedule(rounds=1, pause=0))
    runtimes = ["clgraph", *language_peers.peers_of(Decoder())]
    assert "onnxruntime" in runtimes
    assert GENAI not in language_peers.peers_of(Decoder(export="optimum"))
    assert set(runtimes) <= set(LANGUAGE_RUNTIMES)
    assert found.equal == dict.fromkeys(runtimes[1:], 2)
    assert list(found.token) == runtimes
    assert all(len(times) == 1 and times[0] > 0 for times in found.token.values())
    assert all(times[0] > 0 for prompt in found.prompts.values() for times in prompt.values())
    assert list(found.prompts) == ["4", "6"]
    assert found.bandwidth > 0
