"""The arithmetic of lengths as one function of Python: a loop over its steps would cost as much as they do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from clgraph.graph.primitive import Array
from clgraph.graph.topology import Topology


def joined(topology: Topology) -> Callable[..., tuple[Array, ...]]:
    """Return a function of the steps, of what is fed and of the constants, each in order, that makes the outputs.

    A step runs where an argument is another array than before. Its values are local variables of the function.
    """
    local = {name: f"v{i}" for i, name in enumerate((*topology.inputs, *topology.constants))}
    steps = [f"s{i}" for i in range(len(topology.layers))]
    lines = [f"{_left(steps)} = steps", f"{_left([local[n] for n in topology.inputs])} = fed"]
    lines.append(f"{_left([local[n] for n in topology.constants])} = constants")
    for step, layer in zip(steps, topology.layers, strict=True):
        given = [local[name] for name in layer.inputs]
        for i, name in enumerate(layer.outputs):
            local[name] = f"{step}_{i}"
        changed = " or ".join(f"a[{i}] is not {value}" for i, value in enumerate(given))
        lines += [f"a = {step}.arguments", f"if {changed or f'not {step}.results'}: {step}.run({', '.join(given)})"]
        lines += [f"{local[name]} = {step}.results[{i}]" for i, name in enumerate(layer.outputs)]
    lines.append(f"return {_left([local[value] for _, value in topology.outputs])}")
    found: dict[str, Any] = {}
    exec("def compute(steps, fed, constants):\n    " + "\n    ".join(lines), found)
    return cast("Callable[..., tuple[Array, ...]]", found["compute"])


def _left(names: Sequence[str]) -> str:
    """Return *names* as a tuple, as it stands on either side of an assignment."""
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})"
