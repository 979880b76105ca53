"""Whatever our own code or a plugin's raises: one error that says where, whose fault it is, and what gets round it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from google.protobuf.message import DecodeError
from onnx import parser

import clgraph
from clgraph import cli
from clgraph.core.registry import Registry
from clgraph.errors import ClgraphError, DeviceMemoryError, InternalError, ShapeError
from clgraph.frontend import onnx_loader
from clgraph.graph.importing import IMPORTERS
from clgraph.network.feed import Feed
from clgraph.ops.activation import Activation
from clgraph.passes.kernels.compile_graph import CompileGraph
from clgraph.passes.observers import Dump
from clgraph.passes.patterns import decompose
from clgraph.passes.patterns.decompose import Decompose
from clgraph.selector.choose import Choice
from clgraph.selector.implementation import Implementation
from tests.support.models import image, small_model
from tests.support.planted import own_classes

FOREIGN = [
    IndexError("tuple index out of range"),
    KeyError("x"),
    ZeroDivisionError("division by zero"),
    AttributeError("no attribute"),
    OverflowError("too large"),
    RecursionError("too deep"),
    AssertionError("an invariant"),
    np.exceptions.AxisError(3, 2),
    np.linalg.LinAlgError("singular"),
    DecodeError("cut"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
    NotImplementedError(),
]
SUM = '<ir_version: 8, opset_import: ["": 17]> g (float[n,6] x) => (float[n,6] y) { h = Relu(x) y = Add(h, x) }'


@contextmanager
def planted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, error: BaseException | None) -> Iterator[None]:
    """Let the function *name* of *owner* raise *error*; with ``None``, be no function."""

    def fail(*arguments: Any, **options: Any) -> Any:
        assert error is not None
        raise error

    with monkeypatch.context() as patch, own_classes():
        patch.setattr(owner, name, None if error is None else fail)
        yield


def failing(error: BaseException, kind: str = "convolution") -> Callable[..., int]:
    """Return what runs a pass: it raises *error* at the first node of *kind*."""

    def run(self: Any, program: Any, context: Any) -> int:
        for node in program:
            if node.primitive.kind == kind:
                raise error
        return 0

    return run


@pytest.mark.parametrize("error", FOREIGN, ids=lambda e: type(e).__name__)
def test_what_a_pass_raises_is_one_error_that_names_pass_and_node(monkeypatch, error: Exception) -> None:
    monkeypatch.setattr(Decompose, "run", failing(error))
    with pytest.raises(InternalError) as caught:
        clgraph.compile(small_model(), device="null")
    text = str(caught.value)
    assert text.startswith(f"pass 'decompose' failed at node 'first': {type(error).__name__}")
    assert "\n" not in text
    assert "please report" in text
    assert caught.value.__cause__ is error
    assert text.endswith("--disable-pass decompose, or config={'disable_passes': ['decompose']}, gets round it.")


def test_a_module_that_a_pass_cannot_import_is_not_about_the_kernels_it_has_imported(
    monkeypatch, tmp_path: Path
) -> None:
    text = "from clgraph.implementations.cpu.softmax import *\nraise IndexError('no')\n"
    (tmp_path / "broken_kernels.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(Decompose, "run", lambda *_: importlib.import_module("broken_kernels"))
    with pytest.raises(InternalError, match=r"pass 'decompose' failed: IndexError: no.*--disable-pass decompose"):
        clgraph.compile(small_model(), device="null")


def test_what_kernels_share_is_none_that_can_be_denied(monkeypatch) -> None:
    def run(self: Any, program: Any, context: Any, of: Any = Implementation) -> int:
        raise IndexError("no")

    monkeypatch.setattr(Decompose, "run", run)
    with pytest.raises(InternalError, match=r"pass 'decompose' failed: IndexError: no.*--disable-pass decompose"):
        clgraph.compile(small_model(), device="null")


def test_the_way_round_a_pass_that_breaks_is_one(monkeypatch) -> None:
    monkeypatch.setattr(Decompose, "run", failing(IndexError("no")))
    model = clgraph.compile(small_model(), device="host", config={"disable_passes": ["decompose"]})
    assert model(image((1, 3, 10, 10))).shape[0] == 1


def test_a_required_pass_is_named_with_the_nodes_of_the_file_and_no_way_round_it_is_promised(monkeypatch) -> None:
    monkeypatch.setattr(CompileGraph, "run", failing(KeyError("no")))
    with pytest.raises(
        InternalError, match=r"pass 'compile_graph' failed at node 'first' \(from 'first', 'relu'\): Key"
    ) as caught:
        clgraph.compile(small_model(), device="null")
    assert "disable" not in str(caught.value)


def test_an_observer_that_breaks_is_one_error_with_the_pass(monkeypatch, tmp_path: Path) -> None:
    with planted(monkeypatch, Dump, "after", KeyError("no")), pytest.raises(InternalError, match="pass 'init' failed"):
        clgraph.compile(small_model(), device="null", config={"dump_graphs": tmp_path})


def test_memory_that_ends_is_no_fault_and_an_interrupt_is_passed_on(monkeypatch) -> None:
    with planted(monkeypatch, Decompose, "run", MemoryError()), pytest.raises(DeviceMemoryError, match="'decompose'"):
        clgraph.compile(small_model(), device="null")
    with planted(monkeypatch, Decompose, "run", KeyboardInterrupt()), pytest.raises(KeyboardInterrupt):
        clgraph.compile(small_model(), device="null")


@pytest.fixture
def broken_relu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An importer of Relu that raises KeyError."""
    saved = IMPORTERS.snapshot()

    def broken(node: Any) -> Any:
        raise KeyError("axis")

    assert IMPORTERS.get(("", "Relu", 14)) is not None
    IMPORTERS.restore({**saved, ("", "Relu", 14): broken})
    yield
    IMPORTERS.restore(saved)


