"""Constants that sizes decide, which some nodes read as they were built and others otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
import pytest
from onnx import helper

import clgraph
from clgraph.compilation.sources import read_source
from clgraph.families.built import Built, varying
from clgraph.families.candidates import LEADING
from clgraph.families.uses import ConstantUses
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from tests.support.graphs import FLOAT, INT, graph, model
from tests.support.members import compare
from tests.support.programs import Net

WEIGHTS = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)


ROUNDINGS = 19
"""Of a result: a product's 16 terms are multiplied and added, the constants have been multiplied and rounded before."""


def scaled(nodes: Sequence[onnx.NodeProto], names: Sequence[str], **more: np.ndarray) -> onnx.ModelProto:
    """Return a model whose *nodes* read ``c``, weights times the first size of ``x``; the results have *names*."""
    size = [
        helper.make_node("Shape", ["x"], ["shape"], end=1),
        helper.make_node("Cast", ["shape"], ["size"], to=FLOAT),
        helper.make_node("Mul", ["weights", "size"], ["c"]),
    ]
    inputs = [("x", FLOAT, ("n", 16)), ("z", FLOAT, (16, 16))]
    results = [(name, FLOAT, (None, 16)) for name in names]
    return model(graph([*size, *nodes], inputs, results, weights=WEIGHTS, **more))


def check(source: onnx.ModelProto, device: str, wanted: Callable[..., list[np.ndarray]], note: str) -> None:
    """Compare two members with what is *wanted* of ``x``, ``z``, the weights and the size."""
    compiled = clgraph.compile(source, device, config={"device_class": "cpu"})
    random = np.random.default_rng(1)
    for n in (5, 40):
        x, z = (random.standard_normal((rows, 16)).astype(np.float32) for rows in (n, 16))
        read = [a.astype(np.float64) for a in (x, z, WEIGHTS)]
        found = compiled.run({"x": x, "z": z}).values()
        for got, want, most in zip(found, wanted(*read, n), wanted(*map(np.abs, read), n), strict=True):
            assert (np.abs(got - want) <= ROUNDINGS * np.finfo(np.float32).eps * most).all()
        assert note in compiled.program.notes["family"]


@pytest.mark.opencl
def test_a_copy_for_one_reader_is_the_members_where_another_reads_the_constant_as_it_is(device: str) -> None:
    """The product reads it packed."""
    nodes = [helper.make_node("MatMul", ["x", "c"], ["y"]), helper.make_node("Add", ["z", "c"], ["w"])]
    check(scaled(nodes, ["y", "w"]), device, lambda x, z, w, n: [x @ (w * n), z + w * n], "compiled whole")


@pytest.mark.opencl
def test_a_fixed_constant_that_equals_one_of_the_representatives_stays_what_it_is(device: str) -> None:
    """They are one constant of its program."""
    fixed = {f"k{size}": WEIGHTS * np.float32(size) for size in LEADING}
    nodes = [helper.make_node("Add", ["z", name], [f"z{name}"]) for name in ("c", *fixed)]
    source = scaled(nodes, [node.output[0] for node in nodes], **fixed)
    check(source, device, lambda x, z, w, n: [z + w * by for by in (n, *LEADING)], "compiled whole")


@pytest.mark.opencl
def test_zeros_of_a_members_size_that_are_added_leave_nothing(device: str) -> None:
    """As the biases of T5's decoder are, and masks of a text without one."""
    zeros = helper.make_tensor("zero", FLOAT, [1], [0.0])
    nodes = [
        helper.make_node("Concat", ["shape", "columns"], ["sizes"], axis=0),
        helper.make_node("ConstantOfShape", ["sizes"], ["mask"], value=zeros),
        helper.make_node("Add", ["x", "mask"], ["masked"]),
        helper.make_node("MatMul", ["masked", "weights"], ["y"]),
    ]
    check(scaled(nodes, ["y"], columns=np.array([16])), device, lambda x, z, w, n: [x @ w], "bound")


