"""Types of ONNX values as schemas spell them: of a graph's inputs and outputs, and of what containers hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from clgraph.errors import ModelError, UnsupportedError
from clgraph.frontend.protobuf import TensorProto, onnx
from clgraph.frontend.weights import dtype_of
from clgraph.graph.host_types import inside, is_host_type
from clgraph.graph.signature import Dimension, Signature

_NAMES = {code: name.lower() for name, code in TensorProto.DataType.items() if code != TensorProto.UNDEFINED}
_KEYS = frozenset({TensorProto.STRING, TensorProto.INT64})
_HELD = _KEYS | {TensorProto.FLOAT, TensorProto.DOUBLE}
_PICKS = frozenset({"SequenceAt", "ConcatFromSequence", "OptionalGetElement"})
_WRAPS = {"SequenceConstruct": "seq", "SplitToSequence": "seq", "Optional": "optional"}


def tensor_of(code: int) -> str | None:
    """Return the type of a tensor of ONNX's element type *code*; ``None`` for one that ONNX does not define."""
    return f"tensor({_NAMES[code]})" if code in _NAMES else None


def declared_type(declared: onnx.TypeProto) -> str | None:
    """Return a declared type as ``tensor(float)`` or ``seq(map(int64,tensor(float)))``, ``None`` where it is open."""
    match declared.WhichOneof("value"):
        case "tensor_type":
            return tensor_of(declared.tensor_type.elem_type)
        case "sequence_type":
            return _wrapped("seq", declared_type(declared.sequence_type.elem_type))
        case "optional_type":
            return _wrapped("optional", declared_type(declared.optional_type.elem_type))
        case "map_type":
            held, key = declared_type(declared.map_type.value_type), _NAMES.get(declared.map_type.key_type)
            return None if held is None or key is None else f"map({key},{held})"
        case "sparse_tensor_type":
            held = tensor_of(declared.sparse_tensor_type.elem_type)
            return None if held is None else f"sparse_{held}"
    return None


def signature_of(value: onnx.ValueInfoProto, role: str, *, inner: bool = False) -> Signature:
    """Return name, type and shape of an input or output (*role*) of a graph; an *inner* one need not declare them.

    Raises:
        ModelError: An input has no type.
        UnsupportedError: It has one that clgraph does not hold.
    """
    what = f"{role} {value.name!r}"
    kind, spelled, tensor = value.type.WhichOneof("value"), declared_type(value.type), value.type.tensor_type
    if kind == "sparse_tensor_type" and role == "input":
        sparse = value.type.sparse_tensor_type
        return Signature(value.name, dtype_of(sparse.elem_type, what), declared_shape(sparse), sparse=True)
    if is_host_type(spelled) or kind in ("sparse_tensor_type", "opaque_type"):
        return Signature(value.name, None, declared_shape(tensor), _checked(value.type, what))
    if inner and (kind != "tensor_type" or not tensor.elem_type):
        return Signature(value.name, None, None)
    if kind != "tensor_type":
        if kind is None and role == "output":
            return Signature(value.name, None, None)
        problem = "has no type" if kind is None else f"is a {kind.removesuffix('_type')} of no type"
        raise ModelError(f"{what} {problem}")
    dtype = dtype_of(tensor.elem_type, what) if tensor.elem_type or role == "input" else None
    return Signature(value.name, dtype, declared_shape(tensor))


def completed(declared: Signature, made: str | None) -> Signature:
    """Return the signature of an output with the type *made* that its maker tells, where that is a host value's."""
    if declared.type is not None or not is_host_type(made) or made is None or made.endswith("...)"):
        return declared
    return replace(declared, host_type=made)


def check_declared(declared: Signature, role: str, made: str | None, shape: Sequence[Dimension] | None = None) -> None:
    """Refuse a value that is not what an input or output (*role*) is declared to be.

    Args:
        made: Its type, ``None`` where it is not known, and so with its *shape*.

    Raises:
        ModelError: It has another element type, number of axes or size. A number may be an array of one.
    """
    what, wanted = f"{role} {declared.name!r}", declared.type
    tensors = wanted is not None and made is not None and wanted.startswith("tensor(") and made.startswith("tensor(")
    if tensors and made != wanted:
        raise ModelError(f"{what} is declared as {wanted}, and its value is a {made}")
    if declared.shape is None or shape is None or (not declared.shape and all(size == 1 for size in shape)):
        return
    pairs = zip(declared.shape, shape, strict=False)
    if len(shape) != len(declared.shape) or any(isinstance(d, int) and d != size for d, size in pairs):
        raise ModelError(f"{what} is declared with shape {list(declared.shape)}, and its value has {list(shape)}")


def declared_shape(tensor: onnx.TypeProto.Tensor | onnx.TypeProto.SparseTensor) -> tuple[Dimension, ...] | None:
    """Return the shape that a type declares, ``None`` where it declares none."""
    return tuple(map(_dimension, tensor.shape.dim)) if tensor.HasField("shape") else None


def _dimension(dim: onnx.TensorShapeProto.Dimension) -> Dimension:
    if dim.HasField("dim_value"):
        return int(dim.dim_value) if dim.dim_value >= 0 else None
    return dim.dim_param or None


def _checked(declared: onnx.TypeProto, what: str) -> str:
    """Return a declared type of *what* that is not a tensor of numbers.

    Raises:
        ModelError, UnsupportedError: ONNX does not define an element type in it, or clgraph does not hold it.
    """
    match declared.WhichOneof("value"):
        case "tensor_type" if declared.tensor_type.elem_type != TensorProto.STRING:
            dtype_of(declared.tensor_type.elem_type, what)
        case "sequence_type":
            _checked(declared.sequence_type.elem_type, what)
        case "optional_type":
            _checked(declared.optional_type.elem_type, what)
        case "map_type":
            key, held = declared.map_type.key_type, declared.map_type.value_type.tensor_type.elem_type
            if key not in _KEYS or held not in _HELD:
                raise UnsupportedError(
                    f"{what} is a {declared_type(declared)}; maps are held from string or int64 to tensors of string, "
                    "int64, float or double, one element each"
                )
        case "sparse_tensor_type" | "opaque_type":
            raise UnsupportedError(f"{what} is a sparse or opaque tensor, which clgraph does not make")
    return declared_type(declared) or ""


def made_of(node: onnx.NodeProto, types: Sequence[str | None]) -> str | None:
    """Return the type of the first output of a *node* that fills or empties a container; ``None`` where it does not.

    Args:
        types: Of its inputs.
    """
    first = types[0] if types else None
    attributes = {a.name: a for a in node.attribute} if node.op_type in ("SequenceEmpty", "Optional") else {}
    if node.op_type == "SequenceEmpty":
        return _wrapped("seq", tensor_of(attributes["dtype"].i) if "dtype" in attributes else "tensor(float)")
    if node.op_type == "Optional" and "type" in attributes and not types:
        return _wrapped("optional", declared_type(attributes["type"].tp))
    if first is None or first.endswith("...)"):
        return None
    if node.op_type in _PICKS:
        return first if first.startswith("tensor(") else inside(first)
    return _wrapped(_WRAPS[node.op_type], first) if node.op_type in _WRAPS else None


def _wrapped(container: str, held: str | None) -> str | None:
    return None if held is None else f"{container}({held})"
