"""The files of saved models: what is in them, and where they can be written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import clgraph
from clgraph.errors import ClgraphError, ModelError
from clgraph.saved.container import Blobs, Contents
from tests.support.models import small_model


def test_equal_bytes_are_one_blob_whoever_holds_them(tmp_path: Path) -> None:
    blobs = Blobs()
    first, second = np.arange(64, dtype=np.int64), np.arange(64, dtype=np.int64).reshape(8, 8)
    assert blobs.add(first) == [0, "I64", [64]]
    assert blobs.add(second) == [0, "I64", [8, 8]]
    assert blobs.add(second[:, 1]) == [1, "I64", [8]]
    assert blobs.add(np.arange(17, dtype=np.int8)) == [2, "I8", [17]]
    blobs.write(tmp_path / "b", {})
    contents = Contents(tmp_path / "b")
    assert contents.array([2, "I8", [17]]).tolist() == list(range(17))
    for number, nbytes in enumerate((512, 64, 17)):
        array = contents.array([number, "I8", [nbytes]])
        assert array.ctypes.data % 64 == 0
        assert array.base is not None
        assert contents.header["blobs"][number][1] == nbytes
    starts = [offset for offset, _, _ in contents.header["blobs"]]
    assert all(start % 64 == 0 for start in starts)
    assert starts == [0, 512 + 64, 512 + 64 + 64 + 64]
    assert (tmp_path / "b").stat().st_size % 64 == 0
    np.testing.assert_array_equal(contents.array([0, "I64", [8, 8]]), second)
    np.testing.assert_array_equal(contents.array([1, "I64", [8]]), second[:, 1])


def test_other_files_are_model_errors(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(small_model().SerializeToString()[:-1])
    for path in (tmp_path / "m.onnx", tmp_path / "absent.clg", tmp_path):
        with pytest.raises(ModelError):
            clgraph.load(path)


def test_what_is_no_path_is_compiled_or_a_model_error() -> None:
    given = small_model()
    for source in (given, given.SerializeToString()):
        assert clgraph.load(source, device="host").input_names == ("x",)
    for source in (b"abc", None, 5):
        with pytest.raises(ModelError):
            clgraph.load(source)


@pytest.mark.parametrize("where", ["absent/m.clg", "file/m.clg", "folder"])
def test_a_place_that_cannot_be_written_is_a_model_error_and_leaves_nothing(where: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ModelError, match="cannot be saved"):
        clgraph.compile(small_model(), device="host").save(tmp_path / where)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_full_disk_leaves_the_old_file(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    old = saved.read_bytes()
    model = clgraph.load(saved, device="host")
    monkeypatch.setattr("os.replace", full)
    with pytest.raises(ModelError, match="No space left"):
        model.save(saved)
    assert saved.read_bytes() == old
    assert list(saved.parent.iterdir()) == [saved]


def test_every_error_is_one_of_clgraph_s(saved: Path) -> None:
    with pytest.raises(ClgraphError):
        clgraph.load(saved, device="no such device")
    with pytest.raises(ClgraphError):
        clgraph.load(saved, device="host", config={"wings": 2})
