"""Compiling twice as many nodes is twice the work, whatever the shape of the graph."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

import clgraph
from clgraph.compilation import models
from clgraph.passes.manager import PassManager
from tests.support.graph_writer import GraphWriter

SIZE = 8


def _weight(w: GraphWriter) -> str:
    return w.constant(w.random.standard_normal((SIZE, SIZE)).astype(np.float32) / SIZE)


def _chain(w: GraphWriter, x: str, n: int) -> list[str]:
    for i in range(n):
        x = w.add(("Relu", "Neg", "Abs", "Sigmoid")[i % 4], x)
    return [x]


def _residuals(w: GraphWriter, x: str, n: int) -> list[str]:
    weight = _weight(w)
    for _ in range(n // 2):
        x = w.add("Add", x, w.add("MatMul", x, weight))
    return [x]


def _weights(w: GraphWriter, x: str, n: int) -> list[str]:
    for _ in range(n):
        x = w.add("MatMul", x, _weight(w))
    return [x]


def _views(w: GraphWriter, x: str, n: int) -> list[str]:
    for _ in range(n // 3):
        x = w.add("Softmax", w.add("Reshape", w.add("Transpose", x, perm=[1, 0]), w.integers(SIZE, SIZE)))
    return [x]


def _concat(w: GraphWriter, x: str, n: int) -> list[str]:
    return [w.add("Concat", *(w.add("MatMul", x, _weight(w)) for _ in range(n)), axis=0)]


def _sum(w: GraphWriter, x: str, n: int) -> list[str]:
    return [w.add("Sum", *(w.add("MatMul", x, _weight(w)) for _ in range(n)))]


def _late_operands(w: GraphWriter, x: str, n: int) -> list[str]:
    made = [w.add("Softmax", x) for _ in range(n // 2)]
    for one in made:
        x = w.add("Add", x, one)
    return [x]


def _split(w: GraphWriter, x: str, n: int) -> list[str]:
    parts = w.split("Split", w.add("Concat", *[x] * (n // 2), axis=0), results=n // 2, axis=0, num_outputs=n // 2)
    return [w.add("Concat", *(w.add("Softmax", part) for part in parts), axis=1)]


def _outputs(w: GraphWriter, x: str, n: int) -> list[str]:
    results = [x]
    for _ in range(n):
        results.append(w.add("Sigmoid", results[-1]))
    return results[1:]


def _constants(w: GraphWriter, x: str, n: int) -> list[str]:
    total = _weight(w)
    for _ in range(n):
        total = w.add("Add", total, _weight(w))
    return [w.add("Add", x, total)]


def _model(nodes: Callable[[GraphWriter, str, int], list[str]], n: int) -> onnx.ModelProto:
    w = GraphWriter("many_nodes", opset=18)
    return w.model(*nodes(w, w.input("x", (SIZE, SIZE)), n))


def _lines(run: Callable[[], object]) -> int:
    """Return how many lines of Python *run* executes: work that does not depend on what else the machine does."""
    count = 0

    def trace(frame: object, event: str, argument: object) -> object:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.opencl
@pytest.mark.parametrize(
    "nodes",
    [_chain, _residuals, _weights, _views, _concat, _sum, _late_operands, _split, _outputs, _constants],
    ids=lambda f: f.__name__.strip("_"),
)
def test_twice_the_nodes_are_twice_the_work(nodes: Callable[[GraphWriter, str, int], list[str]], device: str) -> None:
    clgraph.compile(_model(nodes, 12), device=device)
    few, many = _model(nodes, 150), _model(nodes, 300)
    less, more = (_lines(lambda m=m: clgraph.compile(m, device=device)) for m in (few, many))
    assert more < 2.2 * less


def test_the_collector_does_not_start_while_a_model_is_read_and_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    model, waits = _model(_chain, 1), list[bool]()
    for home, name in ((models, "read_source"), (PassManager, "run")):
        did: Callable[..., Any] = getattr(home, name)
        monkeypatch.setattr(home, name, lambda *given, did=did: waits.append(gc.isenabled()) or did(*given))
    clgraph.compile(model, "null")
    assert waits == [False, False]
    assert gc.isenabled()
