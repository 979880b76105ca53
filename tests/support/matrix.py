"""Every model under every option that may not change results, and the figures of what it has been compiled to."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import clgraph
from clgraph.demo.fetch import MODELS, fetch_model
from clgraph.demo.pictures import draw_text
from clgraph.demo.recognition import prepare
from clgraph.errors import ClgraphError
from clgraph.graph.node import Node
from clgraph.graph.program import Program
from clgraph.model.explanation import FUSING
from clgraph.model.model import Model
from clgraph.passes.pipeline import default_pipeline
from tests.support.models import image, light_model, light_names
from tests.support.oracle import WHOLE_MODEL, Array, expected, session, worst_error

OCR = tuple(MODELS)


def model_names() -> list[str]:
    """Return the nine architectures of onnx with random weights, then the models of the demo."""
    return [*light_names(), *OCR]


def load(name: str, **sizes: int) -> tuple[onnx.ModelProto | Path, dict[str, Array]]:
    """Return a model, an architecture of the *sizes* that ``light_model`` takes, and its inputs.

    Raises:
        DownloadError: A model of the demo cannot be had.
    """
    if name in OCR:
        return fetch_model(name), {"x": _picture() if name == "ocr-det" else _line(name)}
    model = light_model(name, **sizes)
    value = model.graph.input[0]
    return model, {value.name: image(tuple(d.dim_value for d in value.type.tensor_type.shape.dim))}


def variants(*, every_stop: bool = True) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return (label, options): each optional pass left out, stops, verified, out of order, poisoned.

    A stop behind a required pass leaves out the same passes as one behind the optional pass before it, so that only
    the first of them is yielded.
    """
    passes = default_pipeline()
    yield "as it is", {"strict": True}
    for p in passes:
        if not p.required:
            yield f"without {p.name}", {"disable_passes": frozenset({p.name})}
    seen: set[frozenset[str]] = {frozenset()}
    for i, p in enumerate(passes if every_stop else ()):
        out = frozenset(q.name for q in passes[i + 1 :] if not q.required)
        if out not in seen:
            seen.add(out)
            yield f"up to {p.name}", {"stop_after": p.name}
    yield "out of order", {"out_of_order": True}
    yield "verified", {"verify_passes": True}


@dataclass
class Figures:
    """What a model has been compiled to, and how its variants fared.

    Attributes:
        alone: Elementwise nodes that are fused into nothing, with the reason.
        reorders: Nodes that only change the format, with the bytes they read and write.
        failures: What was wrong, by variant.
        ratio: Time relative to ONNX Runtime's, where it was measured.
    """

    name: str
    before: int
    after: int
    fused: int
    alone: list[str]
    reorders: list[str]
    arena: int
    lower_bound: int
    unshared: int
    errors: dict[str, float] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    ratio: float | None = None

    @property
    def overhead(self) -> float:
        """The arena relative to the most bytes alive at once."""
        return self.arena / self.lower_bound if self.lower_bound else 1.0


def figures(name: str, model: Model) -> Figures:
    """Return what *model* has been compiled to, without any variant."""
    program = model.program
    arenas = program.arenas.values()
    return Figures(
        name,
        len(model.topology.layers),
        len(program),
        sum(len(n.fused) for n in program),
        [_alone(program, n) for n in program if n.primitive.elementwise],
        [_reorder(n) for n in program if n.primitive.kind == "reorder"],
        sum(a.nbytes for a in arenas),
        sum(a.lower_bound for a in arenas),
        sum(a.unshared for a in arenas),
    )


def try_variant(
    source: onnx.ModelProto | Path, feeds: dict[str, Array], wanted: dict[str, Array], device: str, config: Any
) -> tuple[float, str | None]:
    """Return the worst error of a model under options, and what is wrong with it."""
    shapes = {name: array.shape for name, array in feeds.items()}
    try:
        error = worst_error(clgraph.compile(source, device, shapes=shapes, config=config).run(feeds), wanted)
    except (ClgraphError, AssertionError) as failure:
        return float("inf"), f"{type(failure).__name__}: {failure}"
    return error, None if error <= WHOLE_MODEL else f"{error:.2g} of the output's scale"


def measure(
    name: str, device: str, chosen: Callable[[str], bool], say: Callable[[str], None], rounds: int = 0
) -> Figures:
    """Return the figures of model *name* with every variant whose label is *chosen*.

    Args:
        rounds: Runs, each after one of ONNX Runtime on as many threads, that the ratio of times is taken from.
    """
    source, feeds = load(name)
    wanted = expected(source, feeds)
    shapes = {n: a.shape for n, a in feeds.items()}
    model = clgraph.compile(source, device, shapes=shapes)
    found = figures(name, model)
    if rounds:
        found.ratio = _ratio(model, session(source, model.device.workers), feeds, rounds)
    for label, config in variants():
        if chosen(label):
            start = time.perf_counter()
            found.errors[label], wrong = try_variant(source, feeds, wanted, device, config)
            say(f"{name:14} {label:36} {found.errors[label]:.1e} {time.perf_counter() - start:6.1f} s {wrong or ''}")
            if wrong is not None:
                found.failures[label] = wrong
    return found


def _line(name: str) -> Array:
    line = prepare(draw_text("OpenCL 2026"))
    return line if name == "ocr-rec" else np.ascontiguousarray(line[..., :192])


def _picture() -> Array:
    """Return a page with three lines of text: on noise detection finds nothing, and all of its result is tail."""
    page = np.ones((1, 3, 320, 320), np.float32)
    line = prepare(draw_text("OpenCL 2026"))[..., :300]
    for top in (20, 140, 240):
        page[:, :, top : top + line.shape[2], 10 : 10 + line.shape[3]] = line
    return page


def _ratio(model: Model, other: Any, feeds: dict[str, Array], rounds: int) -> float:
    ratios = []
    for number in range(rounds + 2):
        times = []
        for run in (lambda: model.run(feeds), lambda: other.run(None, feeds)):
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
        if number >= 2:
            ratios.append(times[0] / times[1])
    return statistics.median(ratios)


def _alone(program: Program, node: Node) -> str:
    notes = [line for name in FUSING for line in program.notes.get(name, "").splitlines()]
    reasons = [n.partition(": ")[2] for n in notes if n.startswith(f"{node.name}: not ")]
    if not reasons:
        producers = [v.producer.primitive.kind if v.producer else "an input" for v in node.inputs[: node.arity]]
        reasons = [f"reads {', '.join(producers)}"]
    return f"{node.name} ({node.primitive}): {'; '.join(reasons)}"


def _reorder(node: Node) -> str:
    source, result = node.inputs[0].layout, node.output.layout
    return f"{node.name}: {source} to {result}, {source.nbytes + result.nbytes} B"
