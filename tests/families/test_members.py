"""Members of families compute what whole compilations of their shapes do: models of the tests, and random ones.

``tools/check_families`` does the same with more models and members, and prints the counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from clgraph.compilation.sources import read_source
from clgraph.graph.topology import Topology
from tests.support.family_models import SOURCES, numbers, tally_of
from tests.support.graphs import FLOAT
from tests.support.halves import in_float16
from tests.support.members import Side, Tally, compare, compiler, differs, random_members
from tests.support.open_graphs import OpenGraph, embedded_step, random_picture_model, random_text_model
from tests.support.open_models import open_model
from tests.support.zoo import ZOO

pytestmark = pytest.mark.opencl

node = helper.make_node
CLASSES = pytest.mark.parametrize("device_class", ["cpu", "gpu"])


def both_ways(
    device: str,
    device_class: str,
    nodes: Sequence[Any],
    shapes: dict[str, Sequence[Any]],
    members: Any,
    **constants: Any,
) -> Tally:
    """Return the comparison of a model with result ``y``, whose inputs have *shapes*, for the sizes in *members*."""
    source = open_model(nodes, {n: (FLOAT, shape) for n, shape in shapes.items()}, constants)
    feeds = [
        {n: numbers(*(sizes[d] if isinstance(d, str) else d for d in shape)) for n, shape in shapes.items()}
        for sizes in members
    ]
    found = compare("model", read_source(source, None, None), feeds, device, {"device_class": device_class})
    assert not found.wrong
    assert found.members == len(members)
    return found


@CLASSES
def test_pads_to_a_multiple_that_a_convolution_took_in_are_those_of_the_member(device: str, device_class: str) -> None:
    """All representatives and witnesses have sizes that need no pads: nothing varies among them."""
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "two"], ["size"], axis=0),
        node("Neg", ["size"], ["less"]),
        node("Mod", ["less", "eight"], ["missing"]),
        node("Concat", ["before", "missing", "one"], ["pads"], axis=0),
        node("Pad", ["x", "pads"], ["p"]),
        node("Conv", ["p", "w"], ["y"]),
    ]
    constants = {
        "two": np.array([2]),
        "eight": np.array([8]),
        "before": np.array([0, 0, 1, 1, 0, 0]),
        "one": np.array([1]),
        "w": numbers(8, 4, 3, 3),
    }
    members = [{"n": 2, "h": 8, "w": 9}, {"n": 2, "h": 5, "w": 6}, {"n": 1, "h": 15, "w": 16}]
    found = both_ways(device, device_class, nodes, {"x": ("n", 4, "h", "w")}, members, **constants)
    assert found.bound == 1
    assert "was replaced" in next(iter(found.whole))


def test_pads_of_six_axes_that_sizes_decide_are_bound(device: str) -> None:
    """The twelve numbers are computed when the pad asks for them: nodes in front of it go."""
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Div", ["shape", "four"], ["behind"]),
        node("Concat", ["before", "behind"], ["pads"], axis=0),
        node("Pad", ["x", "pads"], ["y"]),
    ]
    members = [{"h": 5, "w": 6}, {"h": 8, "w": 13}]
    constants = {"four": np.array(4), "before": np.zeros(6, np.int64)}
    found = both_ways(device, "cpu", nodes, {"x": (1, 1, 1, 1, "h", "w")}, members, **constants)
    assert not found.whole


@CLASSES
def test_pads_that_depend_on_parity_are_those_of_the_member_in_merged_convolutions(
    device: str, device_class: str
) -> None:
    nodes = [
        node("Conv", ["x", "w0"], ["a"], auto_pad="SAME_UPPER", strides=[2, 2]),
        node("Relu", ["a"], ["b"]),
        node("Conv", ["b", "w1"], ["c"], auto_pad="SAME_UPPER", strides=[2, 2], group=16),
        node("Conv", ["c", "w2"], ["y"]),
    ]
    constants = {"w0": numbers(16, 16, 3, 3), "w1": numbers(16, 1, 3, 3), "w2": numbers(16, 16, 1, 1)}
    members = [{"n": n, "h": h, "w": w} for n, h, w in ((2, 8, 9), (2, 5, 6), (1, 15, 16), (1, 1, 7))]
    assert both_ways(device, device_class, nodes, {"x": ("n", 16, "h", "w")}, members, **constants).bound >= 2


def test_slices_and_pads_that_passes_make_are_those_of_the_member(device: str) -> None:
    """Convolutions of volumes are those of slices of the depth; a slice between transposes is one of another axis."""
    nodes = [
        node("Conv", ["x", "w"], ["c"], strides=[2, 1, 1], pads=[1, 1, 1, 1, 1, 1]),
        node("Relu", ["c"], ["r"]),
        node("Conv", ["r", "w"], ["z"], pads=[1, 0, 0, 1, 0, 0]),
        node("Relu", ["z"], ["y"]),
    ]
    sizes = [{"n": 2, "d": 7, "h": 6}, {"n": 3, "d": 4, "h": 9}, {"n": 1, "d": 6, "h": 5}]
    found = both_ways(device, "cpu", nodes, {"x": ("n", 3, "d", "h", 6)}, sizes, w=numbers(3, 3, 3, 3, 3))
    assert found.bound == 3, found.whole
    nodes = [
        node("Transpose", ["x"], ["t"], perm=[0, 2, 1]),
        node("Slice", ["t", "one", "end", "two"], ["part"]),
        node("Transpose", ["part"], ["back"], perm=[0, 2, 1]),
        node("Relu", ["back"], ["y"]),
    ]
    constants = {"one": np.array([1]), "end": np.array([1 << 31]), "two": np.array([2])}
    found = both_ways(device, "cpu", nodes, {"x": (2, "s", 8)}, [{"s": 9}, {"s": 50}], **constants)
    assert found.bound == 2, found.whole


@pytest.mark.parametrize(
    ("last", "attributes", "bound"),
    [
        ("MaxPool", {"kernel_shape": [3, 3, 3], "strides": [2, 2, 2], "pads": [1] * 6}, True),
        ("AveragePool", {"kernel_shape": [2, 2, 2], "strides": [2, 2, 2]}, True),
        ("AveragePool", {"kernel_shape": [2, 2, 2], "strides": [2, 2, 2], "ceil_mode": 1}, False),
        ("AveragePool", {"kernel_shape": [2, 2, 2], "strides": [2, 2, 2], "pads": [0, 0, 0, 1, 1, 1]}, False),
        ("ConvTranspose", {"strides": [2, 2, 2], "pads": [1] * 6, "output_padding": [1] * 3}, True),
        ("Resize", {"mode": "linear"}, True),
    ],
)
def test_what_volumes_become_is_bound_where_no_size_tells_more(device: str, last: str, attributes, bound: bool) -> None:
    more = {"ConvTranspose": ["w"], "Resize": ["", "scales"]}.get(last, [])
    # Volumes are pooled as slices beside convolutions alone.
    nodes = [node("Conv", ["x", "v"], ["r"]), node(last, ["r", *more], ["z"], **attributes), node("Relu", ["z"], ["y"])]
    constants = {"v": numbers(3, 3, 1, 1, 1), "w": numbers(3, 3, 3, 3, 3), "scales": np.float32([1, 1, 1.5, 2, 1])}
    given = {name: constants[name] for name in ("v", *more) if name}
    found = both_ways(device, "cpu", nodes, {"x": (1, 3, "d", "h", 6)}, [{"d": 7, "h": 6}, {"d": 4, "h": 9}], **given)
    assert found.bound == 2 * bound, found.whole


def test_members_have_their_own_shapes_where_two_reshapes_became_one(device: str) -> None:
    """Twice the rows of half the columns, as SEW makes of its frames: of groups of axes alone there is no telling."""
    nodes = [
        node("Shape", ["x"], ["rows"], end=1),
        node("Concat", ["rows", "half"], ["parted"], axis=0),
        node("Reshape", ["x", "parted"], ["parts"]),
        node("Reshape", ["parts", "wide"], ["z"]),
        node("Relu", ["z"], ["y"]),
    ]
    constants = {"half": np.array([2, 8]), "wide": np.array([-1, 8])}
    found = both_ways(device, "cpu", nodes, {"x": ("s", 16)}, [{"s": 5}, {"s": 80}], **constants)
    assert found.bound == 2, found.whole


@CLASSES
def test_a_factor_computed_from_a_size_inside_an_inlined_operator_is_that_of_the_member(
    device: str, device_class: str
) -> None:
    """Attention scales by the root of the head's size, which becomes the factor of an activation."""
    source = onnx.helper.make_model(
        helper.make_graph(
            [node("Attention", ["q", "k", "v"], ["y"])],
            "heads",
            [
                helper.make_tensor_value_info(n, FLOAT, ("n", 3, s, "d"))
                for n, s in (("q", "s"), ("k", "t"), ("v", "t"))
            ],
            [helper.make_tensor_value_info("y", FLOAT, None)],
        ),
        opset_imports=[helper.make_opsetid("", 23)],
        ir_version=10,
    )
    feeds = [
        {"q": numbers(2, 3, s, d), "k": numbers(2, 3, 7, d), "v": numbers(2, 3, 7, d)} for s, d in ((5, 8), (9, 4))
    ]
    found = compare("heads", read_source(source, None, None), feeds, device, {"device_class": device_class})
    assert not found.wrong
    assert found.members == 2


