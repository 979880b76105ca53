"""What runs in the simulator: ``python -m tools.races.child NAME``, every case of an implementation, or a kernel."""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.graph.node import Fused, Node, Value
from clgraph.implementations.portable.matmul import EMULATED_LOCAL
from clgraph.passes.base import Context
from clgraph.passes.selection import proposals
from clgraph.runtime.device import find_device, with_class
from clgraph.runtime.engine import BoundKernel, Engine, KernelArgument
from clgraph.selector.choose import candidates
from clgraph.selector.implementation import IMPLEMENTATIONS, Implementation
from clgraph.selector.query import DeviceInfo, Query, query_of
from tests.support.check_op import check_op, run_raw
from tools.races.alone import ALONE
from tools.races.cases import Case, cases

PROCESSOR_SECONDS = 1200
"""What an implementation may take of all cores together; its process ends by SIGXCPU then."""
COARSE = 2.0**14
"""Units of 2^-24 that a result may be off by, of the largest number in the problem, squared."""


def query_of_case(case: Case, device: DeviceInfo) -> tuple[Node, Query[Any]]:
    """Return the node of *case*, and the problem that it poses on plain layouts."""
    count = len(case.shapes)
    shapes = [*case.shapes, *(shape for _, others, _ in case.fused for shape in others)]
    dtypes = [case.dtype] * len(shapes) if isinstance(case.dtype, DType) else case.dtype
    layouts = [Layout(d, s) for d, s in zip(dtypes, shapes, strict=True)]
    primitive = case.primitive.bind(layouts[:count], [None] * count).primitive
    values = [Value(f"x{i}", x) for i, x in enumerate(layouts)]
    for slot in case.constant:
        values[slot].constant = np.zeros(layouts[slot].shape, layouts[slot].dtype.numpy)
    outputs = tuple(Value(f"y{i}", x) for i, x in enumerate(primitive.infer(layouts[:count])))
    steps, place = [], count
    for other, others, slot in case.fused:
        steps.append(Fused(other, tuple(range(place, place + len(others))), slot))
        place += len(others)
    node = Node("node", primitive, tuple(values), outputs, count, fused=tuple(steps))
    return node, query_of(node, device)


def served(device: DeviceInfo) -> Iterator[tuple[Case, set[str]]]:
    """Yield each case with the names of the implementations that serve it on *device*, in formats that they like."""
    for case in cases():
        node, query = query_of_case(case, device)
        there = {device.name: device}
        names = {c.name for c in candidates(query)}
        yield case, {n for n in names if proposals(Context(devices=there, forced={node.name: n}), node, query)}


def run(engine: Engine, case: Case, name: str) -> None:
    """Run *case* by the implementation of that name.

    Raises:
        AssertionError: A result is far from the reference's.
    """
    if not case.shapes:
        _, query = query_of_case(case, engine.info)
        (found,) = run_raw(engine, IMPLEMENTATIONS[name], query, [])
        np.testing.assert_array_equal(found.reshape(query.outputs[0].shape), case.primitive.reference()[0])
        return
    check_op(
        engine,
        case.primitive,
        *case.shapes,
        ulps=COARSE,
        scale=lambda *arrays: 1 + max(float(np.abs(a).max(initial=0)) for a in arrays) ** 2,
        dtype=case.dtype,
        constant=case.constant,
        draw=case.draw,
        fused=case.fused,
        families=("normal",),
        only=[name],
    )


def profiles(info: DeviceInfo) -> tuple[DeviceInfo, DeviceInfo]:
    """Return *info*, and the same where local memory is ordinary memory, which some kernels are written for."""
    return info, replace(info, features=info.features | {EMULATED_LOCAL})


def of_gpus() -> list[type[Implementation[Any]]]:
    """Return every implementation that a GPU may be given, by name."""
    return sorted((i for i in IMPLEMENTATIONS.values() if "gpu" in i.serves.kinds), key=lambda i: i.name)


class NotingEngine(Engine):
    """An engine that knows which kernels were made."""

    made: set[str]

    def kernel(self, text: str, entry: str, args: list[KernelArgument], **how: Any) -> BoundKernel:
        """Return the kernel, as an engine does."""
        self.made.add(entry)
        return super().kernel(text, entry, args, **how)


def main() -> int:
    """Run the cases and print what ran, and what was wrong with results, as JSON."""
    (name,) = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    device = with_class(find_device("oclgrind"), "gpu")
    ran: list[str] = []
    wrong: list[str] = []
    kernels: set[str] = set()
    for info in profiles(device.info):
        engine = NotingEngine(replace(device, info=info))
        engine.made = kernels
        if name in ALONE:
            ran.append(name)
            wrong += ALONE[name](engine)
        for case in (case for case, names in served(info) if name in names):
            ran.append(str(case))
            try:
                run(engine, case, name)
            except AssertionError as error:
                wrong.append(f"{case}: {str(error).strip().splitlines()[0]}")
        if ran:
            break
    sys.stdout.write(json.dumps({"ran": ran, "wrong": wrong, "kernels": sorted(kernels)}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
