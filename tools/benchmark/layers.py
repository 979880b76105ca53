"""Layer by layer: clgraph's profile beside another runtime's, matched by the model's nodes that both came from."""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import onnx

import clgraph
from clgraph.network.profile import NodeTime
from clgraph.selector.query import DeviceInfo
from tools.benchmark.cases import Feeds, load
from tools.benchmark.peers import Options, onnxruntime_options, openvino_request

RUNS = 9
"""Runs that are profiled; what is reported of a node is the median."""


@dataclass
class Layer:
    """Commands of both runtimes that compute the same nodes of the model; seconds.

    Attributes:
        nodes: The model's nodes; empty for what neither could place.
        kernels: clgraph's kernels.
        others: The other runtime's operators.
        bound: Seconds that the device's peak rates allow clgraph's commands, one by one.
    """

    nodes: tuple[str, ...]
    kernels: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    seconds: float = 0.0
    other_seconds: float = 0.0
    flops: float = 0.0
    nbytes: int = 0
    idle: float = 0.0
    bound: float = 0.0

    @property
    def loss(self) -> float:
        """Seconds by which clgraph is behind."""
        return self.seconds - self.other_seconds


def compare_layers(name: str, options: Options, peer: str = "onnxruntime") -> list[Layer]:
    """Return the layers of a model in clgraph's order, what cannot be placed last.

    Args:
        peer: ``onnxruntime`` or ``openvino``.

    Raises:
        ClgraphError: The model cannot be had or compiled.
    """
    model, feeds = load(name)
    for i, node in enumerate(model.graph.node):
        node.name = node.name or f"{node.op_type}_{i}"
    device, ours = _clgraph_times(model, feeds, options)
    theirs = _PROFILES[peer](model, feeds, options)
    layers = _groups(ours, device)
    place = {node: layer for layer in layers for node in layer.nodes}
    rest = Layer(())
    for operator, node, seconds in theirs:
        layer = place.get(node, rest)
        layer.others.append(operator)
        layer.other_seconds += seconds
    return [*layers, *([rest] if rest.others else [])]


def _clgraph_times(model: onnx.ModelProto, feeds: Feeds, options: Options) -> tuple[DeviceInfo, Sequence[NodeTime]]:
    shapes = {name: array.shape for name, array in feeds.items()}
    compiled = clgraph.compile(model, device=options.device, shapes=shapes, threads=options.workers)
    compiled.run(feeds)
    runs = [compiled.profile(feeds).commands for _ in range(RUNS)]
    medians = [replace(each[0], seconds=statistics.median(c.seconds for c in each)) for each in zip(*runs, strict=True)]
    return compiled.device, medians


def _groups(commands: Iterable[NodeTime], device: DeviceInfo) -> list[Layer]:
    """Return one layer for all commands that share nodes of the model."""
    layers: list[Layer] = []
    place: dict[str, Layer] = {}
    for c in commands:
        origin = c.origin or (c.node,)
        met = list({id(place[n]): place[n] for n in origin if n in place}.values())
        layer = met[0] if met else Layer(())
        if not met:
            layers.append(layer)
        for other in met[1:]:
            layer.nodes += other.nodes
            layer.kernels += other.kernels
            _add(layer, other.seconds, other.flops, other.nbytes, other.idle, other.bound)
            layers.remove(other)
        layer.nodes = tuple(dict.fromkeys((*layer.nodes, *origin)))
        layer.kernels.append(c.what)
        _add(layer, c.seconds, c.flops, c.nbytes, c.idle, c.roofline(device))
        place |= dict.fromkeys(layer.nodes, layer)
    return layers


def _add(layer: Layer, seconds: float, flops: float, nbytes: int, idle: float, bound: float) -> None:
    layer.seconds, layer.flops, layer.nbytes = layer.seconds + seconds, layer.flops + flops, layer.nbytes + nbytes
    layer.idle, layer.bound = layer.idle + idle, layer.bound + bound


def _openvino_times(model: onnx.ModelProto, feeds: Feeds, options: Options) -> list[tuple[str, str, float]]:
    """Return (operator, node of the model, seconds) of each node of OpenVINO, which says what it made each of."""
    request = openvino_request(model, feeds, options, PERF_COUNT=True)
    times: dict[str, list[float]] = {}
    operators: dict[str, str] = {}
    for _ in range(RUNS + 1):
        request.infer(feeds)
        for info in request.profiling_info:
            if "EXECUTED" in str(info.status):
                times.setdefault(info.node_name, []).append(info.real_time.total_seconds())
                operators[info.node_name] = info.node_type
    names = {n.name for n in model.graph.node} | {out for n in model.graph.node for out in n.output}
    makers = {out: n.name for n in model.graph.node for out in n.output}
    originals = {
        node.get_friendly_name(): node.get_rt_info()["originalLayersNames"].astype(str).split(",")
        for node in request.get_compiled_model().get_runtime_model().get_ordered_ops()
    }
    found = []
    for name, seconds in times.items():
        sources = (part for text in (name, *originals.get(name, ())) for part in _stems(text))
        known = next((stem for stem in sources if stem in names), "")
        found.append((operators[name], makers.get(known, known), statistics.median(seconds[1:])))
    return found