@CLASSES
def test_a_size_that_is_1_for_all_that_representatives_are_tried_with_is_noticed(
    device: str, device_class: str
) -> None:
    """Every 600th place is one place for all but long inputs; a transpose of one place moves nothing."""
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("Slice", ["r", "zero", "end", "one", "step"], ["s"]),
        node("Transpose", ["s"], ["t"], perm=[0, 2, 1]),
        node("Sigmoid", ["t"], ["y"]),
    ]
    constants = {"zero": np.array([0]), "end": np.array([1 << 40]), "one": np.array([1]), "step": np.array([600])}
    members = [{"n": 2, "s": s} for s in (24, 350, 700, 1801)]
    found = both_ways(device, device_class, nodes, {"x": ("n", "s", 16)}, members, **constants)
    assert found.bound == 2
    assert any("a size of 1 is 2 here" in why for why in found.whole)


@CLASSES
def test_a_transpose_that_a_concat_joins_lies_in_the_concat(device: str, device_class: str) -> None:
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Transpose", ["a"], ["t"], perm=[0, 2, 1, 3]),
        node("MatMul", ["z", "w"], ["b"]),
        node("Concat", ["t", "b"], ["c"], axis=2),
        node("Softmax", ["c"], ["y"], axis=3),
    ]
    shapes = {"x": ("n", "s", 4, 16), "z": ("n", 4, "s", 16)}
    members = [{"n": 2, "s": 8}, {"n": 3, "s": 12}, {"n": 1, "s": 3}]
    found = both_ways(device, device_class, nodes, shapes, members, w=numbers(16, 16))
    assert found.bound == found.members