@pytest.mark.opencl
def test_constants_whose_uses_are_all_there_are_bound(device: str) -> None:
    """Two equal sums become one node; what nobody asks for goes; what follows is fused."""
    nodes = [helper.make_node("Add", ["z", "c"], [name]) for name in ("a", "b", "unused")]
    nodes += [helper.make_node("Add", ["a", "b"], ["ab"]), helper.make_node("Add", ["ab", "c"], ["w"])]
    check(scaled(nodes, ["w"]), device, lambda x, z, w, n: [2 * z + 3 * w * n], "bound in")


@pytest.mark.opencl
@pytest.mark.parametrize(("most", "note"), [(1000, "bound in"), (30, "compiled whole")])
def test_constants_whose_makers_became_one_are_bound_as_long_as_they_are_equal(
    device: str, most: int, note: str
) -> None:
    """As the ones that a network of graphs counts neighbours with, in each layer; *most* ends what is repeated."""
    nodes = [
        helper.make_node("Min", ["shape", "most"], ["limited"]),
        *[helper.make_node("Concat", [name, "columns"], [f"{name}2"], axis=0) for name in ("shape", "limited")],
        helper.make_node("Expand", ["one", "shape2"], ["ones"]),
        helper.make_node("Expand", ["one", "limited2"], ["others"]),
        *[helper.make_node("Concat", ["x", name], [f"x {name}"], axis=0) for name in ("ones", "others")],
        helper.make_node("Relu", ["x ones"], ["v"]),
        helper.make_node("Neg", ["x others"], ["w"]),
    ]
    more = {"most": np.array([most]), "columns": np.array([16]), "one": np.ones((1, 16), np.float32)}
    compiled = clgraph.compile(scaled(nodes, ["v", "w"], **more), device, config={"device_class": "cpu"})
    for n in (5, 20, 40):
        x = np.random.default_rng(n).standard_normal((n, 16)).astype(np.float32)
        v, w = compiled.run({"x": x, "z": WEIGHTS}).values()
        np.testing.assert_array_equal(v, np.concatenate([np.maximum(x, 0), np.ones_like(x)]))
        np.testing.assert_array_equal(w, -np.concatenate([x, np.ones_like(x)[:most]]))
    assert note in compiled.program.notes["family"]


@pytest.mark.opencl
def test_results_that_sizes_alone_decide_are_the_members(device: str) -> None:
    """As the anchors of a detector, masks, and the number of what there is."""
    nodes = [
        helper.make_node("Relu", ["x"], ["y"]),
        helper.make_node("Gather", ["shape", "first"], ["n"]),
        helper.make_node("Range", ["first", "n", "step"], ["places"]),
        helper.make_node("Cast", ["places"], ["anchors"], to=FLOAT),
    ]
    given = {"first": np.array(0), "step": np.array(1)}
    results = [("y", FLOAT, ("n", 16)), ("shape", INT, (1,)), ("anchors", FLOAT, (None,))]
    inputs = [("x", FLOAT, ("n", 16))]
    source = model(graph([helper.make_node("Shape", ["x"], ["shape"], end=1), *nodes], inputs, results, **given))
    compiled = clgraph.compile(source, device)
    for n in (5, 40, 3000):
        found = compiled.run({"x": np.full((n, 16), -1, np.float32)})
        assert found["y"].shape == (n, 16)
        np.testing.assert_array_equal(found["shape"], [n])
        np.testing.assert_array_equal(found["anchors"], np.arange(n, dtype=np.float32))
        assert "bound in" in compiled.program.notes["family"]


def test_uses_are_counted_among_nodes_that_share_origins() -> None:
    net = Net()
    x, c = net.input("x", (16, 16)), net.constant("c", WEIGHTS)
    first = net.add("first", Eltwise("add"), x, c)
    second = net.add("second", Eltwise("mul"), first, c)
    program = net.program(second)
    built, nodes = Built.of(program), list(program)

    def folded(*found: tuple[int, str], merged: Mapping[str, str] | None = None) -> set[str]:
        uses = ConstantUses(built, set(), merged or {})
        for node, name in found:
            uses.found(name, nodes[node])
        return uses.folded({"c"})

    assert folded((0, "c"), (1, "c")) == set()
    assert folded((0, "c")) == folded((1, "c")) == folded((0, "c"), (0, "c")) == {"c"}
    assert folded((0, "d"), (1, "d")) == {"c"}
    assert folded((0, "d"), (1, "d"), merged={"c": "d"}) == set()
    nodes[0].origin = ("first", "second")
    assert folded((0, "c")) == {"c"}
    assert folded((0, "c"), (0, "c")) == set()


