"""What a program's signal handler raises while clgraph works comes out as it is, whatever it interrupts."""

from __future__ import annotations

import ast
import builtins
import functools
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import clgraph
from clgraph.core.well_formed import well_formed
from clgraph.graph.faults import faults
from clgraph.graph.refusals import refusals
from clgraph.handlers import is_of_handler, pass_on, suppressed
from clgraph.ops.tensor_sequence import SplitToSequence

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")


class LateError(ValueError):
    """A time limit's exception, of a class that references raise, too."""


def late(*_: object) -> NoReturn:
    raise LateError("too late")


class Limit:
    """A handler that is an object, and one that is a method."""

    def __call__(self, *_: object) -> NoReturn:
        late()

    def over(self, *_: object) -> NoReturn:
        late()


HANDLERS = {"function": late, "object": Limit(), "method": Limit().over, "partial": functools.partial(late, "limit")}


@pytest.fixture(params=HANDLERS.values(), ids=list(HANDLERS))
def handled(request: pytest.FixtureRequest) -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, request.param)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.usefixtures("handled")
def test_it_is_neither_a_fault_nor_a_shape_that_does_not_fit() -> None:
    with pytest.raises(LateError) as raised, faults("a test"), refusals():
        signal.raise_signal(signal.SIGUSR1)
    with pytest.raises(LateError):
        pass_on(raised.value)
    with pytest.raises(LateError), well_formed("a file"):
        signal.raise_signal(signal.SIGUSR1)


OURS = """
def convert(make):
    try:
        make()
    except ValueError as error:
        raise ModelError("it is damaged") from error
"""


@pytest.mark.usefixtures("handled")
def test_no_error_of_clgraph_is_made_of_it() -> None:
    names: dict[str, Any] = {"__name__": "clgraph.reading", "ModelError": clgraph.errors.ModelError}
    exec(OURS, names)
    with pytest.raises(LateError):
        names["convert"](lambda: signal.raise_signal(signal.SIGUSR1))
    with pytest.raises(clgraph.errors.ModelError):
        names["convert"](lambda: int("x"))


@pytest.mark.usefixtures("handled")
def test_a_program_that_handles_it_gets_errors_of_clgraph() -> None:
    try:
        signal.raise_signal(signal.SIGUSR1)
    except LateError:
        assert clgraph.errors.ModelError("it is damaged")


@pytest.mark.usefixtures("handled")
def test_it_is_not_suppressed_with_others_of_its_class() -> None:
    with suppressed(ValueError):
        raise ValueError("no number")
    with pytest.raises(LateError), suppressed(ValueError):
        signal.raise_signal(signal.SIGUSR1)
    with pytest.raises(KeyError), suppressed(ValueError):
        raise KeyError("another")


def test_what_a_function_that_traces_raises_is_one_too() -> None:
    def traced(frame: Any, event: str, argument: object) -> Any:
        raise LateError("too late")

    def run() -> None:
        before = sys.gettrace()
        sys.settrace(traced)
        try:
            nothing()
        finally:
            sys.settrace(before)

    def nothing() -> None:
        return

    with pytest.raises(LateError) as raised:
        run()
    assert is_of_handler(raised.value)


ROOT = Path(__file__).parents[1]
NARROW = {"ImportError", "ModuleNotFoundError", "NameError", "KeyboardInterrupt"} | {
    name for name, c in vars(builtins).items() if isinstance(c, type) and issubclass(c, OSError) and c is not OSError
} - {"TimeoutError", "ConnectionError", "IOError", "EnvironmentError"}
BROAD = {n for n, c in vars(builtins).items() if isinstance(c, type) and issubclass(c, BaseException)} - NARROW
ELSEWHERE = {
    "clgraph/cli/": "a process of clgraph's own, without others' handlers",
    "clgraph/core/memo.py": "what is forgotten is derived again",
    "clgraph/data/": "hooks, which run while a program is packed",
    "clgraph/graph/topology.py": "refuse() raises it again",
    "clgraph/model/run_queue.py": "given to who waits for the run",
    "clgraph/model/state/lengths.py": "_refuse() raises it again",
    "clgraph/onnxruntime/forked.py": "a process of clgraph's own",
    "clgraph/runtime/canary_child.py": "a process of clgraph's own",
    "clgraph/serving/": "the server's own process, and its threads",
    "clgraph/throughput/": "threads, which no handler runs in; what is raised is given to who waits",
}


def test_code_that_goes_on_without_what_failed_passes_it_on() -> None:
    found = []
    for path in sorted((ROOT / "clgraph").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(tuple(ELSEWHERE)):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            found += [f"{name}:{line}" for line in sorted(set(_forgetting(tree)))]
    assert found == [], "pass_on(error) before anything else, or suppressed() (clgraph/handlers.py)"


def _forgetting(tree: ast.AST) -> Iterator[int]:
    """Yield the lines of code that catches what a handler may raise and goes on."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and BROAD & _names(node.type) and not _raises(node):
            first = node.body[0]
            if not (isinstance(first, ast.Expr) and ast.unparse(first).startswith("pass_on(")):
                yield node.lineno
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("suppress", "contextlib.suppress"):
            yield from [node.lineno] * bool(BROAD & {ast.unparse(argument) for argument in node.args})


def _names(caught: ast.expr | None) -> set[str]:
    if caught is None:
        return {"BaseException"}
    return {ast.unparse(c) for c in (caught.elts if isinstance(caught, ast.Tuple) else [caught])}


def _raises(handler: ast.ExceptHandler) -> bool:
    """Whether *handler* raises, whatever happens in it."""
    leaves = any(isinstance(node, ast.Return | ast.Continue | ast.Break) for node in ast.walk(handler))
    return not leaves and _ends_raising(handler.body)


def _ends_raising(body: list[ast.stmt]) -> bool:
    last = body[-1]
    if isinstance(last, ast.If):
        return bool(last.orelse) and _ends_raising(last.body) and _ends_raising(last.orelse)
    return isinstance(last, ast.Raise) or (isinstance(last, ast.With) and _ends_raising(last.body))


@pytest.mark.usefixtures("handled")
def test_what_is_no_handlers_is_converted() -> None:
    pass_on(LateError("an operator's own"))
    with pytest.raises(clgraph.errors.ShapeError), refusals():
        raise LateError("an operator's own")


@pytest.mark.usefixtures("handled")
@pytest.mark.opencl
@pytest.mark.parametrize("runs", [0, 1, 3])
def test_it_ends_a_run_that_goes_on_without_what_fails(device: str, runs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = helper.make_graph(
        [helper.make_node("SplitToSequence", ["x"], ["s"], axis=0), helper.make_node("SequenceLength", ["s"], ["n"])],
        "parts",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 2])],
        [helper.make_tensor_value_info("n", TensorProto.INT64, [])],
    )
    parts = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(parts)
    plain: Callable[..., Any] = SplitToSequence.reference
    numbers: list[int] = []

    def interrupted(self: SplitToSequence, *arguments: Any) -> Any:
        if numbers:
            signal.raise_signal(numbers.pop())
        return plain(self, *arguments)

    # Before it is compiled: pieces keep the references of their layers.
    monkeypatch.setattr(SplitToSequence, "reference", interrupted)
    model = clgraph.compile(parts, device=device)
    feed = np.zeros((3, 2), np.float32)
    for _ in range(runs):
        model(feed)
    numbers.append(signal.SIGUSR1)
    with pytest.raises(LateError):
        model(feed)
    assert not numbers
    assert model(feed) == 3
