"""Weights in files beside the model: mapped, and only from its folder."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser
from onnx.external_data_helper import convert_model_to_external_data

from clgraph.core.mapped import files_of
from clgraph.errors import ModelError
from clgraph.frontend.onnx_loader import load_onnx
from clgraph.network.addresses import left_at, suits_all


def _external(tmp_path: Path) -> Path:
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 18]> g (float[400] x) => (float[400] y) { y = Add(x, w) }'
    )
    model.graph.initializer.append(numpy_helper.from_array(np.arange(400, dtype=np.float32), "w"))
    convert_model_to_external_data(model, location="weights.bin", size_threshold=0)
    path = tmp_path / "model" / "model.onnx"
    path.parent.mkdir()
    onnx.save(model, path)
    return path


def test_external_data_is_mapped_from_the_models_folder(tmp_path: Path) -> None:
    weights = load_onnx(_external(tmp_path)).constants["w"]
    assert np.array_equal(weights, np.arange(400, dtype=np.float32))
    assert len(files_of([weights])) == 1


def test_external_data_with_more_of_the_file_behind_it_is_read_where_it_lies_by_any_kernel(tmp_path: Path) -> None:
    """A vector may reach behind the end of a constant: bytes of the file that are mapped, too."""
    path = _external(tmp_path)
    model = onnx.load(path, load_external_data=False)
    held = model.graph.initializer[0]
    del held.external_data[:]
    for key, value in (("location", "more.bin"), ("offset", "4096"), ("length", "65536")):
        held.external_data.add(key=key, value=value)
    held.dims[:] = [16384]
    (path.parent / "more.bin").write_bytes(bytes(80_000))
    onnx.save(model, path)
    weights = load_onnx(path).constants["w"]
    address = left_at(weights)
    assert address is not None
    assert suits_all(weights, address)
    assert len(files_of([weights])) == 1


@pytest.mark.parametrize("location", ["../weights.bin", "/etc/hostname", "", "link.bin", "missing.bin", "pipe", "."])
def test_external_data_outside_the_folder_is_refused(location: str, tmp_path: Path) -> None:
    path = _external(tmp_path)
    (tmp_path / "weights.bin").write_bytes(bytes(1600))
    (path.parent / "link.bin").symlink_to(tmp_path / "weights.bin")
    os.mkfifo(path.parent / "pipe")
    model = onnx.load(path, load_external_data=False)
    model.graph.initializer[0].external_data[0].value = location
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match="'w'"):
        load_onnx(path)


def test_a_folder_in_the_place_of_external_data_is_called_one(tmp_path: Path) -> None:
    path = _external(tmp_path)
    (path.parent / "weights.bin").unlink()
    (path.parent / "weights.bin").mkdir()
    with pytest.raises(ModelError, match="which is no file but a folder, a pipe or a device"):
        load_onnx(path)


def test_external_data_that_is_cut_or_without_a_folder_is_refused(tmp_path: Path) -> None:
    path = _external(tmp_path)
    with pytest.raises(ModelError, match="give the model's path"):
        load_onnx(path.read_bytes())
    (path.parent / "weights.bin").write_bytes(bytes(100))
    with pytest.raises(ModelError, match=r"which has 100$"):
        load_onnx(path)
    (path.parent / "weights.bin").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    with pytest.raises(ModelError, match="`git lfs pull` fetches it"):
        load_onnx(path)
