"""An inverted bottleneck as one operator: 1x1 convolution, depthwise convolution, 1x1 convolution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.core.memo import remembered, remembered_with
from clgraph.errors import ShapeError
from clgraph.graph.node import Fused
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.ops.activation import Activation
from clgraph.ops.convolution import Convolution, convolution_launch, convolution_table
from clgraph.selector.general import FLOATS, General
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Argument, Launch, Plan
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import Query

POINT = Convolution((1, 1), (1, 1), ((0, 0), (0, 0)))
"""The 1x1 convolutions."""


@primitive
@frozen
class Bottleneck(Primitive):
    """``project(filtered(depthwise(expanded(expand(x)))))``, the first or the last convolution left out or not.

    Inputs: x ``[N, C, H, W]``; weights and bias of each convolution that there is, in their order: ``[M, C, 1, 1]`` and
    ``[M]``, ``[M, 1, *kernel]`` and ``[M]``, ``[O, M, 1, 1]`` and ``[O]``. Made by fuse_bottlenecks; no model
    spells it.

    Attributes:
        depthwise: The convolution in the middle, bound, of M groups.
        expanded, filtered: What is applied to the result of the first, of the depthwise convolution, in order.
        expands, projects: Whether there is a first, a last convolution.
    """

    depthwise: Convolution
    expanded: tuple[Activation, ...] = ()
    filtered: tuple[Activation, ...] = ()
    expands: bool = True
    projects: bool = True

    kind: ClassVar[str] = "bottleneck"
    holds_sizes: ClassVar[bool] = False

    @property
    def parts(self) -> tuple[tuple[Convolution, tuple[Activation, ...]], ...]:
        """The convolutions that there are, each with what is applied to its result."""
        first = ((POINT, self.expanded),) if self.expands else ()
        return (*first, (self.depthwise, self.filtered), *(((POINT, ()),) if self.projects else ()))

    def layouts(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        """Return the layouts of what each convolution makes."""
        made, x = [], inputs[0]
        for i, (convolution, _) in enumerate(self.parts):
            (x,) = convolution.infer([x, *inputs[2 * i + 1 : 2 * i + 3]])
            made.append(x)
        return tuple(made)

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        if len(inputs) != 1 + 2 * len(self.parts):
            raise ShapeError(f"{self.kind} requires x, then weights and bias of {len(self.parts)} convolutions")
        return (self.layouts(inputs)[-1],)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x = inputs[0]
        for i, (convolution, activations) in enumerate(self.parts):
            (x,) = convolution.reference(x, *inputs[2 * i + 1 : 2 * i + 3])
            for activation in activations:
                (x,) = activation.reference(x)
        return (x,)

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        made = self.layouts([x.plain() for x in inputs])
        return sum(
            convolution.flops([made[i], *inputs[2 * i + 1 : 2 * i + 3]], [made[i]])
            for i, (convolution, _) in enumerate(self.parts)
        )


@remembered_with
def part(q: Query[Bottleneck], i: int) -> Query[Convolution]:
    """Return the problem that convolution *i* of *q* is, on plain tensors between; the last one has q's list."""
    made = _made(q)
    parts = q.primitive.parts
    convolution, activations = parts[i]
    last = i == len(parts) - 1
    x, y = made[i - 1] if i else q.inputs[0], q.outputs[0] if last else made[i]
    extra = q.inputs[q.arity :] if last else ()
    own = (x, *q.inputs[2 * i + 1 : 2 * i + 3])
    # Operands stand behind the convolution's own three inputs.
    moved = [replace(f, operands=tuple(s - q.arity + 3 for s in f.operands)) for f in q.fused] if last else []
    first = [Fused(activation) for activation in activations]
    return Query(convolution, (*own, *extra), (y,), q.device, 3, (*first, *moved), frozenset({1, 2}))


@remembered
def _made(q: Query[Bottleneck]) -> tuple[Layout, ...]:
    """Return the plain layouts of what each convolution of *q* makes."""
    return q.primitive.layouts([x.plain() for x in q.own])


@implements(Bottleneck, name="bottleneck.ref", serves=Serves(dtypes=FLOATS, fuses=FUSABLE), general=True)
class BottleneckRef(General[Bottleneck]):
    """The general convolution once a part, through plain tensors in scratch."""

    @classmethod
    def plan(cls, q: Query[Bottleneck]) -> Plan:
        count, steps = len(q.primitive.parts), []
        made = q.primitive.layouts(q.own)
        for i in range(count):
            own = part(q, i)
            groups = own.primitive.groups
            numbers = convolution_table(own, own.own[1].shape[0] // groups, own.own[1].shape[1])
            step = convolution_launch(own, "convolution/convolution_ref", numbers)
            roles = {"in0": f"scratch{i - 1}" if i else "in0", "in1": f"in{2 * i + 1}", "in2": f"in{2 * i + 2}"}
            roles |= {f"in{3 + n}": f"in{q.arity + n}" for n in range(len(q.inputs) - q.arity)}
            roles["out0"] = "out0" if i == count - 1 else f"scratch{i}"
            steps.append(_renamed(step, roles))
        return Plan(tuple(steps), tuple(x.nbytes for x in made[:-1]))

    @classmethod
    def overwrites(cls, q: Query[Bottleneck]) -> frozenset[int]:
        """Return the operands that the last part reads where it writes."""
        return frozenset(i for i in range(q.arity, len(q.inputs)) if q.inputs[i] == q.outputs[0])


def _renamed(step: Launch, roles: dict[str, str]) -> Launch:
    args: tuple[Argument, ...] = tuple(roles.get(a, a) if isinstance(a, str) else a for a in step.args)
    return replace(step, args=args)
