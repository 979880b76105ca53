"""Strings, sequences, optionals and maps as inputs, constants and outputs of models, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, parser

import clgraph
from clgraph.errors import InputError, ShapeError, UnsupportedError
from tests.support.onnx_case import one_node, onnxruntime_outputs

WORDS = np.array([["tea", "", "coffee"], ["tea", "milk", "é"]], object)


def onnx_model(
    text: str, *inputs: onnx.ValueInfoProto, outputs: tuple[onnx.ValueInfoProto, ...] = ()
) -> onnx.ModelProto:
    """Return the model of a graph in ONNX's text, with other types for some of its values."""
    graph = parser.parse_graph(text)
    for held, given in ((graph.input, inputs), (graph.output, outputs)):
        named = {info.name: info for info in given}
        for info in held:
            if info.name in named:
                info.CopyFrom(named[info.name])
    sets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 4)]
    return helper.make_model(graph, opset_imports=sets, ir_version=10)


def sequence(name: str, code: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_sequence_value_info(name, code, None)


def optional(name: str, held: onnx.TypeProto) -> onnx.ValueInfoProto:
    return helper.make_value_info(name, helper.make_optional_type_proto(held))


def peer(model: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return list(onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, feeds))


def assert_same(found: Any, wanted: Any) -> None:
    assert type(found) is type(wanted), (found, wanted)
    if isinstance(wanted, list):
        assert len(found) == len(wanted)
        for pair in zip(found, wanted, strict=True):
            assert_same(*pair)
    elif isinstance(wanted, np.ndarray):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_array_equal(found, wanted)
    else:
        assert found == wanted


MOVES: dict[str, dict[str, Any]] = {
    "Identity(x)": {},
    "Reshape(x, shape)": {"shape": [3, -1]},
    "Transpose<perm = [1, 0]>(x)": {},
    "Slice(x, starts, ends, axes, steps)": {"starts": [2], "ends": [-9], "axes": [1], "steps": [-2]},
    "Gather<axis = 1>(x, at)": {"at": [[2, 0]]},
    "Concat<axis = 0>(x, other, x)": {},
    "Expand(x, shape)": {"shape": [2, 2, 3]},
    "Tile(x, repeats)": {"repeats": [2, 1]},
    "Squeeze(other, axes)": {"axes": [0]},
    "Unsqueeze(x, axes)": {"axes": [1]},
    "Flatten<axis = 0>(x)": {},
    "Where(which, x, other)": {"which": [[True], [False]]},
    "GatherND(x, at)": {"at": [[0, 2], [1, 0]]},
    "GatherElements(x, at)": {"at": [[0, 1, 0]]},
    "Compress<axis = 1>(x, kept)": {"kept": [True, False, True]},
    "Compress(x, mask)": {"mask": [[True, False, True], [False, True, True]]},
    "ScatterElements(x, at, other)": {"at": [[1, 0, 1]]},
    "Shape(x)": {},
    "Size(x)": {},
    "Equal(x, other)": {},
}
"""What is computed of x ``[2, 3]`` and other ``[1, 3]``, with constants."""

PADDED = np.array([["", "", "", ""], *([*row, ""] for row in WORDS)], object)
OWN: dict[str, Any] = {
    "Pad(x, pads)": ({"pads": [1, 0, 0, 1]}, PADDED),
    "Trilu(x)": ({}, np.where(np.tri(2, 3, -1), "", WORDS)),
    "NonZero(x)": ({}, np.array(np.nonzero(WORDS != ""))),
}
"""What ONNX Runtime has no kernel of strings for, with what is to come out."""

RESULTS = {"Shape(x)": "int64", "Size(x)": "int64", "Equal(x, other)": "bool", "NonZero(x)": "int64"}


def moved(call: str, constants: dict[str, Any]) -> onnx.ModelProto:
    model = onnx_model(
        f"g (string[2, 3] x, string[1, 3] other) => ({RESULTS.get(call, 'string')}[k] y) {{ y = {call} }}"
    )
    model.graph.output[0].type.tensor_type.ClearField("shape")
    model.graph.initializer.extend(onnx.numpy_helper.from_array(np.array(v), n) for n, v in constants.items())
    return model


def test_operators_that_move_or_compare_elements_take_strings() -> None:
    feeds = {"x": WORDS, "other": np.array([["tea", "b", ""]], object)}
    for call, constants in MOVES.items():
        model = moved(call, constants)
        (wanted,) = peer(model, feeds)
        assert_same(clgraph.compile(model, "host").run(feeds)["y"], wanted)
    full = np.where(WORDS == "", "z", WORDS)  # no empty string among those that are padded with one
    padded = clgraph.compile(moved("Pad(x, pads)", {"pads": [0, 0, 0, 1]}), "host").run({**feeds, "x": full})
    assert_same(padded["y"], np.array([[*row, ""] for row in full], object))
    for call, (constants, wanted) in OWN.items():
        assert_same(clgraph.compile(moved(call, constants), "host").run(feeds)["y"], wanted)


@pytest.mark.parametrize(("condition", "more"), [([0, 1, 0, 0, 1], {}), ([0, 1, 1], {"axis": 1})])
def test_a_condition_that_is_too_long_chooses_among_what_there_is(condition: list[int], more: dict[str, int]) -> None:
    inputs = [np.float32([[1, 2], [3, 4]]), np.array(condition, bool)]
    model, feeds = one_node("Compress", inputs, opset=11, **more)
    with clgraph.compile(model, device="host") as compiled:
        np.testing.assert_array_equal(compiled.run(feeds)["y0"], onnxruntime_outputs(model, feeds)[0])


def test_strings_are_found_and_counted() -> None:
    model = onnx_model(
        "g (string[n] x) => (string[k] y, int64[k] first, int64[n] which, int64[k] count)"
        " { y, first, which, count = Unique(x) }"
    )
    feeds = {"x": WORDS.ravel()}
    for found, wanted in zip(clgraph.compile(model, "host").run(feeds).values(), peer(model, feeds), strict=True):
        assert_same(found, wanted)


@pytest.mark.parametrize("runs_on", ["host", "null"])
def test_a_model_says_the_types_of_its_values_as_onnx_spells_them(runs_on: str) -> None:
    model = onnx_model(
        "g (string[n] x, float[2] s, float[2] o, float[2] t) => (string[n] y, float[2] r, bool h, float[2] u)"
        " { y = Identity(x)\n r = Identity(s)\n h = OptionalHasElement(o)\n u = Relu(t) }",
        sequence("s"),
        optional("o", sequence("o", TensorProto.INT64).type),
        outputs=(sequence("r"),),
    )
    compiled = clgraph.compile(model, runs_on)
    types = ["tensor(string)", "seq(tensor(float))", "optional(seq(tensor(int64)))", "tensor(float)"]
    assert [s.type for s in compiled.inputs] == types
    assert [s.type for s in compiled.outputs] == [
        "tensor(string)",
        "seq(tensor(float))",
        "tensor(bool)",
        "tensor(float)",
    ]
    assert [str(s) for s in compiled.inputs][:2] == ["x tensor(string) [n]", "s seq(tensor(float))"]


def test_sequences_and_optionals_come_and_go_as_lists_and_none() -> None:
    some = [np.array([1, 2], np.float32), np.zeros((2, 0), np.float32)]
    through = onnx_model(
        "g (float[2] s, float[2] o) => (float[2] r, bool h) { r = Identity(s)\n h = OptionalHasElement(o) }",
        sequence("s"),
        optional("o", sequence("o").type),
        outputs=(sequence("r"),),
    )
    model = clgraph.compile(through, "host")
    for given in (some, tuple(some), []):
        found = model.run({"s": given, "o": None})
        assert_same(found["r"], list(given))
        assert not found["h"]
        assert model.run({"s": given, "o": some})["h"]
    found = model.run({"s": some, "o": None})
    found["r"][0][:] = 9
    assert some[0].tolist() == [1, 2], "a result is memory of its own"


LOOP = """
g (int64 trips, string[2] s) => (string[2] r, int64 n, string[k, 1] words) {
  yes = Constant<value = bool {1}>()
  r, words = Loop (trips, yes, s)
  <body = b (int64 i, bool go, string[2] held) => (bool on, string[2] more, string[1] w) {
    on = Identity(go)
    number = Cast<to = 8>(i)
    w = Unsqueeze(number, axis)
    more = SequenceInsert(held, w)
  }>
  n = SequenceLength(r)
}
"""


def test_loops_carry_sequences_and_stack_strings() -> None:
    model = onnx_model(LOOP, sequence("s", TensorProto.STRING), outputs=(sequence("r", TensorProto.STRING),))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([0]), "axis"))
    body = model.graph.node[1].attribute[0].g
    body.input[2].CopyFrom(sequence("held", TensorProto.STRING))
    body.output[1].CopyFrom(sequence("more", TensorProto.STRING))
    onnx.checker.check_model(model)
    compiled = clgraph.compile(model, "host")
    for trips in (0, 3):
        feeds = {"trips": np.array(trips), "s": [np.array(["a"], object)]}
        found = compiled.run(feeds)
        assert [a.tolist() for a in found["r"]] == [["a"], *([str(i)] for i in range(trips))]
        assert int(found["n"]) == 1 + trips
        assert found["words"].tolist() == [[str(i)] for i in range(trips)]
        assert found["words"].dtype == object


