"""Report of a model's stages and of the way each was last run, as text and as an explanation."""

from __future__ import annotations

from collections import Counter

from clgraph.graph.interpret import ControlFlow
from clgraph.graph.layer import Layer
from clgraph.graph.primitive import OfHostValues
from clgraph.model.explain import explain, reading_notes
from clgraph.model.explanation import Explanation
from clgraph.model.reports import NodeReport
from clgraph.model.stages.runner import PieceRunner, StageRunner

_KINDS = 6


def describe(runner: StageRunner, indent: str = "") -> tuple[str, ...]:
    """Return a line a stage, those of the bodies that have been run below theirs."""
    lines = []
    for piece in runner.pieces:
        layers = piece.piece.topology.layers
        counts = Counter(layer.primitive.kind for layer in layers).most_common()
        kinds = ", ".join(f"{kind} {count}" if count > 1 else kind for kind, count in counts[:_KINDS])
        more = f", {len(counts) - _KINDS} kinds more" if len(counts) > _KINDS else ""
        lines.append(f"{indent}stage {piece.piece.number}: {len(layers)} layers ({kinds}{more}); {_where(piece)}")
        lines += [f"{indent}  {name}: trip by trip, because {why}" for name, why in piece.host.trip_by_trip()]
        for name, body in _run_bodies(piece):
            lines += [f"{indent}  {name}", *describe(body, indent + "    ")]
    return tuple(lines)


def explanation(runner: StageRunner) -> Explanation:
    """Return the nodes of the programs that ran last and the layers that the host computed, in order of the stages."""
    nodes, notes = _explained(runner, "")
    reading = reading_notes(runner.pieces[0].piece.topology) if runner.pieces else {}
    return Explanation(tuple(nodes), {"stages": "\n".join(describe(runner)), **reading, **notes})


def _explained(runner: StageRunner, prefix: str) -> tuple[list[NodeReport], dict[str, str]]:
    nodes: list[NodeReport] = []
    notes: dict[str, str] = {}
    for piece in runner.pieces:
        model = piece.latest or next(iter(piece.models), None)
        if piece.piece.compilable and model is not None and model.is_compiled and not piece.on_host:
            found = explain(model.program)
            nodes += found.nodes
            notes |= {f"{prefix}stage {piece.piece.number}: {name}": text for name, text in found.notes.items()}
        else:
            nodes += [_report(layer, piece) for layer in piece.piece.topology.layers]
        for name, body in _run_bodies(piece):
            inner, said = _explained(body, f"{prefix}{name}: ")
            nodes += inner
            notes |= said
    return nodes, notes


def _where(piece: PieceRunner) -> str:
    if not piece.piece.compilable:
        return "on the host: it decides shapes, runs bodies, or holds other values than tensors of numbers"
    if piece.on_host:
        return f"on the host by references: {piece.host.operations:.0f} operations are few"
    if piece.latest is not None:
        return f"compiled: {len(piece.latest.program)} nodes on {piece.latest.device.name}"
    if piece.models:
        return "compiled"
    return "not run yet"


def _run_bodies(piece: PieceRunner) -> list[tuple[str, StageRunner]]:
    pairs = ((f"{layer}/{role}", id(body)) for layer, role, body in piece.host.bodies())
    return [(name, piece.bodies[key]) for name, key in pairs if key in piece.bodies]


def _report(layer: Layer, piece: PieceRunner) -> NodeReport:
    if isinstance(layer.primitive, ControlFlow):
        because = "control flow: the host runs its bodies, which are programs of their own"
    elif isinstance(layer.primitive, OfHostValues):
        because = "devices hold tensors of numbers, no strings, sequences, optionals or maps"
    elif layer.primitive.data_dependent:
        because = "the elements of its inputs decide the shape of its result"
    else:
        because = "its stage costs too little to be compiled for every shape" if piece.on_host else "not run yet"
    return NodeReport(
        layer.name,
        str(layer.primitive),
        (),
        layer.origin,
        layer.annotation,
        "host" if piece.on_host or not piece.piece.compilable else None,
        tuple((name, "") for name in layer.inputs),
        tuple((name, "") for name in layer.outputs),
        "host.reference",
        because,
    )