@CLASSES
def test_members_of_a_small_encoder_are_those_of_whole_compilations(device: str, device_class: str) -> None:
    source, feeds = ZOO["small_encoder_open"].make()
    topology = read_source(source, None, None)
    groups = [[(n, axis) for n in feeds] for axis in (0, 1)]
    members = random_members(topology, groups, feeds, 4)
    found = compare("encoder", topology, members, device, {"device_class": device_class})
    assert not found.wrong
    assert found.bound == found.members == 4


@pytest.mark.parametrize("seed", range(4))
def test_members_of_random_models_are_those_of_whole_compilations(device: str, seed: int) -> None:
    for source, feeds, axes in (
        (random_text_model(seed), {"x": numbers(2, 10, 24)}, (0, 1)),
        (random_picture_model(seed), {"x": numbers(2, 8, 24, 20)}, (0, 2, 3)),
    ):
        topology = read_source(source, None, None)
        members = random_members(topology, [[("x", a)] for a in axes], feeds, 4, seed)
        found = compare(f"random {seed}", topology, members, device)
        assert not found.wrong
        assert found.bound == found.members == 4, found.whole


def test_constants_that_sizes_decide_are_computed_in_the_type_that_a_pass_gave_them(device: str) -> None:
    """A model of float16 computes in float32 on CPUs: what is added to a sum has the sum's type."""
    g = OpenGraph(0)
    g.input("x", 2, "s", 24)
    embedded_step(g, g.value((2, "s", 24), "Relu", "x"))
    topology = read_source(in_float16(g.made()), None, None)
    feeds = [{"x": numbers(2, s, 24).astype(np.float16)} for s in (10, 40, 7)]
    found = compare("half", topology, feeds, device)
    assert not found.wrong
    assert found.bound == found.identical == 3, found.whole


@CLASSES
def test_a_concat_inside_of_a_concat_has_the_pitches_of_the_outermost(device: str, device_class: str) -> None:
    """As in the blocks of a DenseNet; the entries of a batch lie as far apart as those of the whole."""
    layers = [node("Relu", ["x"], ["c0"])]
    weights = []
    for i in range(4):
        weights.append(numpy_helper.from_array(numbers(16, 16 * (i + 1), 1, 1), f"k{i}"))
        layers.append(node("Conv", [f"c{i}", f"k{i}"], [f"r{i}"]))
        layers.append(node("Concat", [f"c{i}", f"r{i}"], [f"c{i + 1}"], axis=1))
    layers.append(node("MaxPool", ["c4"], ["y"], kernel_shape=[2, 2]))
    shapes = [helper.make_tensor_value_info(n, FLOAT, ["n", c, None, None]) for n, c in (("x", 16), ("y", 80))]
    graph = helper.make_graph(layers, "dense", shapes[:1], shapes[1:], weights)
    topology = read_source(
        helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), None, None
    )
    members = [{"x": numbers(n, 16, h, w)} for n, h, w in ((3, 9, 11), (2, 16, 16), (1, 7, 7))]
    found = compare("dense", topology, members, device, {"device_class": device_class})
    assert not found.wrong
    assert found.bound == 3, found.whole