def test_a_branch_that_returns_a_string_is_not_compiled_though_its_condition_is_known() -> None:
    model = onnx_model(
        """g (string[n] x) => (string[n] y) {
             no = Constant<value = bool {0}>()
             chosen = If (no) <then_branch = a () => (string[n] p) { p = Identity(x) },
                               else_branch = b () => (string[1] q) { q = Constant<value_strings = ["none"]>() }>
             y = Reshape(chosen, shape)
           }"""
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([-1]), "shape"))
    feeds = {"x": np.array(["a", "b"], object)}
    (wanted,) = peer(model, feeds)
    assert_same(clgraph.compile(model, "host").run(feeds)["y"], wanted)


@pytest.mark.opencl
def test_layers_on_numbers_beside_strings_are_compiled(device: str) -> None:
    model = onnx_model(
        "g (string[2] x, float[1, 4] t) => (string[2] y, float[1, 4] u) { y = Identity(x)\n u = Relu(t) }"
    )
    compiled = clgraph.compile(model, device)
    found = compiled.run({"x": np.array(["a", "b"]), "t": np.array([[-1, 2, -3, 4]], np.float32)})
    assert found["y"].tolist() == ["a", "b"]
    assert found["u"].tolist() == [[0, 2, 0, 4]]
    assert any(node.placement != "host" for node in compiled.explain().nodes) == (device != "host")


