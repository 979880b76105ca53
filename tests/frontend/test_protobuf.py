"""ONNX's messages and schemas without its package."""

import re
from pathlib import Path

import onnx
from onnx import defs

import clgraph.frontend
from clgraph.frontend import protobuf

FRONTEND = Path(clgraph.frontend.__file__).parent


def test_modules_of_the_front_end_import_no_more_of_onnx_than_they_need() -> None:
    """A part that is seldom wanted is imported inside the function that wants it."""
    found = {p.name for p in FRONTEND.glob("*.py") if re.search(r"^(import|from) onnx\b", p.read_text(), re.MULTILINE)}
    assert not found, "import onnx from clgraph.frontend.protobuf"


def test_messages_and_schemas_are_those_of_the_package() -> None:
    assert protobuf.onnx.ModelProto is onnx.ModelProto
    assert protobuf.TensorProto is onnx.TensorProto
    assert protobuf.defs.OpSchema is defs.OpSchema
    assert protobuf.newest_opset() == defs.onnx_opset_version()
    assert protobuf.onnx.numpy_helper is onnx.numpy_helper
    assert protobuf.onnx.__version__ == onnx.__version__
