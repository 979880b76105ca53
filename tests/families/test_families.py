"""Programs bound to a family of shapes compute what programs compiled for the shapes do, whichever came first."""

from __future__ import annotations

import gc
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import clgraph
from clgraph.errors import DeviceMemoryError
from clgraph.families.family import Family
from clgraph.families.notes import NOTE
from clgraph.network.network import Network
from clgraph.runtime.device import find_device
from tests.support.graphs import FLOAT, INT
from tests.support.memory import violations
from tests.support.open_models import convolutions, open_model, reshaping, shapes_of
from tests.support.zoo_text import Encoder, encoder

pytestmark = pytest.mark.opencl


def note(model: clgraph.Model) -> str:
    """Return how the program used last came about."""
    return model.program.notes.get(NOTE, "")


@pytest.mark.parametrize(
    ("device_class", "count"), [("auto", 6), ("gpu", 2), pytest.param("gpu", 20, marks=pytest.mark.slow)]
)
def test_members_compute_what_whole_compilations_do(device: str, device_class: str, count: int) -> None:
    source, config = convolutions(), {"device_class": device_class}
    model = clgraph.compile(source, device, config=config)
    for shape in [*shapes_of(0, count), (1, 3, 1, 1), (2, 3, 1, 9)]:
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        whole = clgraph.compile(source, device, shapes={"x": shape}, config=config).run({"x": x})["y"]
        # Sums of at most 48 * 9 products of numbers around 1, in another order.
        np.testing.assert_allclose(model.run({"x": x})["y"], whole, rtol=1e-5, atol=1e-4)
        assert note(model).startswith(("bound", "compiled whole: no size is free"))


