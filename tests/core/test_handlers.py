"""What a program's signal handler raises while clgraph works comes out as it is, whatever it interrupts."""

from __future__ import annotations

import functools
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import clgraph
from clgraph.core.handlers import pass_on
from clgraph.core.well_formed import well_formed
from clgraph.graph.faults import faults
from clgraph.graph.refusals import refusals
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
