"""Tensors of torch as NumPy's arrays and back, without a copy; torch itself is imported by who gives them."""

from __future__ import annotations

import sys
from typing import Any

from clgraph.core.dtype import DType
from clgraph.graph.primitive import Array


def is_torch(given: Any) -> bool:
    """Whether *given* is of torch, or of a class derived from its tensors."""
    if type(given).__module__.partition(".")[0] == "torch":
        return True
    kind = getattr(sys.modules.get("torch"), "Tensor", None)
    return isinstance(kind, type) and isinstance(given, kind)


def plain(given: Any) -> Any:
    """Return a tensor that gives NumPy its memory: out of training, and as integers where NumPy lacks its type."""
    given = given.detach() if getattr(given, "requires_grad", False) else given
    return given.view(sys.modules["torch"].int16) if is_bfloat16(given) else given


def is_bfloat16(given: Any) -> bool:
    """Whether *given* is a tensor of torch's bfloat16."""
    return is_torch(given) and str(getattr(given, "dtype", "")) == "torch.bfloat16"


def to_torch(array: Array) -> Any:
    """Return *array* as a tensor of torch on the same memory."""
    torch = sys.modules["torch"]
    if array.dtype == DType.BF16.numpy:
        return torch.from_numpy(array.view("int16")).view(torch.bfloat16)
    return torch.from_numpy(array)
