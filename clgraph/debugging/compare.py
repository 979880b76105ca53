"""Comparing a run on the device with the references, node by node: how far each is off, and which one starts it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from clgraph.compilation.compiler import Compiler
from clgraph.compilation.models import staged_model
from clgraph.core.dtype import is_floating
from clgraph.debugging.comparison import Comparison, NodeError, OutputError
from clgraph.engines.option_checks import idle_notes
from clgraph.errors import OptionError
from clgraph.graph.interpret import interpret
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.graph.topology import Topology
from clgraph.model.specialisation import Specialisation
from clgraph.model.stages.split import needs_stages
from clgraph.passes.chosen import choice_of
from clgraph.passes.reference import compute, run_reference
from clgraph.settings import Settings

TOLERANCE = 1e-3
"""Worst error of an output, relative to its largest value, that rounding may explain."""
HALF_TOLERANCE = 1e-2
"""The same where float16 is stored: each value is rounded by up to 5e-4 of itself."""


def tolerance_of(options: Settings) -> float:
    """Return the error that rounding may explain in programs compiled with *options*."""
    return TOLERANCE if options.precision == "f32" else HALF_TOLERANCE


def compare(
    topology: Topology,
    feeds: Mapping[str, Array],
    options: Settings,
    *,
    tolerance: float | None = None,
    expected: Mapping[str, Array] | None = None,
    against: str = "the references",
) -> Comparison:
    """Run *topology* on the device of *options* node by node and compare each with its reference in float64.

    A batch that is computed in slices is compared whole, and its slices with the whole.

    Args:
        feeds: One array an input.
        tolerance: Error that counts as none, as a share of a result's largest value; by the precision when not given.
        expected: The outputs by name as another runtime, *against*, has them; those of the references by default.

    Raises:
        OptionError: The device is ``null``, which runs nothing.
        ClgraphError: The model cannot be compiled, or the device fails.
    """
    tolerance = tolerance_of(options) if tolerance is None else tolerance
    if needs_stages(topology):
        return _compare_stages(topology, feeds, options, tolerance, expected, against)
    shapes = {name: array.shape for name, array in feeds.items()}
    made = sliced = Compiler(options).specialise(topology, shapes)
    if sliced.program.batch_slices > 1:
        made = Compiler(options.with_(split_batch=False)).specialise(topology, shapes)
    found = compare_compiled(made, topology.build(shapes), feeds, tolerance, expected, against)
    if made is sliced:
        return found
    assert made.network is not None
    assert sliced.network is not None
    whole, slices = made.network.run(feeds), sliced.network.run(feeds)
    outputs = [replace(o, sliced=relative_error(slices[o.name], whole[o.name])) for o in found.outputs]
    return replace(found, outputs=tuple(outputs))


def compare_compiled(
    made: Specialisation,
    source: Program,
    feeds: Mapping[str, Array],
    tolerance: float | None = None,
    expected: Mapping[str, Array] | None = None,
    against: str = "the references",
) -> Comparison:
    """Run what was *made* of a program node by node. Takes and raises what :func:`compare` does.

    Args:
        source: The program before its passes.
    """
    tolerance = tolerance_of(made.options) if tolerance is None else tolerance
    if made.network is None:
        raise OptionError(f"device {made.options.device!r} runs nothing: there is nothing to compare")
    if made.program.batch_slices > 1:
        raise OptionError("a batch that is computed in slices cannot be compared: CLGRAPH_SPLIT_BATCH=0 keeps it whole")
    before = run_reference(source, feeds, exact=True)
    watcher = _Watcher(made.program, feeds)
    alone = made.network.watch(feeds, watcher)
    results = made.network.run(feeds)
    wanted = before if expected is None else expected
    after = watcher.outputs()
    outputs = [
        OutputError(
            name,
            relative_error(result, wanted[name]),
            relative_error(after[name], before[name]),
            relative_error(result, alone[name]),
        )
        for name, result in results.items()
    ]
    return Comparison(tolerance, against, tuple(watcher.errors), tuple(outputs), idle_notes([made]))


def _compare_stages(
    topology: Topology,
    feeds: Mapping[str, Array],
    options: Settings,
    tolerance: float,
    expected: Mapping[str, Array] | None,
    against: str,
) -> Comparison:
    """Compare each compiled stage on what a run gave it, and the outputs with those of the references."""
    model = staged_model(topology, Compiler(options))
    results, recorder = model.record(feeds)
    found = [compare(stage.topology, given, options, tolerance=tolerance) for stage, given in recorder.calls]
    wanted = interpret(topology, feeds) if expected is None else expected
    passes = max((o.passes for stage in found for o in stage.outputs), default=0.0)
    together = max((o.together for stage in found for o in stage.outputs), default=0.0)
    sliced = max((o.sliced for stage in found for o in stage.outputs), default=0.0)
    outputs = [OutputError(n, relative_error(a, wanted[n]), passes, together, sliced) for n, a in results.items()]
    nodes = tuple(node for stage in found for node in stage.nodes)
    return Comparison(tolerance, against, nodes, tuple(outputs), model.unused)


def relative_error(found: Array, wanted: Array) -> float:
    """Return the largest difference, relative to the largest finite value of *wanted*.

    ``inf`` where a shape, an integer or a boolean differs, or where only one of the two is not a number.
    """
    if found.shape == wanted.shape and not (is_floating(found.dtype) and is_floating(wanted.dtype)):
        return 0.0 if np.array_equal(found, wanted) else float("inf")
    return relative_distance(found, wanted)


def relative_distance(found: Array, wanted: Array) -> float:
    """Return the largest difference of numbers of any type, relative to the largest finite value of *wanted*.

    ``inf`` where a shape differs, or where only one of the two is not a number.
    """
    if found.shape != wanted.shape:
        return float("inf")
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        difference = np.where(same, 0.0, np.abs(a - b))
    worst = float(np.max(np.nan_to_num(difference, nan=np.inf), initial=0.0))
    scale = float(np.max(np.abs(b[np.isfinite(b)]), initial=0.0))
    return worst / scale if scale else worst


@dataclass
class _Watcher:
    """Computes the references beside the device: from the start, and of each node on what it reads."""

    program: Program
    feeds: Mapping[str, Array]
    errors: list[NodeError] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._exact: dict[Value, Array] = {v: _wide(self.feeds[v.name]) for v in self.program.inputs}
        self._seen: dict[Value, Array] = {v: self.feeds[v.name] for v in self.program.inputs}
        self._last = {v: node for node in self.program for v in node.inputs}
        self._kept = {v for _, v in self.program.outputs}
        self._read: tuple[Array, ...] = ()

    def before(self, node: Node, inputs: tuple[Array, ...]) -> None:
        """Keep what *node* reads."""
        self._read = inputs

    def after(self, node: Node, outputs: tuple[Array, ...]) -> None:
        """Compare the results of the node with its reference's."""
        pairs = list(zip(node.inputs, self._read, strict=True))
        stale = tuple(v.name for v, a in pairs if v in self._seen and not _same_bits(a, self._seen[v]))
        own = compute(node, self._read, exact=True)
        chain = compute(node, [self._exact.get(v, a) for v, a in pairs], exact=True)
        name = choice_of(node).implementation.name
        own_error = max(map(relative_error, outputs, own), default=0.0)
        total = max(map(relative_error, outputs, chain), default=0.0)
        self.errors.append(NodeError(node.name, node.primitive.kind, name, own_error, total, stale))
        self._exact.update(zip(node.outputs, chain, strict=True))
        self._seen.update(zip(node.outputs, outputs, strict=True))
        for value in node.inputs:
            if self._last[value] is node:
                self._seen.pop(value, None)
                if value not in self._kept:
                    self._exact.pop(value, None)

    def outputs(self) -> dict[str, Array]:
        """Return the outputs of the references from the start."""
        constants = run_reference(
            Program([], [(n, v) for n, v in self.program.outputs if v.constant is not None], []), {}
        )
        return constants | {n: self._exact[v] for n, v in self.program.outputs if v.constant is None}


def _same_bits(first: Array, second: Array) -> bool:
    return np.ascontiguousarray(first).tobytes() == np.ascontiguousarray(second).tobytes()


def _wide(array: Array) -> Array:
    return array.astype(np.float64) if is_floating(array.dtype) else array
