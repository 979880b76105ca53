"""The user's kernel of a custom operator, called as a function from a kernel that knows where tensors lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from clgraph.extensions.custom_specs import CustomOperator, TensorSpec, spec_of
from clgraph.graph.refusals import refusals
from clgraph.selector.implementation import Implementation
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Launch, Plan
from clgraph.selector.query import Query
from clgraph.selector.sources import TEXT


class CustomKernel(Implementation[Any]):
    """Calls the user's kernel as a function, from one that knows where tensors lie."""

    operator: ClassVar[CustomOperator]

    @classmethod
    def limits(cls, q: Query[Any]) -> str | None:
        """Refuse layouts that the user's kernel does not know."""
        if not all(x.is_dense_plain for x in (*q.inputs, *q.outputs)):
            return "requires dense tensors in plain formats"
        needed, there = sum(cls._local_bytes(q)), q.device.local_bytes
        return f"requires {needed} bytes of local memory, the device has {there}" if needed > there else None

    @classmethod
    def _local_bytes(cls, q: Query[Any]) -> tuple[int, ...]:
        o = cls.operator
        if o.local_bytes is None:
            return ()
        inputs, outputs = [spec_of(x) for x in q.primitive.spread(q.own)], [spec_of(y) for y in q.outputs]
        with refusals(f"local_bytes of {o.kind}"):
            return tuple(int(n) for n in o.local_bytes(inputs, outputs, **q.primitive.attributes()))

    @classmethod
    def plan(cls, q: Query[Any]) -> Plan:
        """Ask the user's functions for grid, arguments and local memory."""
        o = cls.operator
        inputs, outputs = [spec_of(x) for x in q.primitive.spread(q.own)], [spec_of(y) for y in q.outputs]
        given = q.primitive.attributes()
        with refusals(f"work_size, group or arguments of {o.kind}"):
            numbers = _numbers(o, inputs, outputs, given)
            grid = tuple(int(n) for n in o.work_size(inputs, outputs, **given))
            group = None if o.group is None else tuple(int(n) for n in o.group(inputs, outputs, **given))
        roles = [*(f"in{i}" for i in range(len(q.own))), *(f"out{i}" for i in range(len(outputs)))]
        kinds = ["float" if isinstance(n, float) else "int" for n in numbers]
        types = {f"IN{i}_T": x.dtype.cl for i, x in enumerate(q.primitive.spread(q.own)) if x is not None}
        types |= {f"OUT{i}_T": y.dtype.cl for i, y in enumerate(q.outputs)}
        jit = Jit().define(**types, CUSTOM_OP=_caller(o, roles, kinds, cls._local_bytes(q)))
        return Plan((Launch(source_of(o), "custom_op", jit, grid, group, (*roles, *numbers)),))


def _numbers(
    o: CustomOperator, inputs: list[TensorSpec | None], outputs: list[TensorSpec], given: Mapping[str, Any]
) -> list[int | float]:
    if o.arguments is not None:
        found = o.arguments(inputs, outputs, **given)
    else:
        found = [outputs[0].size, *(v for v in given.values() if isinstance(v, bool | int | float))]
    return [float(n) if isinstance(n, float | np.floating) else int(n) for n in found]


def kernel_of(o: CustomOperator) -> str:
    """Return the user's kernel as a function, and behind it the kernel that calls it, which is a macro."""
    return f"#define kernel\n#define __kernel\n{o.kernel}\n#undef kernel\n#undef __kernel\nCUSTOM_OP\n"


def _caller(o: CustomOperator, roles: Sequence[str], kinds: Sequence[str], local_bytes: Sequence[int]) -> str:
    """Return the kernel that is given banks and offsets, and calls the user's with pointers."""
    tensors = [f"__global char* {role}, const long {role}_at" for role in roles]
    scalars = [f"const {kind} n{i}" for i, kind in enumerate(kinds)]
    passed = [f"(__global void*)({role} + {role}_at)" for role in roles]
    # Local memory can be declared in a kernel only; as vectors it is aligned for every type.
    shared = "".join(f"__local long16 l{i}[{max(1, -(-nbytes // 128))}]; " for i, nbytes in enumerate(local_bytes))
    locals_ = [f"(__local void*)l{i}" for i in range(len(local_bytes))]
    call = ", ".join([*passed, *(f"n{i}" for i in range(len(kinds))), *locals_])
    return f"__kernel void custom_op({', '.join([*tensors, *scalars])}) {{ {shared}{o.entry}({call}); }}"


def source_of(operator: CustomOperator) -> str:
    """Return the name by which plans find the kernel's text."""
    return f"{operator.kind}{TEXT}"
