"""ONNX's messages and operator schemas, without the rest of onnx's Python package.

That takes 65 ms of processor time to import, a tenth of a start that compiles: protobuf's text formats, sockets, arrays
of small types. Messages and schemas take 15. They are the package's own: a process may import it beside them.

``onnx`` has the messages, and whatever else the package has once somebody asks for it; ``defs`` has the schemas.
"""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING, Any

from clgraph.core.part import import_part

if TYPE_CHECKING:
    import onnx as onnx
    from onnx import AttributeProto as AttributeProto
    from onnx import TensorProto as TensorProto
    from onnx import defs as defs
else:

    class _Messages:
        """The messages, and the rest of the package, imported when something of it is asked for."""

        def __getattr__(self, name: str) -> Any:
            messages = import_part("onnx.onnx_ml_pb2")
            found = (
                getattr(messages, name) if hasattr(messages, name) else getattr(importlib.import_module("onnx"), name)
            )
            setattr(self, name, found)
            return found

    onnx = _Messages()
    AttributeProto, TensorProto = onnx.AttributeProto, onnx.TensorProto

    def __getattr__(name: str) -> Any:
        """Return the schemas, whose library is loaded when they are asked for."""
        if name != "defs":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return _schemas()


@functools.cache
def _schemas() -> Any:
    return import_part("onnx.onnx_cpp2py_export").defs


def newest_opset() -> int:
    """Return the newest set of ONNX's own operators that the installed onnx has schemas of."""
    return int(_schemas().schema_version_map()[""][1])
