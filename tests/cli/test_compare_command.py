from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.support.models import image, small_model
from tests.support.planted import wrong_kernel, wrong_pass

Command = Callable[..., tuple[int, str, str]]

WHERE = ("--device", "pocl")


@pytest.mark.opencl
def test_compare_shows_every_node_and_says_that_all_agree(clgraph_command: Command, model: Path) -> None:
    status, out, _ = clgraph_command("compare", model, *WHERE, "--top", 0)
    assert status == 0
    assert "first" in out
    assert "agree within 0.001" in out


@pytest.mark.opencl
def test_compare_takes_given_inputs_and_another_runtime(clgraph_command: Command, model: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    np.save(tmp_path / "x.npy", image((1, 3, 10, 10)))
    status, out, _ = clgraph_command("compare", model, *WHERE, "--input", "x=x.npy", "--against", "onnxruntime")
    assert status == 0
    assert "device and onnxruntime agree" in out


@pytest.mark.opencl
def test_compare_names_a_wrong_pass_and_a_wrong_kernel(
    clgraph_command: Command, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with wrong_pass(monkeypatch, "decompose"):
        status, out, _ = clgraph_command("compare", model, *WHERE, "--bisect")
    assert status == 1
    assert "found       pass 'plant_a_fault' changes what the model computes" in out
    average = small_model(16, 16)
    average.graph.node[2].op_type = "AveragePool"
    onnx.save(average, tmp_path / "average.onnx")
    with wrong_kernel():
        status, out, _ = clgraph_command("compare", tmp_path / "average.onnx", *WHERE, "--bisect")
    assert status == 1
    assert "found       kernel 'pooling.wrong' is wrong at node 'pool'" in out
    assert "tried       without pooling.wrong: off by" in out


@pytest.mark.opencl
def test_compare_shows_which_layers_of_a_quantised_model_lose_accuracy(
    clgraph_command: Command, model: Path, tmp_path: Path
) -> None:
    quantization = pytest.importorskip("onnxruntime.quantization")
    quantization.quantize_dynamic(model, tmp_path / "int8.onnx")
    ask = ("compare", tmp_path / "int8.onnx", *WHERE, "--against", model, "--seed", 1)
    status, out, _ = clgraph_command(*ask)
    assert status == 0
    assert out.startswith("layer")
    assert "adds most" in out
    assert max(map(len, out.splitlines())) <= 80
    status, out, _ = clgraph_command(*ask, "--json", "--tolerance", 1e-9)
    assert status == 1
    found = json.loads(out)
    assert found["comparison"]["outputs"][0]["device"]["rms"] > 1e-9
    assert {"layer", "snr", "own", "rounding", "beyond"} <= set(found["comparison"]["layers"][0])


def test_compare_refuses_another_model_that_it_cannot_use(
    clgraph_command: Command, model: Path, tmp_path: Path
) -> None:
    wrong = {
        ("--against", model, "--bisect"): "not against another model",
        ("--against", "reference"): "there is no file reference",
    }
    for arguments, said in wrong.items():
        status, _, err = clgraph_command("compare", model, "--device", "null", *arguments)
        assert (status, said in err) == (1, True), err


def test_a_dry_run_compares_nothing(clgraph_command: Command, model: Path) -> None:
    status, _, err = clgraph_command("compare", model, "--device", "null")
    assert status == 1
    assert "there is nothing to compare" in err
    assert "Traceback" not in err
