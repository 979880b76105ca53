"""Sessions: what they tell about models, how they run them, and in which exceptions they end."""

from __future__ import annotations

import copy
import gc
import json
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import clgraph.onnxruntime as ours
from clgraph.onnxruntime import notes, statuses
from tests.support.models import small_model
from tests.support.ort_models import identity, model_of, two_inputs

HOST = [("ClgraphExecutionProvider", {"device": "host"})]
CPU = ["CPUExecutionProvider"]
A, B = np.array([1, 2, 3], np.float32), np.array([10, 20, 30], np.float32)


def both(source: Any, options: Any = lambda ort: None) -> tuple[Any, Any]:
    """Return a session of onnxruntime and one of clgraph; *options* makes their options."""
    return (
        onnxruntime.InferenceSession(source, options(onnxruntime), providers=CPU),
        ours.InferenceSession(source, options(ours), providers=HOST),
    )


def overridable() -> onnx.ModelProto:
    """Return ``y = Reshape(x + w, s)`` whose ``w`` and ``s`` are initialisers and inputs."""
    nodes = [helper.make_node("Add", ["x", "w"], ["sum"]), helper.make_node("Reshape", ["sum", "s"], ["y"])]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xw"]
    inputs.append(helper.make_tensor_value_info("s", TensorProto.INT64, [2]))
    values = [numpy_helper.from_array(np.full(4, 2, np.float32), "w"), numpy_helper.from_array(np.array([2, 2]), "s")]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["a", "b"])
    return model_of(helper.make_graph(nodes, "g", inputs, [y], values))


def inferred() -> bytes:
    """Return ``y = x @ w``, of whose result the file has names for sizes that ONNX infers."""
    x, y = (
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", ["n", 3]), ("y", ["rows", "columns"]))
    )
    w = numpy_helper.from_array(np.ones((3, 5), np.float32), "w")
    return model_of(
        helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y], [w])
    ).SerializeToString()


def described(session: Any) -> Any:
    """Return what a program can ask a session about its model."""
    meta = session.get_modelmeta()
    names = ("producer_name", "graph_name", "domain", "description", "graph_description", "version")
    args = (session.get_inputs(), session.get_outputs(), session.get_overridable_initializers())
    return (
        [sorted((a.name, a.type, tuple(a.shape)) for a in found) for found in args],
        [getattr(meta, name) for name in names],
        dict(meta.custom_metadata_map),
    )


def test_a_session_tells_what_onnxruntimes_tells() -> None:
    model = two_inputs()
    model.producer_name, model.domain, model.doc_string, model.model_version = "pen", "org.example", "adds", 7
    model.graph.doc_string = "a graph"
    helper.set_model_props(model, {"classes": "cat,dog"})
    for source in (model.SerializeToString(), identity(), overridable().SerializeToString(), inferred()):
        theirs, own = both(source)
        assert described(own) == described(theirs)


def test_results_come_in_the_order_of_the_names() -> None:
    theirs, own = both(two_inputs().SerializeToString())
    for names in (None, ["difference"], ["difference", "total"]):
        for mine, wanted in zip(own.run(names, {"a": A, "b": B}), theirs.run(names, {"a": A, "b": B}), strict=True):
            np.testing.assert_array_equal(mine, wanted)


def test_initialisers_that_are_inputs_are_overridden_by_feeds() -> None:
    theirs, own = both(overridable().SerializeToString())
    x, w = np.arange(4, dtype=np.float32), np.full(4, 7, np.float32)
    for feeds in ({"x": x}, {"x": x, "w": w}, {"x": x, "s": np.array([4, 1])}, {"x": x, "w": w, "s": np.array([1, 4])}):
        np.testing.assert_array_equal(own.run(None, feeds)[0], theirs.run(None, feeds)[0])


@pytest.mark.parametrize(
    ("declared", "told"), [(["n", 8], ["n", 1]), ([None], [None, 1]), (["n", "m"], ["n", 1]), (None, [None, 1])]
)
def test_sizes_that_are_inferred_count_where_the_file_declares_others(declared: Any, told: Any) -> None:
    node = helper.make_node("ReduceMax", ["x"], ["y"], axes=[1])
    x, y = helper.make_tensor_value_info("x", 1, [None, 3]), helper.make_tensor_value_info("y", 1, declared)
    session = ours.InferenceSession(
        model_of(helper.make_graph([node], "g", [x], [y])).SerializeToString(), providers=HOST
    )
    assert session.get_outputs()[0].shape == told