def test_strings_come_as_unicode_bytes_or_objects_and_nothing_else() -> None:
    compiled = clgraph.compile(onnx_model("g (string[2] x) => (string[2] y) { y = Identity(x) }"), "host")
    for given in (
        np.array(["a", "é"]),
        np.array([b"a", b"\xc3\xa9"]),
        ["a", "é"],
        np.array(["a", "é"], object),
    ):
        assert_same(compiled.run({"x": given})["y"], np.array(["a", "é"], object))
    for given, found in ((np.array([1, 2]), "int64"), (np.array(["a", 1], object), "int"), (["a", None], "NoneType")):
        with pytest.raises(
            InputError, match=rf"input 'x' is tensor\(string\): give it as an array of str, not of {found}"
        ):
            compiled.run({"x": given})
    with pytest.raises(InputError, match=r"input 'x' has shape \[2\]; \[3\] does not fit it"):
        compiled.run({"x": ["a", "b", "c"]})


def test_a_feed_of_another_kind_is_an_error_that_says_what_to_give() -> None:
    model = onnx_model(
        "g (float[2] s, float[2] o) => (float[2] r, bool h) { r = Identity(s)\n h = OptionalHasElement(o) }",
        sequence("s"),
        optional("o", sequence("o").type),
        outputs=(sequence("r"),),
    )
    compiled = clgraph.compile(model, "host")
    one = np.zeros(2, np.float32)
    for feeds, match in (
        ({"s": one, "o": None}, r"input 's' is seq\(tensor\(float\)\): give it as a list, not as an array \[2\]"),
        ({"s": [one, one.astype(int)], "o": None}, r"element 1 of input 's' is int64; the model requires float32"),
        ({"s": [], "o": one}, r"input 'o' is seq\(tensor\(float\)\): give it as a list"),
        ({"s": []}, "input 'o' is missing"),
        ({"s": [], "o": None, "p": 1}, "no input is called 'p'"),
    ):
        with pytest.raises(InputError, match=match):
            compiled.run(feeds)
    with pytest.raises(InputError, match="output 'r' is not a tensor, and no array can hold it"):
        compiled.run({"s": [], "o": None}, {"r": one})


@pytest.mark.opencl
def test_an_optional_without_an_element_is_refused_where_a_tensor_is_read(device: str) -> None:
    model = onnx_model(
        "g (float[2] o) => (float[2] y) { t = OptionalGetElement(o)\n y = Relu(t) }",
        optional("o", helper.make_tensor_type_proto(TensorProto.FLOAT, [2])),
    )
    compiled = clgraph.compile(model, device)
    assert compiled.run({"o": np.array([-1, 1], np.float32)})["y"].tolist() == [0, 1]
    with pytest.raises(InputError, match="has no element to get: let the model ask OptionalHasElement first"):
        compiled.run({"o": None})


