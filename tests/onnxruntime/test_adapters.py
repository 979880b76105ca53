"""LoRA adapters: files of ONNX Runtime's, and what runs make of them."""

from __future__ import annotations

import contextlib

import numpy as np
import onnx
import onnxruntime as theirs
import pytest

import clgraph.onnxruntime as ours
from clgraph.onnxruntime import statuses

F = np.float32
TEXT = """<ir_version: 8, opset_import: ["" : 17]>
adapted (float[n,3] x, float[3,rank] a, float[rank,2] b) => (float[n,2] y)
    <float[3,2] w = {1, 2, 3, 4, 5, 6}> {
    p = MatMul (x, w)
    q = MatMul (x, a)
    s = MatMul (q, b)
    y = Add (p, s)
}"""


def adapted():
    """Return a model ``y = x w + (x a) b``, whose a and b are overridable initialisers of rank 0."""
    model = onnx.parser.parse_model(TEXT)
    for name, shape in (("a", (3, 0)), ("b", (0, 2))):
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(shape, F), name))
    return model.SerializeToString()


def written(by, path, arrays, version=0):
    """Write the file of an adapter by the runtime *by*; return its path."""
    made = by.AdapterFormat()
    made.set_adapter_version(version)
    made.set_parameters({name: by.OrtValue.ortvalue_from_numpy(array) for name, array in arrays.items()})
    made.export_adapter(str(path))
    return str(path)


ALIVE = []
"""Adapters that ONNX Runtime's options point to."""


def options(by, *paths):
    """Return options of a run with the adapters at *paths*."""
    made = by.RunOptions()
    for path in paths:
        adapter = by.LoraAdapter()
        adapter.Load(path)
        made.add_active_adapter(adapter)
        ALIVE.append(adapter)
    return made


@pytest.mark.opencl
@pytest.mark.parametrize("writer", [theirs, ours])
def test_runs_with_adapters_are_onnxruntimes(writer, tmp_path, rng):
    arrays = {"a": rng.standard_normal((3, 2)).astype(F), "b": rng.standard_normal((2, 2)).astype(F)}
    one = written(writer, tmp_path / "one", arrays)
    two = written(writer, tmp_path / "two", {name: 2 * array for name, array in arrays.items()})
    made, x = adapted(), rng.standard_normal((4, 3)).astype(F)
    sessions = {by: by.InferenceSession(made, providers=["CPUExecutionProvider"]) for by in (theirs, ours)}
    for paths in ((), (one,), (one, two), (one,), ()):
        for more in ({}, {"a": np.ones((3, 2), F)}) if paths else ({},):
            got, want = (s.run(None, {"x": x, **more}, options(by, *paths))[0] for by, s in sessions.items())
            # Two sums of at most 4 products of 3 products, rounded as often; what is summed is below 64.
            np.testing.assert_allclose(got, want, rtol=0, atol=2 * 16 * 2.0**-24 * 64)


@pytest.mark.parametrize(("writer", "reader"), [(theirs, ours), (ours, theirs), (ours, ours)])
def test_what_is_written_is_read(writer, reader, tmp_path, rng):
    arrays = {
        "half": rng.standard_normal((3, 5)).astype(np.float16),
        "none": np.zeros((0, 4), F),
        "one": np.array([3], np.int64),
        "bytes": np.arange(7, dtype=np.uint8),
    }
    found = reader.AdapterFormat.read_adapter(written(writer, tmp_path / "adapter", arrays, version=5))
    assert (found.get_format_version(), found.get_adapter_version(), found.get_model_version()) == (1, 5, 0)
    read = {name: value.numpy() for name, value in found.get_parameters().items()}
    assert read.keys() == arrays.keys()
    for name, array in arrays.items():
        assert read[name].dtype == array.dtype
        np.testing.assert_array_equal(read[name], array)


def test_damaged_files_are_one_error(tmp_path):
    whole = written(theirs, tmp_path / "whole", {"a": np.ones((3, 2), F), "b": np.ones(4, np.float16)})
    content, adapter = (tmp_path / "whole").read_bytes(), ours.LoraAdapter()
    with pytest.raises(RuntimeError, match="cannot be read"):
        adapter.Load(str(tmp_path / "nowhere"))
    with pytest.raises(TypeError, match="a text"):
        adapter.Load(3)  # type: ignore[arg-type]
    path, random = tmp_path / "damaged", np.random.default_rng(0)
    for case in range(300):
        changed = bytearray(content[: random.integers(len(content))] if case % 2 else content)
        if changed:
            changed[random.integers(len(changed))] = random.integers(256)
        path.write_bytes(changed)
        with contextlib.suppress(statuses.RefusedError):  # a change may be of an element
            adapter.Load(str(path))
    adapter.Load(whole)
    assert adapter.arrays["a"].shape == (3, 2)


@pytest.mark.opencl
def test_adapters_that_do_not_fit_the_model_are_refused_as_by_onnxruntime(tmp_path):
    session, x = ours.InferenceSession(adapted(), providers=["CPUExecutionProvider"]), np.ones((1, 3), F)
    for arrays, message in (
        ({"zz": np.ones(2, F)}, "Invalid input name: zz"),
        ({"a": np.ones((3, 2))}, r"Unexpected input data type. Actual: \(tensor\(double\)\)"),
    ):
        with pytest.raises(statuses.InvalidArgument, match=message):
            session.run(None, {"x": x}, options(ours, written(ours, tmp_path / "adapter", arrays)))
    with pytest.raises(TypeError, match="a LoraAdapter, not int"):
        ours.RunOptions().add_active_adapter(3)
    np.testing.assert_allclose(session.run(None, {"x": x})[0], [[9, 12]])
