"""Run a custom operator on a device and compare it with its reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from clgraph.compilation.entry import compile_model
from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout, Shape
from clgraph.errors import InputError, OptionError, UnsupportedError
from clgraph.extensions.custom_operator import CUSTOM_OPERATORS, held_attribute
from clgraph.extensions.custom_specs import CustomOperator
from clgraph.graph.primitive import PRIMITIVES, Array
from clgraph.graph.topology import Topology

FAMILIES = ("normal", "wide", "equal", "zeros")
TOLERANCE = 1e-5


@frozen
class Trial:
    """One run: input shapes and type, family of numbers, and the worst error as a share of the largest result.

    Attributes:
        why: What is wrong; empty when the results agree.
    """

    shapes: tuple[Shape, ...]
    dtype: str
    family: str
    error: float
    why: str = ""


def operator_called(name: str) -> CustomOperator:
    """Return the custom operator of that kind or type.

    Raises:
        OptionError: There is none.
    """
    for operator in CUSTOM_OPERATORS.values():
        if name in (operator.kind, operator.op_type):
            return operator
    there = ", ".join(CUSTOM_OPERATORS) or "none; name the file that adds it: --module FILE.py"
    raise OptionError(f"no custom operator is called {name!r}; there are: {there}")


def check_custom_op(
    operator: CustomOperator,
    shapes: Sequence[tuple[Shape, ...]] = (),
    attributes: Mapping[str, Any] | None = None,
    device: str = "auto",
    tolerance: float = TOLERANCE,
) -> Iterator[Trial]:
    """Yield the outcome of each run: every example, element type and family of numbers.

    Args:
        shapes: Input shapes to try instead of the operator's examples.
        attributes: Others than the defaults.
        tolerance: Largest error, as a share of the largest finite result.

    Raises:
        UnsupportedError: The operator has no reference.
        ClgraphError: It does not compile or run.
    """
    if operator.reference is None:
        raise UnsupportedError(f"{operator.kind} has no reference to compare with; give custom_op one")
    primitive = PRIMITIVES[operator.kind](**{name: held_attribute(value) for name, value in (attributes or {}).items()})
    for each in shapes or operator.examples:
        for dtype in sorted(operator.dtypes, key=str):
            net = Topology()
            names = [net.input(f"x{i}", shape, dtype) for i, shape in enumerate(each)]
            count = len(primitive.infer([Layout(dtype, shape) for shape in each]))
            made = [f"y{i}" for i in range(count)]
            net.add("checked", primitive, *names, outputs=made)
            for name in made:
                net.output(name)
            model = compile_model(net, device=device)
            for number, family in enumerate(FAMILIES):
                random = np.random.default_rng(number)
                feeds = {name: _draw(random, family, s, dtype) for name, s in zip(names, each, strict=True)}
                got = model.run(feeds)
                want = primitive.computed(*feeds.values())
                yield _compare(each, dtype, family, [got[n] for n in made], want, tolerance)


def _draw(random: np.random.Generator, family: str, shape: Shape, dtype: DType) -> Array:
    if family in ("equal", "zeros"):
        numbers = np.full(shape, 1.5 if family == "equal" else 0.0)
    else:
        numbers = random.standard_normal(shape) * (1000 if family == "wide" else 1)
    return np.asarray(np.abs(numbers) % 100 if not dtype.floating else numbers).astype(dtype.numpy)


def _compare(
    shapes: tuple[Shape, ...], dtype: DType, family: str, got: Sequence[Array], want: Sequence[Array], tolerance: float
) -> Trial:
    worst, why = 0.0, ""
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        if g.shape != w.shape:
            raise InputError(f"result {i} has shape {list(g.shape)}, the reference makes {list(w.shape)}")
        exact, made = w.astype(np.float64), g.astype(np.float64)
        finite = np.isfinite(exact)
        if not np.array_equal(np.isfinite(made), finite) or not np.array_equal(made[~finite], exact[~finite], True):
            why = f"result {i} is not finite where the reference is, or the other way round"
            continue
        scale = float(np.abs(exact[finite]).max(initial=0.0)) or 1.0
        worst = max(worst, float(np.abs(made[finite] - exact[finite]).max(initial=0.0)) / scale)
    if not why and worst > tolerance:
        why = f"off by {worst:.2g} of the largest result; {tolerance:g} is allowed"
    return Trial(shapes, str(dtype), family, worst, why)
