"""Operators of a user: an ONNX type with a shape rule and an OpenCL kernel, without a package around them.

OpenVINO's counterpart is the XML of a custom layer: type, kernel file, buffers, attributes, sizes of work.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, make_dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout, Shape
from clgraph.core.registry import Registry
from clgraph.errors import RegistrationError, ShapeError, UnsupportedError
from clgraph.extensions.custom_kernel import CustomKernel, kernel_of, source_of
from clgraph.extensions.custom_specs import CustomOperator, Numbers, Rule, TensorSpec, spec_of
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.sources import KERNEL_TEXTS

T = TypeVar("T")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_LOCAL_VARIABLE = re.compile(r"\b(?:__)?local\s[^;{}()*,=]+;")
_SLOTS = "inputs_given"
_ALIKE: tuple[tuple[type, ...], ...] = ((bool, int), (float,), (str,), (tuple, list), (np.ndarray,))


CUSTOM_OPERATORS: Registry[str, CustomOperator] = Registry("custom operator")


def custom_op(
    op_type: str,
    *,
    kernel: str | Path,
    work_size: Numbers,
    domain: str = "custom",
    entry: str | None = None,
    arguments: Numbers | None = None,
    group: Numbers | None = None,
    local_bytes: Numbers | None = None,
    reference: Callable[..., Any] | None = None,
    dtypes: Iterable[Any] = (np.float32,),
    examples: Sequence[Sequence[Shape]] = (((2, 3, 4),), ((1,),), ((5, 7),)),
) -> Callable[[Rule], Rule]:
    """Decorate the shape rule of an operator: models that use it compile from then on.

    The rule takes a :class:`TensorSpec` an input and the attributes as keyword arguments, whose defaults are the
    attributes' own, and returns the spec of the result, or of each result. *work_size* and the other callables are
    called as ``work_size(inputs, outputs, **attributes)``, with lists of specs. An attribute is a number, a string, a
    tuple of those or an array, as its default is. An input that a node leaves out is ``None`` to all of them, or not
    given at all where no other follows; the kernel has no pointer to it, and no ``IN1_T`` is defined.

    Args:
        op_type, domain: Of the ONNX nodes.
        kernel: OpenCL C, or the path of a file: a ``__kernel`` with a pointer an input, a pointer a result, then the
            numbers of *arguments*, then a ``__local`` pointer for each of *local_bytes*; variables in local memory
            cannot be declared in it. ``IN0_T``, ``OUT0_T`` … are the element types.
        work_size: Global work size; *group* the local one, the driver's choice by default.
        entry: Name of the kernel; the operator type in lower case by default.
        arguments: Ints and floats behind the pointers; by default the elements of the first result and then every
            attribute that is a number, in the order of the rule's parameters.
        local_bytes: Sizes of what the work-items of a group share; no local memory by default.
        reference: The same with NumPy, on arrays; the host runs it, and ``clgraph check-op`` compares with it.
        dtypes: Element types that the kernel serves.
        examples: Shapes of the inputs for ``clgraph check-op``.

    Raises:
        RegistrationError: The operator is there already, the file is not, the rule's attributes have no defaults, or
            the kernel declares variables in local memory.
    """

    def record(rule: Rule) -> Rule:
        text = Path(kernel).read_text(encoding="utf-8") if isinstance(kernel, Path) else kernel
        kind = f"{domain}.{op_type}"
        if declared := _LOCAL_VARIABLE.search(_COMMENT.sub("", text)):
            raise RegistrationError(f"{kind}: {declared[0]!r} cannot be declared; take a __local pointer: local_bytes")
        # The compiler names this file, or the operator, and the line of it that it does not understand.
        text = f'#line 1 "{(kernel.as_posix() if isinstance(kernel, Path) else kind)}"\n{text}'
        attributes = _attributes(kind, rule)
        operator = CustomOperator(
            kind,
            op_type,
            domain,
            rule,
            text,
            entry or op_type.lower(),
            work_size,
            arguments,
            group,
            local_bytes,
            reference,
            frozenset(map(DType.of, map(np.dtype, dtypes))),
            tuple(tuple(map(tuple, shapes)) for shapes in examples),
            attributes,
        )
        CUSTOM_OPERATORS.register(kind, operator)
        _register(operator)
        return rule

    if isinstance(kernel, Path) and not kernel.is_file():
        raise RegistrationError(f"there is no kernel file {kernel}")
    return record


class CustomPrimitive(Primitive):
    """Base of the primitives of custom operators; the attributes are fields."""

    __slots__ = ()
    operator: ClassVar[CustomOperator]

    def attributes(self) -> dict[str, Any]:
        """Return the attributes by name."""
        return {name: _loose(getattr(self, name), default) for name, default in self.operator.attributes.items()}

    def spread(self, given: Sequence[T]) -> list[T | None]:
        """Return what there is for each input, ``None`` for those that the node leaves out."""
        slots: tuple[int, ...] = getattr(self, _SLOTS)
        if not slots:
            return list(given)
        by_slot = dict(zip(slots, given, strict=True))
        return [by_slot.get(slot) for slot in range(slots[-1] + 1)]

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        """Ask the shape rule."""
        try:
            made = self.operator.rule(*[spec_of(x) for x in self.spread(inputs)], **self.attributes())
        except TypeError as error:
            raise ShapeError(f"the shape rule of {self.kind} does not take these inputs: {error}") from error
        found = [made] if isinstance(made, TensorSpec) else list(made)
        return tuple(Layout(DType.of(np.dtype(s.dtype)), tuple(map(int, s.shape))) for s in found)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Compute it with the user's reference."""
        if self.operator.reference is None:
            raise UnsupportedError(f"{self.kind} has no reference; give custom_op one, or run it on an OpenCL device")
        made = self.operator.reference(*self.spread(inputs), **self.attributes())
        found = made if isinstance(made, tuple | list) else (made,)
        wanted = self.infer([Layout.of(np.asarray(x)) for x in inputs])
        return tuple(np.asarray(a, w.dtype.numpy).reshape(w.shape) for a, w in zip(found, wanted, strict=True))


