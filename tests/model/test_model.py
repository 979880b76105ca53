from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import onnx
import pytest

import clgraph
from clgraph.compilation import pass_runs
from clgraph.core.dtype import DType
from clgraph.errors import InputError, ModelError, OptionError, ProgramError, ShapeError, UnsupportedError
from clgraph.graph.program import Program
from clgraph.graph.signature import Signature
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.passes.base import Context, Pass
from clgraph.passes.pipeline import default_pipeline
from tests.support.kept import KEPT, keeping_few
from tests.support.models import image, small_model


def compiled(model: onnx.ModelProto | clgraph.Topology | None = None, **options: object) -> clgraph.Model:
    return clgraph.compile(model or small_model(), device="host", **options)  # type: ignore[arg-type]


def sums() -> clgraph.Topology:
    """Two inputs of open shapes, two outputs."""
    topology = clgraph.Topology()
    a, b = topology.input("a", ("n", 2)), topology.input("b", (None, 2))
    total = topology.add("total", Eltwise("add"), a, b)
    topology.output("positive", topology.add("positive", Activation("relu"), total))
    topology.output("total")
    return topology


def test_a_model_of_fixed_shapes_is_compiled_at_once() -> None:
    assert len(compiled().program) > 0


def test_a_model_of_open_shapes_is_compiled_when_they_are_known() -> None:
    model = compiled(small_model(size="n"))
    with pytest.raises(InputError, match="shapes="):
        _ = model.program
    assert model(image((1, 3, 8, 12))).shape == (1, 8, 4, 6)
    assert model.program.inputs[0].layout.shape == (1, 3, 8, 12)
    assert compiled(small_model(size="n"), shapes={"x": (1, 3, 6, 6)}).program.outputs[0][1].layout.shape == (
        1,
        8,
        3,
        3,
    )


def test_equal_shapes_share_a_specialisation_and_old_ones_go(monkeypatch: pytest.MonkeyPatch) -> None:
    model = compiled(small_model(size="n"), config=keeping_few(monkeypatch))
    first = model.prepare({"x": (1, 3, 4, 4)})
    assert model.prepare({"x": (1, 3, 4, 4)}) is first
    for size in range(5, 5 + KEPT):
        model.prepare({"x": (1, 3, size, size)})
    assert model.prepare({"x": (1, 3, 4, 4)}) is not first


def test_a_specialisation_in_use_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    model = compiled(small_model(size="n"), config=keeping_few(monkeypatch))
    first = model.prepare({"x": (1, 3, 4, 4)})
    for size in range(5, 5 + 2 * KEPT):
        model.prepare({"x": (1, 3, size, size)})
        model.prepare({"x": (1, 3, 4, 4)})
    assert model.prepare({"x": (1, 3, 4, 4)}) is first


def test_inputs_and_outputs_are_described() -> None:
    model = compiled()
    assert model.inputs == (Signature("x", DType.F32, (1, 3, 10, 10)),)
    assert model.outputs == (Signature("y", DType.F32, (1, 8, 5, 5)),)
    model = compiled(small_model(size="n"))
    assert model.inputs == (Signature("x", DType.F32, (1, 3, "n", "n")),)
    assert [s.name for s in model.outputs] == ["y"]


def test_outputs_by_name_in_the_models_order() -> None:
    model = compiled(sums())
    a, b = np.float32([[1, -2]]), np.float32([[-3, 1]])
    results = model.run({"b": b, "a": a})
    assert list(results) == ["positive", "total"]
    assert results["total"].tolist() == [[-2, -1]]
    positive, total = model(a, b)
    assert positive.tolist() == [[0, 0]]
    assert np.array_equal(total, results["total"])