def test_failures_of_shapes_are_caught_as_either_of_onnxruntimes() -> None:
    session = ours.InferenceSession(
        model_of(
            helper.make_graph(
                [helper.make_node("MatMul", ["x", "x"], ["y"])],
                "g",
                [helper.make_tensor_value_info("x", 1, ["n", "m"])],
                [helper.make_tensor_value_info("y", 1, None)],
            )
        ).SerializeToString(),
        providers=HOST,
    )
    for kind in (statuses.Fail, statuses.InvalidArgument):
        with pytest.raises(kind, match="FAIL"):
            session.run(None, {"x": np.ones((2, 3), np.float32)})


def test_free_dimensions_and_initialisers_are_replaced() -> None:
    def options(ort: Any) -> Any:
        made = ort.SessionOptions()
        made.add_free_dimension_override_by_name("n", 5)
        return made

    for session in both(identity(), options):
        assert session.get_inputs()[0].shape == [5, 3]
    made = ours.SessionOptions()
    made.add_initializer("nowhere", ours.OrtValue.ortvalue_from_numpy(A))
    made.add_initializer("w", ours.OrtValue.ortvalue_from_numpy(np.full(4, 9, np.float32)))
    session = ours.InferenceSession(overridable().SerializeToString(), made, providers=HOST)
    np.testing.assert_array_equal(session.run(None, {"x": np.zeros(4, np.float32)})[0], np.full((2, 2), 9))


def test_data_beside_a_model_of_bytes_lies_where_we_are_or_the_options_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def elsewhere(ort: Any) -> Any:
        made = ort.SessionOptions()
        made.add_session_config_entry("session.model_external_initializers_file_folder_path", str(tmp_path))
        return made

    def written(ort: Any) -> Any:
        made = ort.SessionOptions()
        made.optimized_model_filepath = str(tmp_path / ort.__name__ / "written.onnx")
        for key, text in (("file_name", "written.bin"), ("min_size_in_bytes", "16")):
            made.add_session_config_entry(f"session.optimized_model_external_initializers_{key}", text)
        return made

    path, feeds = tmp_path / "model.onnx", {"x": np.ones((1, 3), np.float32)}
    onnx.save(onnx.load_from_string(inferred()), path, save_as_external_data=True, location="data", size_threshold=0)
    (tmp_path / "below").mkdir()
    for folder, options in ((tmp_path, lambda ort: None), (tmp_path / "below", elsewhere)):
        monkeypatch.chdir(folder)
        for session in both(path.read_bytes(), options):
            np.testing.assert_array_equal(session.run(None, feeds)[0], np.full((1, 5), 3))
    with pytest.raises(statuses.StatusError, match="cannot be read"):
        ours.InferenceSession(path.read_bytes(), providers=HOST)
    for ort in (onnxruntime, ours):
        (tmp_path / ort.__name__).mkdir()
    for _ in range(2):
        both(str(path), written)
    for ort in (onnxruntime, ours):
        folder = tmp_path / ort.__name__
        assert (folder / "written.bin").stat().st_size >= 3 * 5 * 4
        found = ours.InferenceSession(str(folder / "written.onnx"), providers=HOST).run(None, feeds)[0]
        np.testing.assert_array_equal(found, np.full((1, 5), 3))


def test_a_function_is_told_what_is_logged_until_it_is_taken_back() -> None:
    told: list[Any] = []
    level = notes.log.level
    try:
        ours.set_default_logger_callback(lambda *told_of: told.append(told_of), severity=0)
        ours.InferenceSession(identity(), providers=HOST)
        assert told
        assert all([type(item) for item in told_of] == [int, str, str, str, str] for told_of in told)
        before = len(told)
        ours.set_default_logger_callback(None)
        ours.InferenceSession(identity(), providers=HOST)
        assert len(told) == before
    finally:
        notes.log.setLevel(level)


def test_data_beside_the_model_comes_from_memory_or_values(tmp_path: Path) -> None:
    model = overridable()
    w = model.graph.initializer[0]
    w.ClearField("raw_data")
    w.data_location = TensorProto.EXTERNAL
    for key, text in (("location", "data.bin"), ("offset", "8"), ("length", "16")):
        w.external_data.add(key=key, value=text)
    data, feeds = np.arange(6, dtype=np.float32), {"x": np.zeros(4, np.float32)}
    kept: list[Any] = []  # ONNX Runtime reads memory that it does not keep

    def in_memory(ort: Any) -> Any:
        made = ort.SessionOptions()
        kept.append(data.tobytes())
        made.add_external_initializers_from_files_in_memory(["data.bin"], kept[-1:], [data.nbytes])
        return made

    def replaced(ort: Any) -> Any:
        made = ort.SessionOptions()
        kept.append(ort.OrtValue.ortvalue_from_numpy(data[2:]))
        made.add_external_initializers(["w"], kept[-1:])
        return made

    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    for options in (in_memory, replaced):
        for session in both(str(path), options):
            np.testing.assert_array_equal(session.run(None, feeds)[0], [[2, 3], [4, 5]])
    short = ours.SessionOptions()
    short.add_external_initializers_from_files_in_memory(["data.bin"], [data], [20])
    with pytest.raises(statuses.InvalidArgument, match="'w' ends at byte 24 of a file of 20 bytes"):
        ours.InferenceSession(str(path), short, providers=HOST)
    for location, offset in (("data.bin", "a"), ("nowhere.bin", "0"), ("../data.bin", "0")):
        for key, text in (("location", location), ("offset", offset)):
            next(entry for entry in w.external_data if entry.key == key).value = text
        broken = tmp_path / "broken.onnx"
        broken.write_bytes(model.SerializeToString())
        with pytest.raises(statuses.StatusError, match="cannot be read"):
            ours.InferenceSession(str(broken), short, providers=HOST)
    missing = ours.SessionOptions()
    missing.add_external_initializers(["v"], [ours.OrtValue.ortvalue_from_numpy(data)])
    with pytest.raises(statuses.Fail, match="no initialiser is called 'v'"):
        ours.InferenceSession(str(path), missing, providers=HOST)