def test_what_an_importer_raises_is_one_error_that_names_operator_and_node(broken_relu: None) -> None:
    with pytest.raises(InternalError, match=r"the importer of Relu failed at node 'Relu_\d': KeyError: 'axis'"):
        clgraph.compile(parser.parse_model(SUM), device="null")
    (problem,) = onnx_loader_check(SUM).problems
    assert problem.operator == "Relu-14"
    assert problem.needed == "clgraph without that fault"


def onnx_loader_check(text: str) -> Any:
    from clgraph.frontend.checking import check_onnx

    return check_onnx(parser.parse_model(text))


def test_what_reading_a_file_raises_is_one_error(monkeypatch) -> None:
    with (
        planted(monkeypatch, onnx_loader, "inline", RecursionError("deep")),
        pytest.raises(InternalError, match="reading the model failed: RecursionError"),
    ):
        clgraph.compile(parser.parse_model(SUM), device="null")


def test_what_a_shape_rule_raises_is_one_error_and_the_model_can_be_used_again(monkeypatch) -> None:
    model = clgraph.compile(parser.parse_model(SUM), device="host")
    x = np.ones((2, 6), np.float32)
    with (
        planted(monkeypatch, Activation, "infer", AttributeError("no")),
        pytest.raises(InternalError, match=r"a rule of activation failed at node 'Relu_\d': AttributeError: no"),
    ):
        model(x)
    with planted(monkeypatch, Activation, "infer", IndexError("no")), pytest.raises(ShapeError, match="Relu"):
        model(x)
    np.testing.assert_array_equal(model(x), 2 * x)


@pytest.mark.parametrize("runs_on", ["null", pytest.param("pocl:0", marks=pytest.mark.opencl)])
@pytest.mark.parametrize("where", ["plan", "estimate", "limits"])
def test_what_a_kernel_raises_names_it_and_the_node_and_denying_it_gets_round(
    monkeypatch, runs_on: str, where: str
) -> None:
    model = small_model()
    choice = next(n for n in clgraph.compile(model, device=runs_on).program if n.primitive.kind == "convolution").choice
    assert isinstance(choice, Choice)
    name = choice.name
    with (
        planted(monkeypatch, choice.implementation, where, IndexError("no")),
        pytest.raises(InternalError, match=r"pass '\w+' failed at node '\w+'.*: IndexError: no") as caught,
    ):
        clgraph.compile(model, device=runs_on)
    assert f"--deny-kernel {name}, or config={{'deny_kernels': ['{name}']}}, gets round it." in str(caught.value)
    with planted(monkeypatch, choice.implementation, where, IndexError("no")):
        clgraph.compile(model, device=runs_on, config={"deny_kernels": [name]})


def test_what_a_reference_on_the_host_raises_is_one_error_that_names_the_node(monkeypatch) -> None:
    model = clgraph.compile(parser.parse_model(SUM), device="host", shapes={"x": (2, 6)})
    x = np.ones((2, 6), np.float32)
    for run in (model, lambda a: model.profile({"x": a}), lambda a: model.run_async({"x": a}).result(30)):
        with (
            planted(monkeypatch, Activation, "reference", AttributeError("no")),
            pytest.raises(InternalError, match=r"run of the model failed at node '\w+'.*: AttributeError: no"),
        ):
            run(x)
    np.testing.assert_array_equal(model(x), 2 * x)