def _attributes(kind: str, rule: Rule) -> dict[str, Any]:
    parameters = inspect.signature(rule).parameters.values()
    named = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    if open_ones := [p.name for p in named if p.default is p.empty]:
        raise RegistrationError(f"{kind}: attribute {open_ones[0]!r} needs a default in the shape rule")
    return {p.name: p.default for p in named}


def _register(operator: CustomOperator) -> None:
    """Make primitive, importer and implementation of *operator* known."""
    held = {name: held_attribute(v) for name, v in operator.attributes.items()}
    names = [(name, Any if v is None else type(v), field(default=v)) for name, v in held.items()]
    slots = (_SLOTS, tuple, field(default=()))
    made: Any = make_dataclass(operator.op_type, [*names, slots], bases=(CustomPrimitive,), frozen=True)
    made.kind, made.operator, made.__module__ = operator.kind, operator, operator.rule.__module__
    made.has_reference = operator.reference is not None
    made.__doc__ = inspect.getdoc(operator.rule) or f"Custom operator {operator.kind}."
    primitive(made)

    def read(node: OnnxNode) -> Primitive:
        if unknown := [name for name in node.attribute_names if name not in operator.attributes]:
            there = ", ".join(operator.attributes) or "none"
            raise node.unsupported(f"{operator.kind} has no attribute {unknown[0]!r}; its attributes are: {there}")
        given = {
            name: _read_attribute(node, name, node.attribute(name, default), default)
            for name, default in operator.attributes.items()
        }
        slots = tuple(i for i, name in enumerate(node.inputs) if name)
        found = made(**given, **{_SLOTS: slots if len(slots) < len(node.inputs) else ()})
        assert isinstance(found, Primitive)
        return found

    read.__module__, read.__qualname__ = operator.rule.__module__, operator.rule.__qualname__
    onnx(operator.op_type, since=(1,), domain=operator.domain)(read)
    serves = Serves(dtypes=operator.dtypes, mixed=True)
    implementation = type("Kernel", (CustomKernel,), {"operator": operator, "__module__": operator.rule.__module__})
    implements(made, name=f"{operator.kind}.kernel", serves=serves, general=True)(implementation)
    KERNEL_TEXTS.register(source_of(operator), kernel_of(operator))


def _read_attribute(node: OnnxNode, name: str, value: Any, default: Any) -> Any:
    """Return *value* as what the *default* is; raises ``UnsupportedError`` where it is another kind of thing."""
    if isinstance(default, bool | float) and isinstance(value, int):
        return type(default)(value)
    alike = next((kinds for kinds in _ALIKE if isinstance(default, kinds)), None)
    if alike is not None and not isinstance(value, alike):
        raise node.unsupported(f"attribute {name!r} is a {type(value).__name__}, not a {type(default).__name__}")
    return held_attribute(value)


def held_attribute(value: Any) -> Any:
    """Return an attribute as it is held: hashable, and what files can hold."""
    if isinstance(value, np.ndarray):
        return (value.dtype.name, value.shape, tuple(value.ravel().tolist()))
    return tuple(value) if isinstance(value, list) else value


def _loose(value: Any, default: Any) -> Any:
    """Return what is held as the user's functions get it."""
    if isinstance(default, np.ndarray) and isinstance(value, tuple):
        dtype, shape, elements = value
        return np.array(elements, dtype).reshape(shape)
    return value