@pytest.mark.parametrize("source", SOURCES)
def test_there_are_models_of_each_kind_to_bind_members_of(source: str) -> None:
    name, model, _ = next(SOURCES[source](range(1)))
    assert name
    assert isinstance(model, onnx.ModelProto) or type(model) is Topology


@pytest.mark.parametrize("source", ["texts", "pictures", "volumes", "halves", "branches", "nets", "graphs"])
def test_random_models_from_a_number_on_are_those_of_a_longer_range(source: str) -> None:
    def names(which: range) -> list[tuple[str, str]]:
        return [(name, repr(model)) for name, model, _ in SOURCES[source](which)]

    later = names(range(1, 2))
    assert later
    assert later == [named for named in names(range(2)) if named not in names(range(1))]


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["f32", "f16"])
@CLASSES
@pytest.mark.parametrize("source", SOURCES)
def test_members_of_all_models_are_those_of_whole_compilations(
    device: str, source: str, device_class: str, precision: str
) -> None:
    found = tally_of(source, device, {"device_class": device_class, "precision": precision})
    print(f"{source}: {found}")
    assert not found.wrong
    # Most networks of the onnx package reshape to sizes of one picture: those are compiled whole.
    assert found.bound > found.members // (4 if source == "light" else 2)
    assert source not in ("light", "quantised") or not found.without


@CLASSES
def test_a_stage_behind_a_count_that_data_decide_binds(device: str, device_class: str) -> None:
    nodes = [
        node("ReduceMax", ["x", "one"], ["most"], keepdims=0),
        node("Relu", ["most"], ["positive"]),
        node("NonZero", ["positive"], ["places"]),
        node("Squeeze", ["places", "zero"], ["rows"]),
        node("Gather", ["x", "rows"], ["kept"], axis=0),
        node("MatMul", ["kept", "w"], ["product"]),
        node("Softmax", ["product"], ["y"], axis=-1),
    ]
    constants = {"one": np.array([1]), "zero": np.array([0]), "w": numbers(8, 8)}
    source = open_model(nodes, {"x": (FLOAT, ("n", 8))}, constants)
    members = []
    for rows in (5, 9, 30, 31, 100):
        x = numbers(rows, 8)
        x[rows % 3 :: 2] = -1
        members.append({"x": x})
    found = compare("counts", read_source(source, None, None), members, device, {"device_class": device_class})
    assert not found.wrong
    assert found.bound == found.members == len(members), found.whole


def test_a_picture_larger_than_most_inputs_has_members() -> None:
    """Those of the onnx package's networks have 150,528 elements: two of nine networks had members at all."""
    topology = read_source(open_model([node("Relu", ["x"], ["y"])], {"x": (FLOAT, ("n", 3, 224, 224))}, {}), None, None)
    feeds = {"x": numbers(1, 3, 224, 224)}
    members = [m for seed in range(4) for m in random_members(topology, [[("x", 0)]], feeds, 4, seed)]
    assert {m["x"].shape[0] for m in members} == {1, 2}


def test_a_step_of_quantization_is_explained_where_a_half_is_as_near_as_rounding(device: str) -> None:
    nodes = [node("QuantizeLinear", ["x", "scale", "zero"], ["q"]), node("DequantizeLinear", ["q", "scale"], ["y"])]
    constants = {"scale": np.float32(0.1), "zero": np.uint8(0)}
    topology = read_source(open_model(nodes, {"x": (FLOAT, ("n",))}, constants), None, None)
    side = Side(topology, compiler(device, (), True))
    for quotient, one, two in ((25.50001, True, False), (25.4, False, False)):
        feeds = {"x": np.full(3, quotient * 0.1, np.float32)}
        made = side.run(feeds)
        for steps, explained in ((1, one), (2, two)):
            off = {"y": made["y"] + np.float32([0, steps * 0.1, 0])}
            assert (differs(off, made, (side,), feeds) is None) == explained, (quotient, steps)


def test_models_without_members_are_counted(monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    def made(_: range) -> Iterator[tuple[str, onnx.ModelProto, dict[str, np.ndarray]]]:
        shape = np.array([2, 3])
        fixed = open_model([node("Reshape", ["x", "shape"], ["y"])], {"x": (FLOAT, (3, 2))}, {"shape": shape})
        yield "fixed", fixed, {"x": numbers(3, 2)}
        unknown = open_model([node("Unheard", ["x"], ["y"])], {"x": (FLOAT, (3, 2))}, {})
        yield "unknown", unknown, {"x": numbers(3, 2)}

    monkeypatch.setitem(SOURCES, "texts", made)
    found = tally_of("texts", device, {})
    assert (found.without, found.models, found.members) == (2, 0, 0)