@pytest.mark.opencl
def test_strict_refuses_values_that_only_the_host_holds(device: str) -> None:
    model = onnx_model("g (string[2] x) => (string[2] y) { y = StringConcat(x, x) }")
    with pytest.raises(UnsupportedError, match=r"the host has to compute 'StringConcat_0' \(string_concat\)"):
        clgraph.compile(model, device, config={"strict": True})


def test_saved_models_hold_strings_and_types(tmp_path: Path) -> None:
    model = onnx_model("g (string[n] x) => (string[n] y) { y = StringConcat(x, ending) }")
    model.graph.initializer.append(helper.make_tensor("ending", TensorProto.STRING, [1], [b"-\xc3\xa9"]))
    path = tmp_path / "strings.clg"
    compiled = clgraph.compile(model, "host")
    compiled.save(path)
    loaded = clgraph.load(path, "host")
    assert loaded.inputs == compiled.inputs
    assert loaded.run({"x": ["a"]})["y"].tolist() == ["a-é"]
    assert "const ending tensor(string) [1]" in str(loaded.topology)


def test_bodies_and_sequences_of_strings_keep_to_the_host() -> None:
    """Types are followed into and out of containers and bodies: what reshapes a string there is not compiled."""
    model = onnx_model(
        """g (string[n] x, float[n] t) => (string[k] y, string[m] z, float[n] u) {
             parts = SplitToSequence(x, two)
             one = SequenceAt(parts, zero)
             y = Reshape(one, flat)
             held = Optional(parts)
             again = OptionalGetElement(held)
             z = ConcatFromSequence<axis = 0>(again)
             u = Relu(t)
           }"""
    )
    for name, value in (("two", 2), ("zero", 0), ("flat", [-1])):
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(value), name))
    compiled = clgraph.compile(model, "host")
    found = compiled.run({"x": ["a", "b", "c"], "t": np.array([-1, 0, 1], np.float32)})
    assert (found["y"].tolist(), found["z"].tolist()) == (["a", "b"], ["a", "b", "c"])
    assert [s.type for s in compiled.outputs] == ["tensor(string)", "tensor(string)", "tensor(float)"]


MAPPED = """
g (float[2] s, float[m] t, float k) => (float[2] r, int64 n) {
  r, sizes = SequenceMap (s, t) <body = body (float[i] a, float[j] b) => (float[i] c, int64[1] size) {
    d = Add(a, b)
    c = Mul(d, k)
    size = Shape(a)
  }>
  n = SequenceLength(sizes)
}
"""


@pytest.mark.opencl
def test_a_body_is_mapped_over_sequences_with_what_it_reads_from_around(device: str) -> None:
    model = onnx_model(MAPPED, sequence("s"), outputs=(sequence("r"),))
    compiled = clgraph.compile(model, device)
    s = [np.array([1, 2], np.float32), np.array([3], np.float32)]
    found = compiled.run({"s": s, "t": np.ones(1, np.float32), "k": np.full((), 2, np.float32)})
    assert [a.tolist() for a in found["r"]] == [[4, 6], [8]]
    assert int(found["n"]) == 2
    assert compiled.run({"s": [], "t": np.ones(1, np.float32), "k": np.ones((), np.float32)})["r"] == []
    two = onnx_model(MAPPED, sequence("s"), sequence("t"), outputs=(sequence("r"),))
    with pytest.raises(ShapeError, match=r"the sequences have different lengths: \[1, 2\]"):
        clgraph.compile(two, device).run({"s": s, "t": s[:1], "k": np.ones((), np.float32)})


def test_scans_walk_and_stack_strings() -> None:
    model = onnx_model(
        """g (string[n] x) => (string last, string[n] y) {
             last, y = Scan<num_scan_inputs = 1, body = body (string held, string part) => (string now, string out) {
               now = StringConcat(held, part)
               out = Identity(now)
             }>(begin, x)
           }"""
    )
    model.graph.initializer.append(helper.make_tensor("begin", TensorProto.STRING, [], [b">"]))
    found = clgraph.compile(model, "host").run({"x": ["a", "b"]})
    assert (found["last"].tolist(), found["y"].tolist()) == (">ab", [">a", ">ab"])
