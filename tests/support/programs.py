"""Programs for tests of passes, and running passes on them with every check there is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clgraph.core.dtype import DType
from clgraph.graph.check import check
from clgraph.graph.primitive import Primitive
from clgraph.graph.program import Milestone, Program
from clgraph.graph.topology import Topology
from clgraph.ops.activation import Activation
from clgraph.ops.concat import Concat
from clgraph.ops.convolution import Convolution
from clgraph.ops.eltwise import Eltwise
from clgraph.passes.base import Context, Pass
from clgraph.passes.manager import PassManager
from clgraph.passes.observers import Verify
from clgraph.passes.pipeline import default_pipeline
from clgraph.passes.verify_numbers import VerifyNumbers

RELU = Activation("relu")
ADD, MUL = Eltwise("add"), Eltwise("mul")


class Net(Topology):
    """A topology that is written in few words; random data is different for every tensor."""

    def __init__(self) -> None:
        super().__init__()
        self._seed = 0

    def data(self, name: str, *shape: int, low: float | None = None) -> str:
        """Add a constant: normal numbers, or uniform ones between *low* and *low* + 1."""
        self._seed += 1
        random = np.random.default_rng(self._seed)
        array = random.standard_normal(shape) if low is None else random.uniform(low, low + 1, shape)
        return self.constant(name, array.astype(np.float32))

    def number(self, name: str, value: float) -> str:
        """Add a scalar constant."""
        return self.constant(name, np.array(value, np.float32))

    def conv(self, name: str, x: str, channels: int, out: int, kernel: int = 1, stride: int = 1, **more) -> str:
        """Add a 2-D convolution with pads that keep the size, and its weights."""
        pad = (kernel // 2, (kernel - 1) // 2)
        w = self.data(f"{name}_w", out, channels, kernel, kernel)
        p = Convolution((stride, stride), (1, 1), (pad, pad))
        return self.add(name, p, x, w, **more)

    def concat(self, name: str, *parts: str, axis: int = 1) -> str:
        return self.add(name, Concat(axis), *parts)

    def program(self, *outputs: str) -> Program:
        for name in outputs:
            self.output(name)
        return self.build()


def run(program: Program, *passes: Pass, context: Context | None = None) -> Program:
    """Run *passes*, with the invariants and the results compared after each one."""
    context = context or Context()
    PassManager(_reach(program, passes), [Verify(), VerifyNumbers(context)]).run(program, context)
    return program


def run_until(program: Program, last: str, context: Context | None = None, disabled: Sequence[str] = ()) -> Program:
    """Run the default passes up to *last*, checked like :func:`run`."""
    context = context or Context()
    passes = default_pipeline()
    place = next(i for i, p in enumerate(passes) if p.name == last) + 1
    kept = [p for p in passes[:place] if p.name not in disabled]
    PassManager(kept, [Verify(), VerifyNumbers(context)]).run(program, context)
    return program


def compile_all(program: Program, context: Context | None = None, **options) -> Program:
    """Run the default passes with *options* of the manager; only the end is checked."""
    PassManager(default_pipeline(), **options).run(program, context or Context())
    check(program)
    return program


def lines(program: Program) -> list[str]:
    """Return the lines of the nodes in the program's text."""
    skipped = ("program ", "input ", "const ", "output ")
    return [x for line in str(program).splitlines() if not (x := line.strip()).startswith(skipped)]


def primitives(program: Program) -> list[Primitive]:
    return [node.primitive for node in program]


def _reach(program: Program, passes: Sequence[Pass]) -> Sequence[Pass]:
    """Let a pass run alone that needs an earlier stage: on one device every node is placed by hand."""
    needed = max((p.needs for p in passes), default=Milestone.BUILT)
    if program.milestone < needed:
        from clgraph.passes.placement.partition import Partition

        before: list[Pass] = [Partition()] if needed >= Milestone.PLACED else []
        return [*before, *passes]
    return passes


def fused_into(program: Program) -> dict[str, list[str]]:
    """Return what is fused into each node, by name."""
    return {n.name: [f"{f.where} {f.primitive}" for f in n.fused] for n in program}


def kinds(program: Program) -> list[str]:
    """Return the kind of each node."""
    return [n.primitive.kind for n in program]


def names(program: Program) -> list[str]:
    """Return the name of each node."""
    return [n.name for n in program]


def element_types(program: Program) -> dict[str, DType]:
    """Return the element type of each node's first result, by name."""
    return {n.name: n.output.layout.dtype for n in program}


def grouped(net: Net, name: str, x: str, channels: int, out: int, groups: int, kernel: int = 1, **more: str) -> str:
    """Add a convolution in groups with pads that keep the size, its weights and bias."""
    pad = ((kernel // 2, kernel // 2),) * 2
    w = net.data(f"{name}_w", out, channels // groups, kernel, kernel)
    return net.add(name, Convolution((1, 1), (1, 1), pad, groups), x, w, net.data(f"{name}_b", out), **more)
