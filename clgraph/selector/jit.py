"""The ``#define`` preamble that turns a kernel file into one kernel."""

from __future__ import annotations

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen


@frozen
class Jit:
    """Ordered macros: types, ranks and instance constants; a size, stride or offset only where it pays for itself.

    A kernel file gives every macro a default, so that it also compiles without this.
    """

    macros: tuple[tuple[str, str], ...] = ()

    def define(self, **macros: float | str | bool | DType) -> Jit:
        """Return the preamble with more macros; a redefinition with another value raises ``ValueError``."""
        known = dict(self.macros)
        for name, value in macros.items():
            if known.setdefault(name, literal(value)) != literal(value):
                raise ValueError(f"{name} is already {known[name]}")
        return Jit(tuple(known.items()))

    def __str__(self) -> str:
        return "".join(f"#define {name} {value}\n" for name, value in self.macros)


def literal(value: float | str | bool | DType) -> str:
    """Return the OpenCL C spelling of a Python value; floats in hexadecimal, so that no digit is lost."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, DType):
        return value.cl
    if isinstance(value, float):
        special = {float("inf"): "INFINITY", float("-inf"): "(-INFINITY)"}
        return special.get(value, f"({value.hex()}f)")
    return str(value)