def test_the_collector_does_not_start_while_a_member_is_bound(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, waits = clgraph.compile(convolutions(), device), list[bool]()
    model.prepare({"x": (2, 3, 20, 30)})
    for kind in (Family, Network):
        name = "bind" if kind is Family else "lighten"
        did = getattr(kind, name)
        monkeypatch.setattr(kind, name, lambda *given, did=did: waits.append(gc.isenabled()) or did(*given))
    model.prepare({"x": (2, 3, 17, 9)})
    assert waits == [False, False]
    assert gc.isenabled()


def test_results_do_not_depend_on_which_shape_came_first(device: str) -> None:
    source, shapes = convolutions(), [(2, 3, 20, 30), (3, 3, 17, 9), (2, 3, 40, 11)]
    results: list[dict[Any, bytes]] = []
    for order in (shapes, shapes[::-1]):
        model = clgraph.compile(source, device)
        results.append({})
        for shape in order:
            x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
            results[-1][shape] = model.run({"x": x})["y"].tobytes()
            assert note(model).startswith("bound")
    assert results[0] == results[1]


def test_verify_passes_binds_and_compiles_whole(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = clgraph.compile(convolutions(), device, config={"verify_passes": True})
    model.run({"x": np.ones((2, 3, 8, 9), np.float32)})
    assert note(model).startswith("bound")
    assert model.passes
    monkeypatch.setattr("clgraph.families.rules.Rule.primitive", lambda rule, bindings, inputs: rule.node.primitive)
    wrong = clgraph.compile(reshaping(), device, config={"verify_passes": True})
    shape = np.array([3, -1])
    assert wrong.run({"x": np.ones((2, 6), np.float32), "shape": shape})["y"].shape == (3, 4)
    assert note(wrong).startswith("compiled whole")


def test_shapes_that_are_fed_are_sizes_of_a_family(device: str) -> None:
    model = clgraph.compile(reshaping(), device)
    families = set()
    for rows, shape in ((4, (8, 3)), (10, (4, 15)), (7, (6, 7)), (6, (2, 3, 6)), (8, (4, 4, 3))):
        x = np.random.default_rng(0).standard_normal((rows, 6)).astype(np.float32)
        found = model.run({"x": x, "shape": np.array(shape)})["y"]
        np.testing.assert_array_equal(found, np.maximum(x, 0).reshape(shape))
        assert note(model).startswith("bound")
        families.add(note(model).partition("family")[2].partition(";")[0])
    assert len(families) == 2


def test_a_slice_that_is_fed_ends_anywhere(device: str) -> None:
    source = open_model(
        [helper.make_node("Slice", ["x", "starts", "ends", "axes"], ["s"]), helper.make_node("Relu", ["s"], ["y"])],
        {"x": (FLOAT, ("n", "w")), "starts": (INT, (1,)), "ends": (INT, (1,))},
        constants={"axes": np.array([1])},
    )
    model = clgraph.compile(source, device)
    x = np.random.default_rng(0).standard_normal((3, 50)).astype(np.float32)
    for start, end in ((2, 7), (3, 50), (4, 90), (5, 6), (9, 4), (0, 3), (-4, 50)):
        found = model.run({"x": x, "starts": np.array([start]), "ends": np.array([end])})["y"]
        np.testing.assert_array_equal(found, np.maximum(x[:, start:end], 0))


def test_quantised_convolutions_have_the_pads_of_the_member(device: str) -> None:
    """What their scales and zero points become is the same for all sizes; their pads are not."""
    w = np.random.default_rng(0).integers(-100, 100, (16, 16, 3, 3)).astype(np.int8)
    scales = {name: np.float32(scale) for name, scale in (("s", 0.02), ("ws", 0.01), ("ys", 0.1))}
    zeros = {"z": np.uint8(128), "wz": np.int8(0), "yz": np.uint8(128)}
    inputs = ["q", "s", "z", "w", "ws", "wz", "ys", "yz"]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("QLinearConv", inputs, ["c"], auto_pad="SAME_UPPER", strides=[2, 2]),
        helper.make_node("DequantizeLinear", ["c", "ys", "yz"], ["y"]),
    ]
    source = open_model(nodes, {"x": (FLOAT, ("n", 16, "h", "w"))}, {"w": w, **scales, **zeros})
    model = clgraph.compile(source, device)
    for shape in ((2, 16, 8, 8), (2, 16, 9, 8), (3, 16, 7, 12)):
        x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        whole = clgraph.compile(source, device, shapes={"x": shape}).run({"x": x})["y"]
        # One step of the result: sums of other kernels differ by rounding, and are rounded to steps.
        np.testing.assert_allclose(model.run({"x": x})["y"], whole, rtol=0, atol=1.001 * scales["ys"])
        # Where a pass has made another operator of the convolution, sizes of other pads are compiled whole.
        assert note(model).startswith("bound") or (shape[2] % 2 and "when it was replaced" in note(model))


def test_windows_that_are_longer_than_all_sizes_that_are_tried_first_have_a_family(device: str) -> None:
    """A spectrogram: 512 samples of a waveform at a time, at steps of 160."""
    window = np.random.default_rng(0).standard_normal((16, 1, 512)).astype(np.float32)
    nodes = [
        helper.make_node("Unsqueeze", ["x", "one"], ["u"]),
        helper.make_node("Conv", ["u", "window"], ["c"], strides=[160]),
        helper.make_node("Abs", ["c"], ["y"]),
    ]
    source = open_model(nodes, {"x": (FLOAT, ("n", "samples"))}, {"window": window, "one": np.array([1])})
    model = clgraph.compile(source, device)
    for samples in (1280, 700, 12000):
        x = np.random.default_rng(samples).standard_normal((2, samples)).astype(np.float32)
        starts = range(0, samples - 511, 160)
        want = np.stack([x[:, start : start + 512] @ window[:, 0].T for start in starts], axis=2)
        # A sum of 512 products of numbers of about 1.
        np.testing.assert_allclose(model.run({"x": x})["y"], np.abs(want), rtol=1e-5, atol=1e-3)
        assert "to the family x [n, samples] of" in note(model)


def test_a_size_that_is_cut_off_elsewhere_is_noticed(device: str) -> None:
    """Beyond 100 rows the slice cuts; the representative must not be one for which it does, or does not, unnoticed."""
    table = np.random.default_rng(0).standard_normal((100, 8)).astype(np.float32)
    source = open_model(
        [
            helper.make_node("Shape", ["x"], ["shape"]),
            helper.make_node("Gather", ["shape", "one"], ["rows"], axis=0),
            helper.make_node("Slice", ["table", "zero", "rows", "zero"], ["part"]),
            helper.make_node("Slice", ["x", "zero", "hundred", "one"], ["head"]),
            helper.make_node("Add", ["head", "part"], ["y"]),
        ],
        {"x": (FLOAT, ("n", "s", 8))},
        constants={
            "table": table,
            "zero": np.array([0]),
            "one": np.array([1]),
            "hundred": np.array([100]),
        },
    )
    model = clgraph.compile(source, device)
    for rows in (3, 40, 99, 100, 101, 250):
        x = np.random.default_rng(rows).standard_normal((2, rows, 8)).astype(np.float32)
        wanted = x[:, :100] + table[: min(rows, 100)]
        np.testing.assert_array_equal(model.run({"x": x})["y"], wanted)


def test_a_number_computed_from_sizes_is_computed_again(device: str) -> None:
    source = open_model(
        [
            helper.make_node("Shape", ["x"], ["shape"]),
            helper.make_node("Gather", ["shape", "one"], ["size"], axis=0),
            helper.make_node("Cast", ["size"], ["float"], to=FLOAT),
            helper.make_node("Sqrt", ["float"], ["root"]),
            helper.make_node("Relu", ["x"], ["r"]),
            helper.make_node("Mul", ["r", "root"], ["y"]),
        ],
        {"x": (FLOAT, ("n", "s"))},
        constants={"one": np.array([1])},
    )
    model = clgraph.compile(source, device)
    for size in (4, 9, 25, 7):
        x = np.random.default_rng(size).standard_normal((2, size)).astype(np.float32)
        wanted = np.maximum(x, 0) * np.sqrt(np.float32(size))
        np.testing.assert_array_equal(model.run({"x": x})["y"], wanted)


def test_a_model_of_one_batch_only_has_no_family(device: str) -> None:
    """Its reshape fits one size; that shape is compiled whole, and the note says why."""
    source = open_model(
        [helper.make_node("Reshape", ["x", "to"], ["y"])], {"x": (FLOAT, ("n", 4))}, {"to": np.array([3, 4])}
    )
    model = clgraph.compile(source, device)
    assert model.run({"x": np.ones((3, 4), np.float32)})["y"].shape == (3, 4)
    assert note(model).startswith("compiled whole: x [n, 4]: no sizes stand for the others")


def test_a_size_of_none_is_compiled_whole(device: str) -> None:
    model = clgraph.compile(convolutions(), device)
    assert model.run({"x": np.ones((0, 3, 8, 9), np.float32)})["y"].shape == (0, 40)


def test_large_batches_are_computed_in_slices(device: str) -> None:
    random = np.random.default_rng(0)
    weights = [random.standard_normal((64, 3 if i == 0 else 64, 3, 3)).astype(np.float32) / 20 for i in range(3)]
    nodes = [helper.make_node("Conv", [f"x{i}" if i else "x", f"w{i}"], [f"x{i + 1}"], pads=[1] * 4) for i in range(3)]
    nodes.append(helper.make_node("GlobalAveragePool", ["x3"], ["y"]))
    source = open_model(nodes, {"x": (FLOAT, ("n", 3, 112, 112))}, {f"w{i}": w for i, w in enumerate(weights)})
    assert isinstance(source, onnx.ModelProto)
    model = clgraph.compile(source, device)
    x = random.standard_normal((16, 3, 112, 112)).astype(np.float32)
    found = model.run({"x": x})["y"]
    assert model.program.batch_slices > 1
    np.testing.assert_allclose(found[5:6], model.run({"x": x[5:6]})["y"], rtol=1e-5, atol=1e-5)


def test_attention_reads_heads_where_the_product_left_them_on_a_gpu(device: str) -> None:
    """Views with pitches of their own, and a transpose that its producer writes, are derived again."""
    random = np.random.default_rng(0)
    source = encoder(Encoder(1, 32, 4, 64, vocabulary=50, positions=64), "batch", "tokens")
    model = clgraph.compile(source, device, config={"device_class": "gpu"})
    for shape in ((2, 17), (3, 9)):
        feeds = {v.name: np.ones(shape, np.int64) for v in model.inputs} | {"input_ids": random.integers(0, 50, shape)}
        shapes = dict.fromkeys(feeds, shape)
        whole = clgraph.compile(source, device, shapes=shapes, config={"device_class": "gpu"})
        (wanted,), (found,) = whole.run(feeds).values(), model.run(feeds).values()
        assert note(model).startswith("bound")
        assert [n.name for n in model.program if n.in_place] == [n.name for n in whole.program if n.in_place]
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_keys_are_those_of_the_past_and_the_new_ones(device: str) -> None:
    """A step of a decoder: every token has another length of the past, and the mask is as long as both."""
    source = open_model(
        [
            helper.make_node("Concat", ["past", "x"], ["keys"], axis=1),
            helper.make_node("Transpose", ["keys"], ["turned"], perm=[0, 2, 1]),
            helper.make_node("MatMul", ["x", "turned"], ["scores"]),
            helper.make_node("Add", ["scores", "mask"], ["masked"]),
            helper.make_node("Softmax", ["masked"], ["weights"], axis=-1),
            helper.make_node("MatMul", ["weights", "keys"], ["y"]),
        ],
        {"x": (FLOAT, ("b", "s", 8)), "past": (FLOAT, ("b", "p", 8)), "mask": (FLOAT, ("b", 1, "p + s"))},
    )
    model = clgraph.compile(source, device)
    families = set()
    for past in (7, 8, 9, 30):
        random = np.random.default_rng(past)
        shapes = {"x": (2, 1, 8), "past": (2, past, 8), "mask": (2, 1, past + 1)}
        feeds = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
        whole = clgraph.compile(source, device, shapes=shapes)
        np.testing.assert_allclose(model.run(feeds)["y"], whole.run(feeds)["y"], rtol=1e-5, atol=1e-6)
        assert note(model).startswith("bound")
        families.add(note(model).partition("family")[2].partition(";")[0])
    assert len(families) == 1


def test_a_device_that_fails_once_is_an_error_and_no_refusal(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = clgraph.compile(convolutions(), device)
    x = np.ones((2, 3, 8, 9), np.float32)

    def failing(*given: Any) -> None:
        raise DeviceMemoryError("no memory")

    with monkeypatch.context() as patch:
        patch.setattr("clgraph.families.making.make_family", failing)
        with pytest.raises(DeviceMemoryError, match="no memory"):
            model.run({"x": x})
    model.run({"x": x})
    assert note(model).startswith("bound")


def test_the_note_counts_what_a_member_has_otherwise_than_its_representative(device: str) -> None:
    model = clgraph.compile(convolutions(), device, config={"device_class": "cpu"})
    model.prepare({"x": (1, 3, 1, 7)})
    assert re.fullmatch(r"bound in [\d.]+ ms to the family x \[1, 3, 1, w\] of \[1, 3, 1, 320\](; .*)?", note(model))
    for shape in ((1, 3, 13, 2), (2, 3, 25, 20)):
        model.prepare({"x": shape})
        assert re.search(r"; (.*, )?\d+ halos? widened$", note(model)) or "repacked" in note(model)
    assert "family" in model.explain().notes


def test_members_are_listed_beside_the_dumps_of_their_representative(device: str, tmp_path: Path) -> None:
    model = clgraph.compile(convolutions(), device, config={"dump_graphs": tmp_path})
    for width in (20, 30):
        model.prepare({"x": (2, 3, 24, width)})
    lines = (tmp_path / "members.txt").read_text(encoding="utf-8").splitlines()
    assert [line.partition(": bound in")[0] for line in lines] == ["[2, 3, 24, 20]", "[2, 3, 24, 30]"]
    assert "2x3x72x104" in (tmp_path / "built.txt").read_text(encoding="utf-8")


def test_the_representative_does_not_depend_on_the_memory_that_the_driver_reports(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of [13, 3, 320, 448] a tensor takes 358 MB: what one device has room for and another has not."""
    families = set()
    for nbytes in (1 << 30, 64 << 30):
        found = find_device(device)
        reported = replace(found, info=replace(found.info, max_alloc=nbytes))
        monkeypatch.setattr("clgraph.engines.opening.find_device", lambda _, reported=reported: reported)
        model = clgraph.compile(convolutions(), device)
        model.prepare({"x": (2, 3, 240, 200)})
        families.add(note(model).partition(" to the ")[2].partition(";")[0])
    assert families == {"family x [n, 3, h, w] of [17, 3, 160, 224]"}, families


def test_a_zero_among_fed_sizes_is_taken_as_it_is(device: str) -> None:
    """It stands for the size of the input there, so that the sizes do not make up its elements."""
    model = clgraph.compile(reshaping(), device)
    for rows, shape, wanted in ((5, (0, 3, 2), (5, 3, 2)), (4, (0, 6), (4, 6)), (8, (4, 0, -1), (4, 6, 2))):
        x = np.random.default_rng(0).standard_normal((rows, 6)).astype(np.float32)
        found = model.run({"x": x, "shape": np.array(shape)})["y"]
        np.testing.assert_array_equal(found, np.maximum(x, 0).reshape(wanted))


def test_on_a_queue_out_of_order_branches_of_a_member_do_not_share_memory(device: str) -> None:
    random = np.random.default_rng(0)
    names = [[f"{branch}{i}" for i in range(5)] for branch in "ab"]
    nodes = [
        helper.make_node("MatMul", [source, f"w_{made}"], [made])
        for branch in names
        for source, made in zip(["x", *branch], branch, strict=False)
    ]
    nodes.append(helper.make_node("Add", ["a4", "b4"], ["y"]))
    weights = {f"w_{n}": random.standard_normal((24, 24)).astype(np.float32) for branch in names for n in branch}
    source = open_model(nodes, {"x": (FLOAT, ("n", 24))}, weights)
    shared = []
    for out_of_order in (False, True):
        model = clgraph.compile(source, device, config={"out_of_order": out_of_order})
        program = model.prepare({"x": (30, 24)})
        assert note(model).startswith("bound")
        assert violations(program, out_of_order=out_of_order) == []
        shared.append(sum(a.unshared - a.nbytes for a in program.arenas.values()))
    assert shared[0] > shared[1]


def test_a_fed_shape_may_name_a_size_that_is_a_sum(device: str) -> None:
    nodes = [
        helper.make_node("Concat", ["past", "x"], ["keys"], axis=1),
        helper.make_node("Add", ["keys", "mask"], ["masked"]),
        helper.make_node("Reshape", ["masked", "shape"], ["y"]),
    ]
    inputs = {"x": (FLOAT, ("b", 1, 8)), "past": (FLOAT, ("b", "p", 8)), "mask": (FLOAT, ("b", "t", 8))}
    model = clgraph.compile(open_model(nodes, inputs | {"shape": (INT, ("r",))}), device)
    for past in (7, 9):
        shapes = {"x": (2, 1, 8), "past": (2, past, 8), "mask": (2, past + 1, 8)}
        feeds = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
        found = model.run(feeds | {"shape": np.array([2, past + 1, 8])})["y"]
        np.testing.assert_array_equal(found, np.full((2, past + 1, 8), 2, np.float32))


@pytest.mark.parametrize(
    "results",
    [
        "s = Shape(x) y = Relu(x)",
        "s = Shape(x) z = Constant <value = float {2.0}> () y = Add(x, z)",
        "h = Shape(x) k = Constant <value = int64[1] {7}> () s = Mul(h, k) y = Relu(x)",
        "h = Shape(x) k = Constant <value_int = 1> () s = Gather(h, k) y = Relu(x)",
        "s = Constant <value = int64[2] {3, 4}> () y = Relu(x)",
    ],
)
def test_a_result_that_sizes_alone_decide_is_that_of_the_shape(results: str, device: str) -> None:
    text = f"g (float[H, W] x) => (int64[2] s, float[H, W] y) {{ {results} }}"
    source = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')
    model = clgraph.compile(source, device)
    for shape in ((40, 30), (20, 10)):
        feeds = {"x": np.ones(shape, np.float32)}
        wanted = clgraph.compile(source, "host").run(feeds)["s"]
        found = model.run(feeds)["s"]
        assert found.shape == wanted.shape
        np.testing.assert_array_equal(found, wanted)
        assert note(model).startswith("bound")


def test_parts_that_no_longer_begin_where_vectors_do_are_copied_into_their_concat(device: str) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Abs", ["x"], ["b"]),
        helper.make_node("Concat", ["a", "b"], ["c"], axis=0),
        helper.make_node("Neg", ["c"], ["y"]),
    ]
    model = clgraph.compile(open_model(nodes, {"x": (FLOAT, ("n",))}), device)
    for n, copied in ((64, False), (37, True)):
        x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
        y = model.run({"x": x})["y"]
        np.testing.assert_array_equal(y, -np.concatenate([np.maximum(x, 0), np.abs(x)]))
        assert note(model).startswith("bound in")
        assert ("view copied" in note(model)) == copied