def test_outputs_can_be_chosen_among_all_values() -> None:
    model = compiled(sums(), outputs=["total"])
    a = np.float32([[1, 2]])
    assert list(model.run({"a": a, "b": a})) == ["total"]
    assert "positive" not in [name for node in model.explain().nodes for name in node.origin]
    assert list(compiled(outputs=["p0", "y"]).run({"x": image((1, 3, 10, 10))})) == ["p0", "y"]
    with pytest.raises(OptionError, match="makes nothing called 'nothing'"):
        compiled(outputs=["nothing"])
    with pytest.raises(OptionError, match="outputs are a list of names"):
        compiled(outputs="y")


def test_results_are_new_arrays_each_run() -> None:
    model, x = compiled(), image((1, 3, 10, 10))
    first = model(x)
    kept = first.copy()
    first[...] = 7
    assert np.array_equal(model(x), kept)


def test_arrays_in_any_order_of_memory_give_the_same_result() -> None:
    model, x = compiled(), image((1, 3, 10, 10))
    wanted = model(x)
    assert np.array_equal(model(np.asfortranarray(x)), wanted)
    assert np.array_equal(model(x.astype(">f4")), wanted)
    assert np.array_equal(model(np.repeat(x, 2, axis=3)[..., ::2]), wanted)
    assert np.array_equal(model(x[:, :, ::-1].copy()[:, :, ::-1]), wanted)


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({}, "'x' is missing; the inputs are 'x'"),
        ({"x": image((1, 3, 10, 10)), "z": image((1,))}, "no input is called 'z'; the inputs are 'x'"),
        (
            {"x": image((1, 3, 10, 10)).astype(np.float64)},
            r"float64; the model requires float32: \.astype\('float32'\)",
        ),
        ({"x": None}, "input 'x' is a NoneType; the model requires float32$"),
        ({"x": image((1, 3, 10, 10)).astype(object)}, "input 'x' is an array of objects; the model requires float32$"),
        ({"x": image((1, 3, 10, 11))}, "does not fit"),
        ({"x": image((3, 10, 10))}, "does not fit"),
        ({"x": "text"}, "the model requires float32"),
        (None, "input 'x' is missing; the inputs are 'x'"),
        ([image((1, 3, 10, 10))], "does not fit"),
    ],
    ids=["missing", "unknown", "type", "none", "objects", "size", "rank", "text", "nothing", "list"],
)
def test_wrong_feeds_are_one_error_and_the_model_stays_usable(feeds: dict[str, object], message: str) -> None:
    model, x = compiled(), image((1, 3, 10, 10))
    wanted = model(x)
    with pytest.raises(InputError, match=message):
        model.run(feeds)
    assert np.array_equal(model(x), wanted)


def test_shapes_that_do_not_compile_leave_the_model_usable() -> None:
    model = compiled(sums())
    a = np.ones((3, 2), np.float32)
    for _ in range(2):
        with pytest.raises(ShapeError, match="'total'"):
            model.run({"a": a, "b": np.ones((2, 2), np.float32)})
    assert model.run({"a": a, "b": a})["total"].tolist() == [[2, 2]] * 3


def test_the_wrong_number_of_arrays_is_an_error() -> None:
    with pytest.raises(InputError, match="2 arrays were given"):
        compiled()(1, 2)


def test_threads_may_share_a_model() -> None:
    model = compiled(small_model(size="n"))
    arrays = [image((1, 3, 6 + i % 3, 6), i) for i in range(12)]
    wanted = [model(x) for x in arrays]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(model, arrays))
    assert all(np.array_equal(a, b) for a, b in zip(results, wanted, strict=True))


