"""ONNX Runtime's questions about operators: the schemas there are, and the kernels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import onnx

from clgraph.core.frozen import frozen
from clgraph.errors import UnsupportedError
from clgraph.frontend.files import map_model
from clgraph.graph.importing import MICROSOFT
from clgraph.onnxruntime.statuses import Fail, InvalidGraph, RefusedError
from clgraph.onnxruntime.statuses import NotImplemented as NotHere
from clgraph.ops import index


@contextmanager
def unknown_operators(source: str | bytes) -> Iterator[None]:
    """Tell operators that there are not from those that clgraph does not have, as ONNX Runtime does.

    Raises:
        InvalidGraph: The operator set of the model does not have a refused operator, or its domain is not imported.
        Fail: A refused operator is of a domain that is neither ONNX's nor ONNX Runtime's.
        UnsupportedError: clgraph does not have another one.
    """
    try:
        yield
    except UnsupportedError as error:
        model = map_model(source)[0]
        opsets = {"" if s.domain == "ai.onnx" else s.domain: int(s.version) for s in model.opset_import}
        for node in model.graph.node:
            domain = "" if node.domain == "ai.onnx" else node.domain
            name = f"{domain}.{node.op_type}" if domain else node.op_type
            if f" {name} (" not in str(error) or domain.startswith(MICROSOFT):
                continue
            if domain not in ("", "ai.onnx.ml") and domain in opsets:
                raise Fail(f"{domain}:{node.op_type} is not a registered function/op: {error}") from error
            if not _has(node.op_type, opsets.get(domain, 0), domain):
                raise InvalidGraph(f"No Op registered for {node.op_type}: {error}") from error
        raise


def _has(op_type: str, opset: int, domain: str) -> bool:
    try:
        return not onnx.defs.get_schema(op_type, opset, domain).deprecated
    except onnx.defs.SchemaError:
        return False


@frozen
class FormalParameter:
    """An input or output of an operator, under ONNX Runtime's names.

    Attributes:
        typeStr: Its type, or the name of the types it is constrained to.
        isHomogeneous: Whether all that a variadic one takes are of one type.
    """

    name: str
    types: set[str]
    typeStr: str  # noqa: N815  # as ONNX Runtime has it
    description: str
    option: Any
    isHomogeneous: bool  # noqa: N815  # as ONNX Runtime has it


class OpSchema:
    """What is known of an operator; attributes that are not here are those of onnx's."""

    def __init__(self, schema: Any) -> None:
        """Take onnx's."""
        self._schema = schema

    def __getattr__(self, name: str) -> Any:
        return getattr(self._schema, name)

    @property
    def inputs(self) -> list[FormalParameter]:
        """What it takes."""
        return [*map(_parameter, self._schema.inputs)]

    @property
    def outputs(self) -> list[FormalParameter]:
        """What it returns."""
        return [*map(_parameter, self._schema.outputs)]


def _parameter(p: Any) -> FormalParameter:
    return FormalParameter(p.name, p.types, p.type_str, p.description, p.option, p.is_homogeneous)


def get_all_operator_schema() -> list[OpSchema]:
    """Return every version of ONNX's operators, and com.microsoft's that clgraph runs, these by their names alone."""
    return [*map(OpSchema, onnx.defs.get_all_schemas_with_history()), *map(OpSchema, _microsoft())]


def _microsoft() -> Iterator[Any]:
    names = sorted({name for text in index.MICROSOFT.values() for name in text.split()})
    return (onnx.defs.OpSchema(name, MICROSOFT, 1, doc="clgraph has no schema of this operator.") for name in names)


def get_all_opkernel_def() -> NoReturn:
    """Refuse. Raises ``NotImplemented``, always."""
    raise NotHere("ONNX Runtime's kernels are not here: `clgraph check model.onnx` tells what runs each node")


def get_registered_ep_kernel_defs(ep_name: str) -> NoReturn:
    """Refuse. Raises ``RefusedError`` (a ``RuntimeError``), always: no library of ONNX Runtime is registered."""
    raise RefusedError(f"No devices found for EP {ep_name!r}: libraries of ONNX Runtime cannot be registered")