def test_providers_of_options_count_where_the_session_names_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLGRAPH_DEVICE", "host")
    options = ours.SessionOptions()
    options.add_provider("ClgraphExecutionProvider", {"device": "host"})
    assert ours.InferenceSession(identity(), options).get_provider_options()["ClgraphExecutionProvider"] == HOST[0][1]
    assert ours.InferenceSession(identity(), options, CPU).get_providers() == CPU


@pytest.mark.parametrize(
    "source", ["nowhere.onnx", "junk.onnx", b"garbage", identity(op="Nothing"), None, 5], ids=range(6)
)
def test_what_is_no_model_ends_in_onnxruntimes_exception(source: Any, tmp_path: Path) -> None:
    if isinstance(source, str):
        (tmp_path / "junk.onnx").write_bytes(b"no model at all")
        source = str(tmp_path / source)
    with pytest.raises(Exception) as theirs:  # noqa: PT011  # whatever it is, ours is called so
        onnxruntime.InferenceSession(source, providers=CPU)
    replacing = ours.SessionOptions()
    replacing.add_initializer("w", ours.OrtValue.ortvalue_from_numpy(A))
    replacing.add_free_dimension_override_by_denotation("BATCH", 1)
    for options in (None, replacing):
        with pytest.raises(Exception) as caught:  # noqa: PT011
            ours.InferenceSession(source, options, providers=HOST)
        assert theirs.type.__name__ in {kind.__name__ for kind in caught.type.__mro__}


def test_onnxruntimes_own_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.ort"
    path.write_bytes(b"\0\0\0\0ORTM")
    for source in (str(path), path, path.read_bytes()):
        with pytest.raises(statuses.NotImplemented, match="own format"):
            ours.InferenceSession(source)


def test_a_binding_reads_and_writes_the_programs_memory() -> None:
    own = ours.InferenceSession(two_inputs().SerializeToString(), providers=HOST)
    place, held = np.zeros(3, np.float32), ours.OrtValue.ortvalue_from_shape_and_type([3], np.float32)
    binding = own.io_binding()
    binding.bind_cpu_input("a", A)
    binding.bind_input("b", "cpu", 0, np.float32, B.shape, B.ctypes.data)
    binding.bind_output("difference", "cpu", 0, np.float32, [3], place.ctypes.data)
    binding.bind_ortvalue_output("total", held)
    own.run_with_iobinding(binding)
    np.testing.assert_array_equal(place, A - B)
    np.testing.assert_array_equal(held.numpy(), A + B)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[1], A + B)
    with pytest.raises(RuntimeError, match="Failed to find NodeArg with name: z"):
        binding.bind_cpu_input("z", A)
    with pytest.raises(RuntimeError, match="'cuda'"):
        binding.bind_output("total", "cuda", 0, np.float32, [3], place.ctypes.data)
    with pytest.raises(ValueError, match="the session that created it"):
        ours.InferenceSession(identity(), providers=HOST).run_with_iobinding(binding)


def test_an_asynchronous_run_tells_its_callback() -> None:
    own = ours.InferenceSession(identity(), providers=HOST)
    told: list[Any] = []
    done = threading.Event()

    def callback(results: Any, data: Any, problem: str) -> None:
        told.append((results, data, problem))
        done.set()

    for feed in (np.ones((1, 3), np.float32), np.ones((1, 2), np.float32)):
        done.clear()
        own.run_async(None, {"x": feed}, callback, "mine")
        assert done.wait(30)
    np.testing.assert_array_equal(told[0][0][0], np.ones((1, 3)))
    assert told[0][1:] == ("mine", "")
    assert told[1][0] == []
    assert told[1][2].startswith("Got invalid dimensions for input: x")
    with pytest.raises(ValueError, match="missing"):
        own.run_async(None, {}, callback, None)