def test_a_dry_run_compiles_and_refuses_to_run() -> None:
    topology = clgraph.Topology()
    topology.output("y", topology.input("x", (1, 2)))
    model = clgraph.compile(topology, device="null")
    assert model.device.name == "null"
    with pytest.raises(InputError, match="dry run"):
        model(image((1, 2)))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"precision": "f8"}, OptionError, "precision=f8"),
        ({"config": {"colour": "red"}}, OptionError, "'colour' is not an option"),
        ({"shapes": {"z": (1,)}}, InputError, "no input is called 'z'"),
        ({"shapes": {"x": (1, 3, 10, 11)}}, InputError, "does not fit"),
        ({"config": {"disable_passes": frozenset({"nap"})}}, OptionError, "no pass is called 'nap'"),
        ({"config": {"force_kernels": (("first", "nothing.at_all"),)}}, OptionError, "is not an implementation"),
        ({"config": {"force_kernels": (("nobody", "convolution.ref"),)}}, OptionError, "no node .* is called 'nobody'"),
        ({"config": {"deny_kernels": frozenset({"nothing.at_all"})}}, OptionError, "no implementation is called"),
    ],
    ids=str,
)
def test_wrong_options_are_errors(options: dict[str, object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        compiled(**options)


def test_a_model_without_a_kernel_is_refused_by_a_strict_device() -> None:
    with pytest.raises(UnsupportedError, match="no implementation on null"):
        clgraph.compile(sums(), device="null", shapes={"a": (1, 2), "b": (1, 2)}, config={"deny_kernels": _all()})


def _all() -> frozenset[str]:
    from clgraph.selector.implementation import IMPLEMENTATIONS

    return frozenset(IMPLEMENTATIONS)


@dataclass(frozen=True)
class Double(Pass):
    """A wrong pass: it doubles every weight."""

    name = "double"

    def run(self, program: Program, context: Context) -> int:
        for value in program.constants:
            assert value.constant is not None
            value.constant = value.constant * 2
        return len(program.constants)


def test_verifying_names_the_pass_that_changes_results(monkeypatch: pytest.MonkeyPatch) -> None:
    passes = default_pipeline()
    monkeypatch.setattr(pass_runs, "default_pipeline", lambda: (*passes[:3], Double(), *passes[3:]))
    assert len(compiled().program) > 0
    with pytest.raises(ProgramError, match="pass 03 double changes output 'y'"):
        compiled(config={"verify_passes": True})


@pytest.mark.parametrize(
    ("source", "message"),
    [(b"", "is empty"), (None, "not NoneType"), (5, "not int"), ("\0", "null byte")],
    ids=["empty", "none", "number", "zero"],
)
def test_an_unreadable_model_is_a_model_error(source: object, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        clgraph.compile(source)  # type: ignore[arg-type]


def test_nothing_to_compute_is_an_error() -> None:
    topology = clgraph.Topology()
    topology.input("x", (1, 2))
    with pytest.raises(ModelError, match="no outputs"):
        compiled(topology)
    with pytest.raises(ModelError, match="no outputs"):
        compiled(outputs=[])


def test_repr_names_inputs_outputs_and_device() -> None:
    assert repr(compiled()) == "<Model (x f32 [1, 3, 10, 10]) -> (y) on host>"


def test_explain_tells_origin_placement_formats_and_reason() -> None:
    report = compiled().explain()
    node = report["first"]
    assert node.origin[0] == "first"
    assert (node.placement, node.implementation, node.because) == ("host", "host.reference", "general")
    assert node.inputs[0] == ("x", "f32:bfyx:1x3x10x10")
    assert node.inputs[1][1].endswith(" constant")
    assert str(node).startswith("first: convolution(")
    with pytest.raises(OptionError, match="no node is called 'nobody'"):
        _ = report["nobody"]
    for other in (0, slice(-3, None)):
        with pytest.raises(OptionError, match="no node is called"):
            _ = report[other]


def test_explain_carries_the_layering_annotation() -> None:
    model = small_model()
    model.graph.node[0].metadata_props.add(key="layer_ann", value="stem")
    assert compiled(model).explain()["first"].annotation == "stem"


def test_profile_counts_every_node() -> None:
    model = compiled()
    profile = model.profile({"x": image((1, 3, 10, 10))})
    assert set(profile.by_node()) == {node.name for node in model.program}
    assert 0 < profile.seconds <= profile.total
