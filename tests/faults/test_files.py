"""Model files that change while a model is in use: one error, never the end of the process."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest

import clgraph
from clgraph.core import mapped
from clgraph.core.mapped import MappedFile, files_of
from clgraph.errors import ModelError
from tests.support.models import image, small_model

CHANNELS = 40
"""The weights of four times as many take 17280 and 102400 bytes: they stay in the file, mapped."""


@pytest.fixture(params=["host", pytest.param("pocl", marks=pytest.mark.opencl)])
def where(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def cut(path: Path) -> None:
    os.truncate(path, 100)


def emptied(path: Path) -> None:
    os.truncate(path, 0)


def overwritten(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"garbage")
    os.utime(path, (1, 1))


def wide_model() -> onnx.ModelProto:
    return small_model(size="n", channels=4 * CHANNELS)


@pytest.fixture
def mapped_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let files of these sizes be mapped."""
    monkeypatch.setattr(mapped, "READ_BYTES", 0)


@pytest.fixture
def onnx_file(tmp_path: Path) -> Path:
    onnx.save(wide_model(), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def external_file(folder: Path) -> tuple[Path, Path]:
    path = folder / "m.onnx"
    onnx.save(wide_model(), path, save_as_external_data=True, location="weights.bin", size_threshold=1024)
    return path, folder / "weights.bin"


CHANGES = [cut, emptied, overwritten]


@pytest.mark.usefixtures("mapped_files")
@pytest.mark.parametrize("change", CHANGES)
def test_a_model_whose_file_changes_says_so_before_it_compiles_again(where: str, onnx_file: Path, change) -> None:
    model = clgraph.compile(onnx_file, device=where)
    change(onnx_file)
    for _ in range(2):
        with pytest.raises(ModelError, match=r"m\.onnx was (cut|written)"):
            model(image((1, 3, 8, 8)))
    with pytest.raises(ModelError, match="load it again"):
        model.save(onnx_file.with_name("m.clg"))


@pytest.mark.parametrize("change", CHANGES)
def test_external_weights_that_change_are_noticed(where: str, tmp_path: Path, change) -> None:
    path, weights = external_file(tmp_path)
    model = clgraph.compile(path, device=where)
    assert model(image((1, 3, 8, 8))).shape == (1, 4 * CHANNELS, 4, 4)
    change(weights)
    with pytest.raises(ModelError, match=r"weights\.bin was"):
        model(image((1, 3, 10, 8)))


@pytest.mark.parametrize("change", CHANGES)
def test_what_becomes_of_a_small_file_is_no_matter(where: str, onnx_file: Path, tmp_path: Path, change) -> None:
    model = clgraph.compile(onnx_file, device=where)
    change(onnx_file)
    x = image((1, 3, 8, 8))
    np.testing.assert_array_equal(model(x), clgraph.compile(wide_model(), device=where)(x))
    model.save(tmp_path / "m.clg")


@pytest.mark.parametrize("change", CHANGES)
def test_a_saved_model_whose_file_changes_says_so(where: str, onnx_file: Path, change) -> None:
    path = onnx_file.with_name("m.clg")
    x = image((1, 3, 8, 8))
    first = clgraph.compile(onnx_file, device=where)
    first(x)
    first.save(path)
    model = clgraph.load(path, device=where)
    np.testing.assert_array_equal(model(x), first(x))
    change(path)
    for size in (8, 10):
        with pytest.raises(ModelError, match=r"m\.clg was"):
            model(image((1, 3, size, size)))
    with pytest.raises(ModelError):
        clgraph.load(path, device=where)


@pytest.mark.parametrize("change", ["removed", "replaced"])
def test_a_file_that_is_removed_or_replaced_is_no_matter(where: str, onnx_file: Path, change: str) -> None:
    model = clgraph.compile(onnx_file, device=where)
    want = clgraph.compile(wide_model(), device=where)(image((1, 3, 8, 8)))
    if change == "replaced":
        other = onnx_file.with_name("other")
        other.write_bytes(b"something else")
        other.replace(onnx_file)
    else:
        onnx_file.unlink()
    np.testing.assert_array_equal(model(image((1, 3, 8, 8))), want)
    np.testing.assert_array_equal(model.clone()(image((1, 3, 8, 8))), want)


def test_the_files_of_arrays_are_found_once_through_any_view(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(bytes(range(256)))
    file = MappedFile(path)
    array = np.frombuffer(file, np.uint8)
    views = [array, array[4:].view(np.float32).reshape(3, 21), array[::2], np.frombuffer(memoryview(file)[8:16])]
    assert files_of([*views, np.zeros(3)]) == [file]
    assert files_of([array.copy()]) == []
    file.check()
    os.truncate(path, 255)
    with pytest.raises(ModelError, match="cut to 255 bytes"):
        file.check()