def test_a_use_of_values_whose_makers_became_one_goes_by_all_their_names() -> None:
    net = Net()
    x, k = net.input("x", (16, 16)), net.input("k", (16, 16))
    made = [net.add(name, Activation("neg"), k) for name in ("c", "d")]
    read = [net.add(f"x{i}", Eltwise("add"), x, value) for i, value in enumerate(made)]
    program = net.program(net.add("y", Eltwise("mul"), *read))
    nodes = {node.name: node for node in program}
    nodes["x0"].origin = ("x0", "x1")
    built = Built.of(program)
    kept, gone = (nodes[name].output.name for name in ("c", "d"))
    names = {kept, gone}
    uses = ConstantUses(built, names, {gone: kept})
    assert uses.folded(names) == names
    uses.found(kept, nodes["x0"])
    assert uses.folded(names) == set()


def summed_states(inner: Sequence[onnx.NodeProto]) -> onnx.ModelProto:
    """Return a loop of three steps over ``x``, whose state is ``[batch][256]`` of zeros at first, as Keras exports it.

    The *inner* nodes make ``z`` of ``ws`` and ``rs``, the products of a step's input and of the state.
    """
    random, node = np.random.default_rng(0), helper.make_node
    body = [
        node("Gather", ["x", "i"], ["xi"], axis=1),
        node("MatMul", ["xi", "w"], ["ws"]),
        node("MatMul", ["s", "r"], ["rs"]),
        *inner,
        node("Sigmoid", ["z"], ["s1"]),
        node("Identity", ["go"], ["go1"]),
    ]
    given = [("i", INT, []), ("go", onnx.TensorProto.BOOL, []), ("s", FLOAT, ["n", 256])]
    loop = graph(body, given, [("go1", onnx.TensorProto.BOOL, []), ("s1", FLOAT, ["n", 256])])
    nodes = [
        node("Shape", ["x"], ["n"], end=1),
        node("Concat", ["n", "width"], ["shape"], axis=0),
        node("Expand", ["zero", "shape"], ["s0"]),
        node("Loop", ["steps", "on", "s0"], ["y"], body=loop, name="loop"),
    ]
    numbers = {"width": np.array([256]), "zero": np.float32(0), "steps": np.array(3), "on": np.array(True)}
    weights = {k: random.standard_normal((n, 256)).astype(np.float32) / 16 for k, n in (("w", 8), ("r", 256))}
    inputs = [("x", FLOAT, ["n", 3, 8])]
    return model(graph(nodes, inputs, [("y", FLOAT, ["n", 256])], **numbers, **weights))


@pytest.mark.opencl
@pytest.mark.parametrize("split", [False, True])
def test_products_of_a_first_state_of_zeros_leave_a_family(split: bool, device: str) -> None:
    inner = [helper.make_node("Add", ["ws", "rs"], ["z"])]
    if split:
        inner = [
            helper.make_node("Split", ["rs"], ["r0", "r1"], axis=1),
            helper.make_node("Split", ["ws"], ["w0", "w1"], axis=1),
            helper.make_node("Add", ["w1", "r0"], ["z0"]),
            helper.make_node("Mul", ["r1", "w0"], ["z1"]),
            helper.make_node("Concat", ["z0", "z1"], ["z"], axis=1),
        ]
    random = np.random.default_rng(1)
    members = [{"x": random.standard_normal((n, 3, 8)).astype(np.float32)} for n in (90, 26, 150)]
    found = compare("states", read_source(summed_states(inner), None, None), members, device)
    assert not found.wrong
    assert not found.whole
    assert found.identical == found.bound == len(members)


def test_sizes_vary_that_are_others_for_other_inputs() -> None:
    topology = read_source(summed_states([helper.make_node("Add", ["ws", "rs"], ["z"])]), None, None)
    built, *others = (Built.of(topology.build({"x": (n, 3, 8)})) for n in (13, 17))
    assert varying(built, others) == {13}
