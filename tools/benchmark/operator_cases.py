"""A model of one operator, and the numbers that it is given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

Array = NDArray[Any]

OPSET = 18

ML = "ai.onnx.ml"

TYPES = {
    "f32": np.float32,
    "f16": np.float16,
    "f64": np.float64,
    "i64": np.int64,
    "i32": np.int32,
    "i8": np.int8,
    "u64": np.uint64,
    "u32": np.uint32,
    "u8": np.uint8,
    "bool": np.bool_,
}


@dataclass(frozen=True)
class OperatorCase:
    """A node, its inputs and its constants, which follow them.

    Attributes:
        outputs: Of the node; the type of each is inferred.
        opset: Of the model.
        domain: Of the node.
    """

    op_type: str
    inputs: tuple[Array, ...]
    constants: tuple[Array | None, ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    opset: int = OPSET
    domain: str = ""

    def model(self) -> tuple[onnx.ModelProto, dict[str, Array]]:
        """Return a model of the node, and its inputs."""
        feeds = {f"x{i}": array for i, array in enumerate(self.inputs)}
        held = {f"c{i}": array for i, array in enumerate(self.constants)}
        names = [*feeds, *(name if array is not None else "" for name, array in held.items())]
        outputs = [f"y{i}" for i in range(self.outputs)]
        graph = helper.make_graph(
            [helper.make_node(self.op_type, names, outputs, name="node", domain=self.domain, **self.attributes)],
            "operator",
            [helper.make_tensor_value_info(name, _code(a), a.shape) for name, a in feeds.items()],
            [onnx.ValueInfoProto(name=name) for name in outputs],
            [numpy_helper.from_array(array, name) for name, array in held.items() if array is not None],
        )
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid(ML, 3)][: 1 + (self.domain == ML)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        inferred = onnx.shape_inference.infer_shapes(model)
        for made, found in zip(graph.output, inferred.graph.output, strict=True):
            made.CopyFrom(found)
        return helper.make_model(graph, opset_imports=model.opset_import, ir_version=8), feeds


def _code(array: Array) -> int:
    """Return ONNX's number of the type; objects are strings."""
    return onnx.TensorProto.STRING if array.dtype == object else helper.np_dtype_to_tensor_dtype(array.dtype)


def draw(dtype: str, shape: Sequence[int], low: float = -4, high: float = 4) -> Array:
    """Return numbers of *dtype*, a name of :data:`TYPES`, between the bounds; the same for the same arguments."""
    rng, kind = np.random.default_rng(0), np.dtype(TYPES[dtype])
    if kind.kind == "b":
        return rng.random(shape) < 0.5
    low = max(low, 0) if kind.kind == "u" else low
    made = rng.integers(int(low), int(high) + 1, shape) if kind.kind in "iu" else rng.uniform(low, high, shape)
    return made.astype(kind)


Cases = Iterator[tuple[str, Callable[[], OperatorCase]]]


def drawn(
    op_type: str, *inputs: Array | tuple[Any, ...], constants: tuple[Array | None, ...] = (), **options: Any
) -> Callable[[], OperatorCase]:
    """Return what makes a case; of inputs that are arguments of :func:`draw`, numbers are drawn when it is made."""
    return lambda: OperatorCase(
        op_type, tuple(draw(*i) if isinstance(i, tuple) else i for i in inputs), constants, **options
    )