@pytest.mark.opencl
def test_what_a_run_raises_is_one_error_and_the_next_run_is_right(device: str, monkeypatch) -> None:
    model = clgraph.compile(small_model(), device=device)
    x = image((1, 3, 10, 10))
    want = model(x)
    with (
        planted(monkeypatch, Feed, "write", TypeError("no")),
        pytest.raises(
            InternalError, match=r"^a run of the model failed: TypeError: no\. This is a fault of (clgraph|tests)"
        ),
    ):
        model.run(x, timeout=600)  # which looks at all feeds
    np.testing.assert_array_equal(model(x), want)


def test_what_a_stage_raises_is_one_error_and_the_next_run_is_right(monkeypatch) -> None:
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[6] x) => (int64[1,k] y) { h = Sqrt(x) y = NonZero(h) }'
    model = clgraph.compile(parser.parse_model(text), device="host")
    x = np.array([0, 1, 0, 4, 9, 0], np.float32)
    with (
        planted(monkeypatch, Activation, "reference", AttributeError("no")),
        pytest.raises(InternalError, match="AttributeError: no"),
    ):
        model(x)
    np.testing.assert_array_equal(model(x), [[1, 3, 4]])


def test_a_fault_is_clgraphs_or_that_of_who_has_registered_what_raised_it(monkeypatch) -> None:
    with (
        planted(monkeypatch, decompose, "_eltwise", None),
        pytest.raises(InternalError, match="a fault of clgraph: please report"),
    ):
        clgraph.compile(parser.parse_model(SUM), device="null", shapes={"x": (1, 6)})
    saved = [(registry, registry.snapshot()) for registry in Registry._all]
    try:

        @clgraph.custom_op("Odd", kernel="__kernel void odd() {}", work_size=lambda i, o: (1,), domain="acme")
        def odd(x: clgraph.TensorSpec) -> clgraph.TensorSpec:
            raise AttributeError("no")

        text = SUM.replace('"": 17', '"": 17, "acme": 1').replace("Relu(x)", "acme.Odd(x)")
        with pytest.raises(InternalError, match=r"a rule of acme\.Odd failed at node .* a fault of (?!clgraph)\w+: "):
            clgraph.compile(parser.parse_model(text), device="null", shapes={"x": (1, 6)})
    finally:
        for registry, entries in saved:
            registry.restore(entries)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    onnx.save(small_model(), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def command(monkeypatch, capsys, *arguments: object) -> tuple[int, str]:
    """Return status and error stream of the command line."""
    monkeypatch.setattr(sys, "argv", ["clgraph", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    return int(stopped.value.code or 0), capsys.readouterr().err


@pytest.mark.parametrize("name", ["compile", "run", "explain", "bench"])
def test_on_the_command_line_a_fault_is_one_line_and_vv_has_the_traceback(monkeypatch, capsys, file, name: str) -> None:
    monkeypatch.setattr(Decompose, "run", failing(IndexError("no")))
    further = {"run": ["--random-inputs"], "bench": ["--iterations", 3]}.get(name, [])
    status, err = command(monkeypatch, capsys, name, file, "--device", "host", *further)
    assert (status, len(err.splitlines())) == (1, 1)
    assert err.startswith("error: pass 'decompose' failed at node 'first': IndexError: no.")
    status, err = command(monkeypatch, capsys, "-vv", name, file, "--device", "host", *further)
    assert status == 1
    assert "Traceback" in err
    assert err.splitlines()[-1].startswith("error: pass 'decompose' failed")
    status, err = command(monkeypatch, capsys, name, file, "--device", "host", "--disable-pass", "decompose", *further)
    assert (status, err) == (0, "")


def test_a_fault_of_a_command_itself_is_one_line(monkeypatch, capsys, file: Path) -> None:
    from clgraph.cli import compile_command

    with planted(monkeypatch, compile_command, "compiled", ZeroDivisionError("no")):
        status, err = command(monkeypatch, capsys, "compile", file)
        assert (status, len(err.splitlines())) == (1, 1)
        assert err.startswith("error: ZeroDivisionError: no. This is a fault of clgraph: please report it")
        assert "Traceback" in command(monkeypatch, capsys, "-vv", "compile", file)[1]


def test_every_foreign_error_is_an_error_of_clgraph() -> None:
    assert issubclass(InternalError, ClgraphError)
