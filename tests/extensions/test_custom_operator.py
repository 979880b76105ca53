"""Operators of a user, by a decorator."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import clgraph
from clgraph.core.registry import Registry
from clgraph.debugging.check_operator import check_custom_op, operator_called
from clgraph.errors import KernelBuildError, OptionError, RegistrationError, ShapeError, UnsupportedError
from clgraph.extensions.custom_operator import CUSTOM_OPERATORS
from clgraph.graph.primitive import PRIMITIVES
from clgraph.selector.sources import KERNEL_TEXTS

CUBE = """
__kernel void cube(__global const IN0_T* x, __global OUT0_T* y, const int n, const float factor, const int shift) {
  const int i = get_global_id(0);
  if (i < n) y[i] = factor * x[i] * x[i] * x[i] + shift;
}
"""


@pytest.fixture(autouse=True)
def registries():
    saved = [(registry, registry.snapshot()) for registry in Registry._all]
    yield
    for registry, entries in saved:
        registry.restore(entries)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def _cube(**further):
    def reference(x, factor, shift):
        return factor * x * x * x + shift

    given = {"kernel": CUBE, "domain": "acme", "reference": reference, "work_size": lambda i, o, **a: (o[0].size,)}

    @clgraph.custom_op("Cube", **(given | further))
    def cube(x: clgraph.TensorSpec, *, factor: float = 2.0, shift: int = 1) -> clgraph.TensorSpec:
        """The cube of x."""
        return x

    return cube


def _model(*, op: str = "Cube", outputs: int = 1, **attributes) -> onnx.ModelProto:
    """Relu, then the operator, then a concat that its result lies in."""
    made = [f"c{i}" for i in range(outputs)]
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="relu"),
        helper.make_node(op, ["r"], made, name="custom", domain="acme", **attributes),
        helper.make_node("Concat", ["r", *made], ["y"], axis=1),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 6])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("acme", 1)]
    return helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=opsets)


@pytest.mark.opencl
@pytest.mark.parametrize("device", ["pocl:0", "host"])
def test_a_model_with_a_custom_operator_runs_at_any_shape(device, rng) -> None:
    _cube()
    model = clgraph.compile(_model(factor=0.5), device=device)
    for rows in (1, 3):
        x = rng.standard_normal((rows, 6)).astype(np.float32)
        r = np.maximum(x, 0)
        np.testing.assert_allclose(model(x), np.concatenate([r, 0.5 * r**3 + 1], 1), rtol=4 * 2.0**-23)
    assert "acme.Cube(factor=0.5" in str(model.program)


@pytest.mark.opencl
def test_several_results_a_group_and_arguments_of_its_own(rng) -> None:
    kernel = """
    __kernel void cut(__global const float* x, __global float* low, __global float* high, const int rows,
                      const float at) {
      const int i = get_global_id(0), j = get_global_id(1);
      if (i >= rows) return;
      low[i * 6 + j] = fmin(x[i * 6 + j], at);
      high[i * 6 + j] = fmax(x[i * 6 + j], at);
    }
    """

    @clgraph.custom_op(
        "Cut",
        domain="acme",
        kernel=kernel,
        work_size=lambda i, o, **a: (-(-o[0].shape[0] // 4) * 4, 6),
        group=lambda i, o, **a: (4, 6),
        arguments=lambda i, o, at: (i[0].shape[0], at),
    )
    def cut(x, *, at=0.5):
        return [x, x]

    x = rng.standard_normal((3, 6)).astype(np.float32)
    r = np.maximum(x, 0)
    got = clgraph.compile(_model(op="Cut", outputs=2), device="pocl:0")(x)
    np.testing.assert_array_equal(got, np.concatenate([r, np.minimum(r, 0.5), np.maximum(r, 0.5)], 1))
    with pytest.raises(UnsupportedError, match=r"acme\.Cut has no reference"):
        list(check_custom_op(operator_called("Cut")))
    with pytest.raises(UnsupportedError, match="has no reference"):
        clgraph.compile(_model(op="Cut", outputs=2), device="host", shapes={"x": (3, 6)})


@pytest.mark.opencl
def test_a_kernel_has_local_memory_behind_its_numbers(rng) -> None:
    """Rows turned round: each group reads all of a row before it writes any of it."""
    kernel = """
    // Not declared: local memory;
    /* nor: __local float row; */
    __kernel void turned(__global const float* x, __global float* y, const int width, __local float* row,
                         __local int* last) {
      const int i = get_local_id(0), at = get_group_id(0) * width;
      row[i] = x[at + i];
      if (i == 0) *last = width - 1;
      barrier(CLK_LOCAL_MEM_FENCE);
      y[at + i] = row[*last - i];
    }
    """

    @clgraph.custom_op(
        "Turned",
        domain="acme",
        kernel=kernel,
        work_size=lambda i, o: (o[0].size,),
        group=lambda i, o: (o[0].shape[-1],),
        arguments=lambda i, o: (o[0].shape[-1],),
        local_bytes=lambda i, o: (4 * o[0].shape[-1], 4),
        reference=lambda x: x[:, ::-1],
    )
    def turned(x):
        return x

    x = rng.standard_normal((5, 6)).astype(np.float32)
    r = np.maximum(x, 0)
    model = clgraph.compile(_model(op="Turned"), device="pocl:0")
    np.testing.assert_array_equal(model(x), np.concatenate([r, r[:, ::-1]], 1))
    assert model.explain()["custom"].implementation == "acme.Turned.kernel"


@pytest.mark.opencl
def test_more_local_memory_than_the_device_has_is_refused() -> None:
    _cube(local_bytes=lambda i, o, **a: (1 << 40,))
    with pytest.raises(UnsupportedError, match=r"requires 1099511627776 bytes of local memory, the device has \d+"):
        clgraph.compile(_model(), device="pocl:0", shapes={"x": (2, 6)}, config={"strict": True})


@pytest.mark.parametrize("declared", ["__local float tile[4][17];", "local int4 a;"])
def test_a_variable_in_local_memory_is_refused_with_the_way_out(declared: str) -> None:
    with pytest.raises(RegistrationError, match=r"acme\.Cube: '(__)?local .*take a __local pointer: local_bytes"):
        _cube(kernel=CUBE.replace("const int i", f"{declared} const int i"))


@pytest.mark.opencl
def test_checking_finds_a_kernel_that_is_wrong() -> None:
    _cube()
    right = list(check_custom_op(operator_called("acme.Cube"), attributes={"factor": 3.0}))
    assert len(right) == 3 * 4
    assert not any(t.why for t in right)
    wrong = list(check_custom_op(operator_called("Cube"), [((4, 4),)], tolerance=1e-12))
    assert any("off by" in t.why for t in wrong)


@pytest.mark.opencl
def test_a_kernel_that_does_not_build_is_one_error_that_names_the_node() -> None:
    _cube(kernel=CUBE.replace("factor *", "fcator *"))
    line = 1 + CUBE[: CUBE.index("factor *")].count("\n")
    with pytest.raises(KernelBuildError, match=rf"custom_op .* does not compile .*: acme.Cube:{line}: .*fcator"):
        clgraph.compile(_model(), device="pocl:0", shapes={"x": (2, 6)})


@pytest.mark.opencl
def test_a_saved_model_runs_with_the_operator_there_and_is_refused_without(tmp_path, rng) -> None:
    _cube()
    x = rng.standard_normal((2, 6)).astype(np.float32)
    model = clgraph.compile(_model(), device="pocl:0", shapes={"x": (2, 6)})
    model.save(tmp_path / "m.clg")
    np.testing.assert_array_equal(clgraph.load(tmp_path / "m.clg", device="pocl:0")(x), model(x))
    for registry in (CUSTOM_OPERATORS, PRIMITIVES, KERNEL_TEXTS):
        registry.restore({k: registry[k] for k in registry if not k.startswith("acme.")})
    with pytest.raises(UnsupportedError, match=r"no operator is called 'acme\.Cube'"):
        clgraph.load(tmp_path / "m.clg", device="pocl:0")(x)


def test_what_is_wrong_with_a_declaration_is_said_at_once(tmp_path: Path) -> None:
    _cube()
    with pytest.raises(RegistrationError, match=r"acme\.Cube"):
        _cube()
    with pytest.raises(RegistrationError, match="no kernel file"):
        clgraph.custom_op("Other", kernel=tmp_path / "none.cl", work_size=lambda i, o: (1,))

    with pytest.raises(RegistrationError, match="'factor' needs a default"):

        @clgraph.custom_op("Third", kernel=CUBE, work_size=lambda i, o: (1,))
        def third(x, *, factor):
            return x

    with pytest.raises(OptionError, match=r"no custom operator is called 'Nope'; there are: acme\.Cube"):
        operator_called("Nope")


def test_a_shape_rule_that_refuses_its_inputs_is_a_shape_error_with_the_node() -> None:
    _cube()
    model = _model()
    model.graph.node[1].input.append("x")
    with pytest.raises(ShapeError, match="custom"):
        clgraph.compile(model, device="null", shapes={"x": (2, 6)})


MODULE = f'''
import clgraph

@clgraph.custom_op("Cube", domain="acme", kernel="""{CUBE}""", work_size=lambda i, o, **a: (o[0].size,),
                   reference=lambda x, factor, shift: factor * x * x * x + shift)
def cube(x, *, factor=2.0, shift=1):
    return x
'''


ADDED = """
__kernel void added(__global const float* x,
#ifdef IN1_T
  __global const float* a,
#endif
#ifdef IN2_T
  __global const float* b,
#endif
  __global float* y, const int n, const float shift) {
  const int i = get_global_id(0);
  if (i >= n) return;
  float sum = x[i] + shift;
#ifdef IN1_T
  sum += a[i];
#endif
#ifdef IN2_T
  sum -= b[i];
#endif
  y[i] = sum;
}
"""


TABLE = np.zeros((2, 2), np.int32)


def _added() -> None:
    def shift_of(mode, weights, table, note):
        return (2.0 if mode == "double" else 1.0) * sum(weights) + float(table.sum())

    def reference(x, a=None, b=None, **attributes):
        return x + np.float32(shift_of(**attributes)) + (0 if a is None else a) - (0 if b is None else b)

    @clgraph.custom_op(
        "Added",
        domain="acme",
        kernel=ADDED,
        reference=reference,
        work_size=lambda inputs, outputs, **attributes: (outputs[0].size,),
        arguments=lambda inputs, outputs, **attributes: (outputs[0].size, shift_of(**attributes)),
    )
    def added(x, a=None, b=None, *, mode="single", weights=[0.5], table=TABLE, note=None):  # noqa: B006
        assert table.shape == (2, 2)
        return x


def _sum_of(inputs: list[str], **attributes) -> onnx.ModelProto:
    node = helper.make_node("Added", inputs, ["y"], name="custom", domain="acme", **attributes)
    tensors = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 3]) for n in "xaby"]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("acme", 1)]
    return helper.make_model(helper.make_graph([node], "g", tensors[:3], tensors[3:]), opset_imports=opsets)


@pytest.mark.opencl
@pytest.mark.parametrize("inputs", [["x"], ["x", "a"], ["x", "", "b"], ["x", "a", "b"]])
def test_inputs_may_be_left_out_also_in_the_middle(inputs, rng) -> None:
    _added()
    feeds = {n: rng.standard_normal((4, 3)).astype(np.float32) for n in "xab"}
    want = feeds["x"] + np.float32(0.5) + ("a" in inputs) * feeds["a"] - ("b" in inputs) * feeds["b"]
    for device in ("pocl", "host"):
        got = clgraph.compile(_sum_of(inputs), device=device).run(feeds)["y"]
        # Three sums of numbers below eight.
        np.testing.assert_allclose(got, want, rtol=0, atol=3 * 8 * 2.0**-24)


@pytest.mark.opencl
def test_attributes_are_texts_tuples_and_arrays_too_and_are_saved(tmp_path, rng) -> None:
    _added()
    table = onnx.numpy_helper.from_array(np.array([[1, 2], [3, 4]], np.int32))
    model = clgraph.compile(_sum_of(["x"], mode="double", weights=[0.25, 0.5], table=table, note="n"), device="pocl")
    feeds = {n: rng.standard_normal((4, 3)).astype(np.float32) for n in "xab"}
    got = model.run(feeds)["y"]
    np.testing.assert_allclose(got, feeds["x"] + 11.5, rtol=0, atol=32 * 2.0**-24)
    model.save(tmp_path / "m.clg")
    np.testing.assert_array_equal(clgraph.load(tmp_path / "m.clg", device="pocl").run(feeds)["y"], got)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        (
            {"mod": "double"},
            r"'custom'.*acme.Added has no attribute 'mod'; its attributes are: mode, weights, table, note",
        ),
        ({"mode": 3}, "attribute 'mode' is a int, not a str"),
        ({"weights": "1"}, "attribute 'weights' is a str, not a list"),
    ],
)
def test_attributes_that_the_rule_does_not_have_are_refused(attributes, message) -> None:
    _added()
    with pytest.raises(UnsupportedError, match=message):
        clgraph.compile(_sum_of(["x"], **attributes), device="null")


@pytest.mark.opencl
def test_a_work_size_that_fails_is_an_error_of_the_operator() -> None:
    @clgraph.custom_op("Zero", domain="acme", kernel=CUBE, work_size=lambda inputs, outputs: (1 // 0,))
    def zero(x):
        return x

    with pytest.raises(ShapeError, match=r"work_size, group or arguments of acme.Zero .*ZeroDivisionError"):
        clgraph.compile(_model(op="Zero"), device="pocl", shapes={"x": (2, 6)})


@pytest.mark.opencl
def test_the_command_line_imports_a_module_and_compares(tmp_path: Path) -> None:
    (tmp_path / "ops.py").write_text(MODULE)
    (tmp_path / "bad.py").write_text("import nothing_of_the_kind\n")
    onnx.save(_model(), tmp_path / "m.onnx")

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "clgraph", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    module = ("--module", str(tmp_path / "ops.py"))
    checked = call("check-op", "acme.Cube", *module, "--shape", "3x5", "--attribute", "shift=4")
    assert checked.returncode == 0, checked.stderr
    assert "4 of 4 runs agree" in checked.stdout
    off = call("check-op", "Cube", *module, "--tolerance", "1e-15")
    assert (off.returncode, "off by" in off.stdout) == (1, True)
    run = call("explain", str(tmp_path / "m.onnx"), "--shape", "x=2,6", *module)
    assert run.returncode == 0, run.stderr
    assert "acme.Cube.kernel" in run.stdout
    bad = call("check-op", "Cube", "--module", str(tmp_path / "bad.py"))
    assert bad.returncode == 1
    assert bad.stderr.count("\n") == 1
    assert "bad.py cannot be imported: ModuleNotFoundError" in bad.stderr