def _stems(name: str) -> Iterator[str]:
    """Yield *name* and its beginnings up to each ``_`` and ``/``, the longest first."""
    return (name[:i] for i in range(len(name), 0, -1) if name[i : i + 1] in ("", "_", "/"))


def _onnxruntime_times(model: onnx.ModelProto, feeds: Feeds, options: Options) -> list[tuple[str, str, float]]:
    """Return (operator, node of the model, seconds) of each node that onnxruntime runs."""
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:
        session = onnxruntime_options(options)
        session.enable_profiling, session.profile_file_prefix = True, str(Path(folder, "profile"))
        session.optimized_model_filepath = str(Path(folder, "optimized.onnx"))
        runtime = onnxruntime.InferenceSession(model.SerializeToString(), session, providers=["CPUExecutionProvider"])
        for _ in range(RUNS + 1):
            runtime.run(None, feeds)
        events = json.loads(Path(runtime.end_profiling()).read_text(encoding="utf-8"))
        optimized = onnx.load(folder + "/optimized.onnx", load_external_data=False).graph.node
    times: dict[str, list[float]] = {}
    operators: dict[str, str] = {}
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            name = event["name"].removesuffix("_kernel_time")
            times.setdefault(name, []).append(event["dur"] * 1e-6)
            operators[name] = event["args"]["op_name"]
    places = match(optimized, model.graph.node)
    return [(operators[n], places.get(n, ""), statistics.median(seconds[1:])) for n, seconds in times.items()]


_PROFILES = {"onnxruntime": _onnxruntime_times, "openvino": _openvino_times}


def match(optimized: Sequence[onnx.NodeProto], nodes: Sequence[onnx.NodeProto]) -> Mapping[str, str]:
    """Return the node of the model that each node of the optimized graph stands for, by name.

    A node is known by the tensor it computes, or by its name: onnxruntime lengthens the node's or the tensor's where it
    rewrites one. One that it invented, such as a reordering, goes with the node that reads it.
    """
    made = {out: n.name for n in nodes for out in n.output if out}
    names = {n.name for n in nodes} | made.keys()
    found: dict[str, str] = {}
    for node in optimized:
        known = next((made[out] for out in node.output if out in made), None)
        stems = _stems(node.name)
        named = next((made.get(stem, stem) for stem in stems if stem in names), None) if known is None else known
        if named is not None:
            found[node.name] = named
    readers = {name: n for n in reversed(optimized) for name in n.input}
    for node in reversed(optimized):
        reader = next((readers[out] for out in node.output if out in readers), None)
        if node.name not in found and reader is not None and reader.name in found:
            found[node.name] = found[reader.name]
    return found


def layers_markdown(layers: Sequence[Layer], most: int = 0, peer: str = "onnxruntime") -> str:
    """Return the layers as a table, those in which clgraph is furthest behind first; *most* rows of them, or all."""
    lines = [
        f"| nodes | clgraph kernels | us | GFLOP/s | {peer} operators | us | loss us |",
        "|---|---|---|---|---|---|---|",
    ]
    for layer in sorted(layers, key=lambda x: -x.loss)[: most or None]:
        first = layer.nodes[0] if layer.nodes else "(elsewhere)"
        nodes = f"{first} +{len(layer.nodes) - 1}" if len(layer.nodes) > 1 else first
        rate = f"{layer.flops / layer.seconds * 1e-9:.0f}" if layer.flops and layer.seconds else ""
        cells = [nodes, _counted(layer.kernels), f"{layer.seconds * 1e6:.0f}", rate]
        cells += [_counted(layer.others), f"{layer.other_seconds * 1e6:.0f}", f"{layer.loss * 1e6:+.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    total, other = sum(x.seconds for x in layers), sum(x.other_seconds for x in layers)
    lines.append(f"| all | | {total * 1e6:.0f} | | | {other * 1e6:.0f} | {(total - other) * 1e6:+.0f} |")
    return "\n".join(lines)


def kinds_markdown(layers: Sequence[Layer], peer: str = "onnxruntime") -> str:
    """Return the layers' totals by clgraph's kernels, the largest loss first."""
    totals: dict[str, list[float]] = {}
    for layer in layers:
        key = _counted(sorted(set(layer.kernels))) or "(none)"
        row = totals.setdefault(key, [0.0, 0.0, 0.0, 0.0])
        for i, value in enumerate((1, layer.seconds, layer.other_seconds, layer.flops)):
            row[i] += value
    lines = [f"| clgraph kernels | layers | us | GFLOP/s | {peer} us | loss us |", "|---|---|---|---|---|---|"]
    for key, (count, ours, theirs, flops) in sorted(totals.items(), key=lambda t: t[1][2] - t[1][1]):
        rate = f"{flops / ours * 1e-9:.0f}" if flops and ours else ""
        lines.append(
            f"| {key} | {count:.0f} | {ours * 1e6:.0f} | {rate} | {theirs * 1e6:.0f} | {(ours - theirs) * 1e6:+.0f} |"
        )
    return "\n".join(lines)


def _counted(words: Sequence[str]) -> str:
    counts = {w: words.count(w) for w in words}
    return ", ".join(f"{n} {w}" if n > 1 else w for w, n in counts.items())