def test_feeds_of_an_asynchronous_run_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    own = ours.InferenceSession(identity(), providers=HOST)
    taken, told, done = own._feeds.taken, list[Any](), threading.Event()
    looked: list[Any] = []
    monkeypatch.setattr(own._feeds, "taken", lambda feeds: looked.append(feeds) or taken(feeds))
    feeds = {"x": [[1, 2, 3]]}
    own.run_async(None, feeds, lambda results, *_: (told.append(results), done.set()), None)
    assert done.wait(30)
    np.testing.assert_array_equal(told[0][0], feeds["x"])
    assert looked == [feeds]


def test_a_session_is_copied_for_the_process_and_not_pickled() -> None:
    own = ours.InferenceSession(identity(), providers=HOST)
    assert len(copy.copy(own).run(None, {"x": np.ones((1, 3), np.float32)})) == 1
    for refused in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot pickle or copy 'SessionOptions', nor what holds one, as a session"):
            refused(own)


def test_terminate_ends_a_run_and_can_be_taken_back() -> None:
    own = ours.InferenceSession(identity(), providers=HOST)
    options, feeds = ours.RunOptions(), {"x": np.ones((1, 3), np.float32)}
    options.terminate = True
    with pytest.raises(statuses.Fail, match=r"FAIL : Exiting due to terminate flag being set to true: .* cancelled"):
        own.run(None, feeds, options)
    options.terminate = False
    assert len(own.run(None, feeds, options)) == 1


def test_what_is_fed_over_an_initialiser_is_traced(tmp_path: Path) -> None:
    clip = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
    clip (float[4] x, float[4] w, float high) => (float[4] y) <float[4] w = {0, 0, 0, 0}, float high = {1}> {
        sum = Add (x, w)
        y = Clip (sum, , high)
    }""")
    options = ours.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "trace")
    own = ours.InferenceSession(clip.SerializeToString(), options, providers=HOST)
    x, w = np.arange(4, dtype=np.float32), np.full(4, 7, np.float32)
    np.testing.assert_array_equal(own.run(None, {"x": x, "w": w})[0], np.ones(4))
    np.testing.assert_array_equal(own.run(None, {"x": x, "high": np.float32(2)})[0], [0, 1, 2, 2])
    events = json.loads(Path(own.end_profiling()).read_text())
    operators = {e["args"]["op_name"] for e in events if e["cat"] == "Node"}  # of nodes without names
    assert operators
    assert operators <= {"Add", "Clip"}


@pytest.mark.opencl
def test_the_cpu_provider_runs_on_an_opencl_cpu_and_writes_a_trace(tmp_path: Path) -> None:
    options = ours.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "trace")
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    model = small_model()
    own = ours.InferenceSession(model.SerializeToString(), options, providers=CPU)
    assert own.get_providers() == CPU
    own.run(None, {"x": np.ones((1, 3, 10, 10), np.float32)})
    lines = Path(own.end_profiling()).read_text().splitlines()
    assert (lines[0], lines[-1]) == ("[", "]")
    events = json.loads("".join(lines))
    assert {"session_initialization", "model_run"} <= {e["name"] for e in events}
    nodes = [e for e in events if e["cat"] == "Node"]
    kinds = {node.op_type for node in model.graph.node}
    assert nodes
    assert all(e["args"]["op_name"] in kinds and e["args"]["provider"] == CPU[0] for e in nodes)
    assert own.end_profiling() == ""
    assert onnx.load(options.optimized_model_filepath) == model
    options.profile_file_prefix, options.optimized_model_filepath = str(tmp_path / "left"), ""
    left = ours.InferenceSession(identity(), options, providers=HOST)
    del left
    gc.collect()
    assert len(list(tmp_path.glob("left*.json"))) == 1


def test_a_model_that_is_not_there_is_told_in_the_words_that_programs_look_for(tmp_path: Path) -> None:
    told = []
    for runtime in (onnxruntime, ours):
        with pytest.raises(Exception, match="NO_SUCHFILE") as caught:
            runtime.InferenceSession(str(tmp_path / "gone.onnx"), providers=CPU)
        told.append(str(caught.value))
    assert told[0] == told[1]


def test_a_programs_class_of_sessions_may_have_an_attribute_of_its_own_called_model() -> None:
    class Dumping(ours.InferenceSession):
        def __init__(self, source: bytes) -> None:
            self.model = "the program's"  # type: ignore[assignment]  # what is tested
            super().__init__(source, providers=HOST)

    session = Dumping(identity())
    assert session.run(None, {"x": np.ones((1, 3), np.float32)})[0].tolist() == [[1, 1, 1]]
    assert session.model == "the program's"
    assert ours.InferenceSession(identity(), providers=HOST).model.device.name == "host"
