from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from tests.support.models import small_model

TOOLS = Path(__file__).resolve().parents[2] / "tools"


def _run(tool: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOLS / tool), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_bench_reports_every_runtime_and_the_conditions(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    path = tmp_path / "small.onnx"
    onnx.save(small_model(), path)
    quick = ["--device", "host", "--rounds", 2, "--runs", 1, "--warm", 0, "--against", "onnxruntime", "--threads", 1]
    done = _run("bench", path, *quick)
    assert done.returncode == 0, done.stderr
    for word in ("cpu", "1 thread", "versions", "[1, 3, 10, 10]", "clgraph ", "onnxruntime ", "| geometric mean |"):
        assert word in done.stdout


@pytest.mark.parametrize(
    ("call", "status", "message"),
    [
        ("bench nothing.onnx --device host", 2, "bench: error: nothing.onnx is not a file, and none of "),
        ("fetch_models nothing.onnx", 1, "no model is called"),
        ("mutate --since nothing", 1, "fatal: "),
    ],
)
def test_a_tool_says_what_is_wrong_in_one_line(call: str, status: int, message: str) -> None:
    done = _run(*call.split())
    assert done.returncode == status
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_fuzzing_memory_says_how_much_was_checked() -> None:
    done = _run("fuzz_memory", "--count", 3)
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith("3 graphs, 6 plans of ")
    assert "15 executions, 0 graphs wrong" in done.stdout


@pytest.mark.opencl
def test_the_model_matrix_prints_a_row_a_model_and_what_stayed_alone() -> None:
    pytest.importorskip("onnxruntime")
    done = _run("model_matrix", "squeezenet", "--device", "pocl", "--only", "out of order")
    assert done.returncode == 0, done.stderr
    assert "| squeezenet | 65 | " in done.stdout
    assert "- reorder: " in done.stdout
    assert "out of order" in done.stderr
