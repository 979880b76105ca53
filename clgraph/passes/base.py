"""The pass contract, and what a pass may look at."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from fnmatch import fnmatchcase
from typing import Any, ClassVar, Protocol

from clgraph.core.frozen import frozen
from clgraph.errors import ClgraphError
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array, Primitive
from clgraph.graph.program import Milestone, Program
from clgraph.passes.budgets import Budgets
from clgraph.passes.packed_weights import PackedWeights
from clgraph.selector.choose import Choice, choose
from clgraph.selector.query import BFLOATS, DeviceInfo, Query, query_of


class Execute(Protocol):
    """Runs a program that has come through selection on the device it was compiled for."""

    def __call__(self, program: Program, feeds: Mapping[str, Array]) -> dict[str, Array]: ...


class Build(Protocol):
    """Builds (or loads from the cache) every kernel of a planned program; returns how many texts were new."""

    def __call__(self, program: Program) -> int: ...


@functools.lru_cache(maxsize=64)
def _without_bfloats(device: DeviceInfo) -> DeviceInfo:
    return replace(device, features=device.features - {BFLOATS})


@frozen
class Context:
    """What passes may look at beside the program.

    Attributes:
        devices: Every device a node may be placed on, by placement; the first is the default.
        placement: (pattern, placement) pairs of the user; ``fallback``, where a node may go that its own device
            refuses; ``free``, the placements that nodes without a pattern are shared out among: the default one.
        budgets: What devices of ``free`` may be filled to, in their order; ``None`` where time decides.
        op_types: The ONNX operator type of every node of the model, by name.
        out_of_order: Whether the queue may run independent nodes at the same time.
        forced: Implementation by node name; ``denied``: names and tags of those that must not be chosen.
        split_batch: Whether a batch may be computed in slices.
        precision: Of what operators read and write: ``f32`` (``tf32x3``, ``f16x3`` too), ``f16`` or ``auto``;
            ``keep_f32``: patterns of the names of nodes that stay float32.
        weights: What float weights of products become: ``given`` leaves them, ``int8`` and ``int4``; ``weight_group``:
            how many of them share a scale.
        packed: What passes have computed of the model's constants, for its other programs to share.
        execute, build: Given by ``clgraph.compile``; ``None`` in dry runs and in tests without OpenCL.
    """

    devices: Mapping[str, DeviceInfo] = field(default_factory=lambda: {"null": DeviceInfo()})
    placement: tuple[tuple[str, str], ...] = ()
    fallback: tuple[str, ...] = ()
    free: tuple[str, ...] = ()
    budgets: Budgets | None = None
    op_types: Mapping[str, str] = field(default_factory=dict)
    out_of_order: bool = False
    forced: Mapping[str, str] = field(default_factory=dict)
    denied: frozenset[str] = frozenset()
    split_batch: bool = True
    precision: str = "f32"
    keep_f32: frozenset[str] = frozenset()
    weights: str = "given"
    weight_group: int = 128
    packed: PackedWeights = field(default_factory=PackedWeights, compare=False)
    execute: Execute | None = None
    build: Build | None = None

    @property
    def default(self) -> DeviceInfo:
        """The device of nodes without a placement preference."""
        return next(iter(self.devices.values()))

    @property
    def on_cpus(self) -> bool:
        """Whether nodes can only be placed on CPUs, and on the host."""
        return all(device.kind in ("cpu", "host") for device in self.devices.values())

    def device(self, node: Node) -> DeviceInfo:
        """Return the device of a placed node, the default one before partition.

        Where the node stays in float32, one whose kernels round nothing to bfloat16.
        """
        found = self.default if node.placement is None else self.devices[node.placement]
        rounds = BFLOATS in found.features and self.kept_by(node) is not None
        return _without_bfloats(found) if rounds else found

    def kept_by(self, node: Node) -> str | None:
        """Return the first pattern of the option ``keep_f32`` that matches *node*, ``None`` if none does."""
        names = (node.name, *node.origin)
        return next((p for p in sorted(self.keep_f32) if any(fnmatchcase(n, p) for n in names)), None)

    def query(self, node: Node) -> Query[Any]:
        """Return the query of *node* on its device."""
        return query_of(node, self.device(node))

    def query_in_place(self, node: Node, primitive: Primitive, inputs: Sequence[Value]) -> Query[Any]:
        """Return the query of *primitive* on *inputs* in the place of *node*, all in plain formats."""
        layouts, outputs = (tuple(v.layout.plain() for v in values) for values in (inputs, node.outputs))
        constant = frozenset(i for i, v in enumerate(inputs) if v.constant is not None)
        return Query(primitive, layouts, outputs, self.device(node), len(layouts), constant=constant)

    def choose(self, node: Node, query: Query[Any] | None = None) -> Choice:
        """Choose for *node* under the options; raises ``UnsupportedError`` that names the node."""
        try:
            return choose(query or self.query(node), forced=self.forced.get(node.name), denied=self.denied)
        except ClgraphError as error:
            raise type(error)(f"node {node.name!r} (from {', '.join(node.origin)}): {error}") from error


@frozen
class Pass(ABC):
    """One rewrite. Options are dataclass fields; the program is edited in place.

    Attributes:
        required: A required pass cannot be disabled; with ``stop_after`` it still runs.
        rounds: Whether results may change as much as storing values with fewer digits changes them.
        needs, reaches: Stages of the program before and after.
        handles: Kinds of operators that the pass has rules for, with what it does about them.
    """

    name: ClassVar[str]
    handles: ClassVar[Mapping[str, str]] = {}
    required: ClassVar[bool] = False
    rounds: ClassVar[bool] = False
    needs: ClassVar[Milestone] = Milestone.BUILT
    reaches: ClassVar[Milestone | None] = None

    @abstractmethod
    def run(self, program: Program, context: Context) -> int:
        """Edit *program* and return how many changes were made."""

    def coarsest(self, context: Context) -> float:
        """Return the largest error, relative to its magnitude, that a pass with ``rounds`` makes in a constant.

        0 if it rounds only by storing them in an element type of the program.
        """
        return 0.0

    def note(self, program: Program, lines: Collection[str]) -> None:
        """Record *lines*, if there are any, as the note of the pass in *program*, which ``explain`` shows."""
        if lines:
            program.notes[self.name] = "\n".join(lines)

    def describe(self, kind: str) -> str:
        """Describe how the pass handles operators of *kind*: its rules for it, else the properties it depends on."""
        return self.handles.get(kind, "as any node: opaque")
