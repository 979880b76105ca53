"""Models that ``ModelCompiler`` writes, with their initialisers or beside them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import clgraph.onnxruntime as ort
from clgraph.onnxruntime.capi.onnxruntime_pybind11_state import Fail
from tests.support.ort_models import identity


def model_with_weights() -> bytes:
    model = onnx.ModelProto.FromString(identity())
    model.graph.initializer.append(numpy_helper.from_array(np.arange(400, dtype=np.float32), "w"))
    return model.SerializeToString()


def test_large_initialisers_go_beside_the_model(tmp_path):
    compiler = ort.ModelCompiler(
        ort.SessionOptions(), model_with_weights(), external_initializers_file_path="weights.bin"
    )
    compiler.compile_to_file(str(tmp_path / "made.onnx"))
    assert (tmp_path / "weights.bin").stat().st_size == 1600
    made = onnx.load(tmp_path / "made.onnx")
    np.testing.assert_array_equal(numpy_helper.to_array(made.graph.initializer[0]), np.arange(400))


def test_a_file_without_a_name_lies_beside_the_model_and_flags_keep_what_is_there(tmp_path):
    source = tmp_path / "model.onnx"
    source.write_bytes(identity())
    ort.ModelCompiler(ort.SessionOptions(), source).compile_to_file()
    made = tmp_path / "model_ctx.onnx"
    assert onnx.load(made).graph.node
    kept = ort.ModelCompiler(ort.SessionOptions(), source, flags=ort.OrtCompileApiFlags.ERROR_IF_OUTPUT_FILE_EXISTS)
    with pytest.raises(Fail, match="exists"):
        kept.compile_to_file()
