"""Compiling the same file again takes the model out of the cache, and nothing else does."""

import gc
import os
import time
import warnings

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import clgraph
from clgraph.compilation import cache_files as store
from clgraph.compilation import cache_sources as sources
from clgraph.compilation import keeper
from clgraph.compilation import model_cache as cached
from clgraph.errors import ModelError
from clgraph.network.node_steps import kernel_texts
from clgraph.runtime.programs import Programs

RNG = np.random.default_rng(8)
WAIT = 0.06
"""Longer than ``SETTLED_SECONDS`` of these tests, which is longer than a file system's clock ticks."""


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Files settle soon, models are written at once, and what other tests registered is none of these."""
    monkeypatch.setattr(store, "SETTLED_SECONDS", WAIT / 2)
    monkeypatch.setattr(keeper.Later, "start", keeper.Later.finish)
    monkeypatch.setattr(cached, "third_party", frozenset)


def write(path, weight, *, height=None):
    """Write a model that multiplies [height, 64] by *weight* and clips the product at zero."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["t"]), helper.make_node("Relu", ["t"], ["y"])]
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [height or "n", 64]) for n in ("x", "y")]
    graph = helper.make_graph(nodes, "g", info[:1], info[1:], [numpy_helper.from_array(weight, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    time.sleep(WAIT)
    return path


@pytest.fixture
def weight():
    return RNG.standard_normal((64, 64)).astype(np.float32)


@pytest.fixture
def file(tmp_path, weight):
    return write(tmp_path / "m.onnx", weight)


@pytest.fixture
def compiled(device, tmp_path):
    def make(source, *, limit=64, height=4, **arguments):
        config = {"model_cache": limit, **arguments.pop("config", {})}
        arguments.setdefault("shapes", {"x": (height, 64)} if height else None)
        return clgraph.compile(source, device, cache_dir=tmp_path / "cache", config=config, **arguments)

    return make


def hit(model):
    return any("out of the model cache" in note for note in model.notes)


def assert_is_product(found, x, weight):
    """64 products and sums of float32: 64 roundings of up to 2^-24 of the sum of the magnitudes."""
    exact = np.maximum(x.astype(np.float64) @ weight, 0)
    assert (np.abs(found - exact) <= 64 * 2**-24 * (np.abs(x) @ np.abs(weight))).all()


def entries(tmp_path):
    return sorted((tmp_path / "cache" / "compiled").glob("*.clg"))


@pytest.mark.opencl
def test_the_same_file_compiled_again_is_run_as_it_was_kept(compiled, file, weight):
    first, second = compiled(file), compiled(file)
    x = RNG.standard_normal((4, 64)).astype(np.float32)
    assert (hit(first), hit(second)) == (False, True)
    np.testing.assert_array_equal(second(x), first(x))
    assert "out of the model cache" in str(second.explain())
    assert [p.name for p in second.passes] == [p.name for p in first.passes]
    assert (str(second.inputs[0]), str(second.outputs[0])) == (str(first.inputs[0]), str(first.outputs[0]))


@pytest.mark.opencl
def test_a_run_out_of_the_cache_reads_nothing_of_the_model(compiled, file, monkeypatch):
    compiled(file)
    monkeypatch.setattr(sources, "_read", None)
    assert compiled(file)(np.zeros((4, 64), np.float32)).shape == (4, 64)


@pytest.mark.opencl
def test_pocl_sets_its_devices_up_beside_a_start_of_a_model_that_is_known(compiled, file, monkeypatch, tmp_path):
    expected = []
    monkeypatch.setattr(cached, "expect_devices", lambda: expected.append(True))
    with pytest.raises(ModelError):
        compiled(tmp_path / "none.onnx")
    compiled(file)
    assert expected == []
    compiled(file)
    assert expected == [True]


@pytest.mark.opencl
def test_binaries_of_the_models_own_kernels_are_kept_with_it(compiled, file, monkeypatch):
    kept = []
    monkeypatch.setattr(Programs, "keep_binaries", lambda self, texts: kept.extend(texts))
    model = compiled(file, config={"device_class": "gpu"})
    assert kept == kernel_texts(model.program, next(iter(model.program)).placement)
    assert kept
    kept.clear()
    compiled(file, config={"device_class": "gpu"})
    assert not kept


@pytest.mark.opencl
def test_another_shape_of_a_model_out_of_the_cache_is_compiled(compiled, file, weight):
    compiled(file)
    model = compiled(file)
    file.unlink()
    model = model.reshape({"x": (7, 64)})
    x = RNG.standard_normal((7, 64)).astype(np.float32)
    assert_is_product(model(x), x, weight)


@pytest.mark.opencl
def test_a_model_out_of_the_cache_that_is_dropped_leaves_no_file_open(compiled, file):
    compiled(file)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", ResourceWarning)
        compiled(file)
        gc.collect()
    assert not [str(warning.message) for warning in warned]


@pytest.mark.opencl
def test_a_file_that_is_written_to_is_no_source_of_another_shape(compiled, file):
    compiled(file)
    model = compiled(file)
    with file.open("r+b") as opened:
        opened.seek(-8, os.SEEK_END)
        opened.write(b"\0\0")
    with pytest.raises(ModelError, match="written to while the model was in use"):
        model.reshape({"x": (7, 64)})


def in_place(file, weight):
    state = file.stat()
    data = file.read_bytes().replace(weight.tobytes(), (-weight).tobytes())
    with file.open("r+b") as opened:
        opened.write(data)
    assert file.stat().st_size == state.st_size
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))


def replaced(file, weight):
    state = file.stat()
    write(file.with_name("new"), -weight)
    os.utime(file.with_name("new"), ns=(state.st_atime_ns, state.st_mtime_ns))
    file.with_name("new").replace(file)


@pytest.mark.opencl
@pytest.mark.parametrize("change", [in_place, replaced])
@pytest.mark.parametrize("wait", [0, WAIT])
def test_a_file_of_other_content_never_comes_out_of_the_cache_whatever_its_size_and_time(
    compiled, file, weight, change, wait
):
    compiled(file)
    assert hit(compiled(file))
    change(file, weight)
    time.sleep(wait)
    model = compiled(file)
    x = np.abs(RNG.standard_normal((4, 64))).astype(np.float32)
    assert not hit(model)
    assert_is_product(model(x), x, -weight)


@pytest.mark.opencl
def test_a_copy_of_a_file_comes_out_of_the_cache(compiled, file, tmp_path):
    compiled(file)
    (tmp_path / "copy.onnx").write_bytes(file.read_bytes())
    assert not hit(compiled(tmp_path / "copy.onnx"))
    time.sleep(WAIT)
    assert hit(compiled(tmp_path / "copy.onnx"))


@pytest.mark.opencl
@pytest.mark.parametrize(
    "other",
    [
        {"height": 5},
        {"outputs": ["t"]},
        {"threads": 1},
        {"config": {"winograd": False}},
        {"config": {"disable_passes": "prepare_primitive_fusing"}},
        {"limit": 0},
    ],
)
def test_what_was_compiled_otherwise_is_not_taken(compiled, file, other):
    compiled(file)
    assert not hit(compiled(file, **other))
    assert hit(compiled(file))


@pytest.mark.opencl
def test_a_topology_is_not_kept(compiled, file, tmp_path):
    compiled(clgraph.compile(file, "null").topology)
    assert entries(tmp_path) == []


@pytest.mark.opencl
def test_a_model_in_memory_is_known_by_its_bytes(compiled, file, weight, tmp_path):
    x = RNG.standard_normal((4, 64)).astype(np.float32)
    proto, data = onnx.load(file), file.read_bytes()
    first = compiled(proto)
    for source in (proto, data, bytearray(data), memoryview(data), file):
        again = compiled(source)
        assert (hit(first), hit(again)) == (False, True)
        np.testing.assert_array_equal(again(x), first(x))
    assert len(entries(tmp_path)) == 1
    proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(-weight, "w"))
    changed = compiled(proto)
    assert not hit(changed)
    assert_is_product(changed(x), x, -weight)


@pytest.mark.opencl
def test_another_shape_of_bytes_out_of_the_cache_is_compiled_from_what_they_were(compiled, file, weight):
    data = bytearray(file.read_bytes())
    compiled(data, height=None).prepare({"x": (4, 64)})
    model = compiled(data, height=None)
    data[:] = bytes(len(data))
    x = RNG.standard_normal((9, 64)).astype(np.float32)
    assert_is_product(model(x), x, weight)


@pytest.mark.opencl
def test_nothing_is_taken_where_others_have_registered_something(compiled, file, monkeypatch):
    compiled(file)
    monkeypatch.setattr(cached, "third_party", lambda: frozenset({"acme"}))
    assert not hit(compiled(file))


@pytest.mark.opencl
@pytest.mark.parametrize("damage", [lambda b: b[:-70], lambda b: b"", lambda b: b[:70] + b"?" + b[71:]])
def test_a_damaged_entry_is_compiled_anew_and_replaced(compiled, file, tmp_path, damage):
    compiled(file)
    (entry,) = entries(tmp_path)
    entry.write_bytes(damage(entry.read_bytes()))
    assert not hit(compiled(file))
    assert hit(compiled(file))


@pytest.mark.opencl
def test_a_folder_that_is_a_file_is_replaced_by_a_temporary_one(compiled, file, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "compiled").touch()
    with pytest.warns(UserWarning, match="is not used"):
        assert not hit(compiled(file))
    assert hit(compiled(file))


@pytest.mark.opencl
def test_a_model_whose_weights_lie_in_other_files_is_not_kept(compiled, file, tmp_path):
    onnx.save(onnx.load(file), tmp_path / "e.onnx", save_as_external_data=True, location="e.bin", size_threshold=0)
    time.sleep(WAIT)
    compiled(tmp_path / "e.onnx")
    assert not hit(compiled(tmp_path / "e.onnx"))


@pytest.mark.opencl
def test_neither_is_one_of_whose_weights_only_an_attribute_lies_in_another_file(compiled, file, tmp_path):
    """Of such data nothing is left in the topology that could tell where it came from."""
    low = numpy_helper.from_array(np.float32(0.5), "low")
    nodes = [helper.make_node("Clip", ["x", "low"], ["y"])]
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, 64]) for n in ("x", "y")]
    model = helper.make_model(
        helper.make_graph(nodes, "g", info[:1], info[1:], [low]), opset_imports=[helper.make_opsetid("", 17)]
    )
    path = tmp_path / "e.onnx"
    x = np.zeros((4, 64), np.float32)
    for bound in (0.5, 0.75):
        low.CopyFrom(numpy_helper.from_array(np.float32(bound), "low"))
        model.graph.initializer[0].CopyFrom(low)
        if not path.exists():
            onnx.save(model, path, save_as_external_data=True, location="e.bin", size_threshold=0)
        (tmp_path / "e.bin").write_bytes(np.float32(bound).tobytes())
        time.sleep(WAIT)
        np.testing.assert_array_equal(compiled(path)(x), np.float32(bound))


def other_entry(compiled, tmp_path, weight):
    """Compile another model of the same size; return the entries of the first and of this one."""
    (first,) = entries(tmp_path)
    compiled(write(tmp_path / "other.onnx", -weight))
    (second,) = set(entries(tmp_path)) - {first}
    return first, second


def exchange(first, second):
    first.rename(first.with_name("held"))
    second.rename(second.with_name(first.name))
    first.with_name("held").rename(second)


@pytest.mark.opencl
@pytest.mark.parametrize("what", ["entries", "stamps"])
def test_what_was_exchanged_with_another_models_is_found_out(compiled, file, tmp_path, weight, what):
    compiled(file)
    pair = other_entry(compiled, tmp_path, weight)
    exchange(*(pair if what == "entries" else (tmp_path / "cache" / "compiled" / "stamps").iterdir()))
    x = np.abs(RNG.standard_normal((4, 64))).astype(np.float32)
    model = compiled(file)
    assert hit(model) == (what == "stamps")
    assert_is_product(model(x), x, weight)
    assert hit(compiled(file))


@pytest.mark.opencl
def test_an_entry_of_another_shape_in_place_of_this_one_is_found_out(compiled, file, tmp_path):
    compiled(file)
    (four,) = entries(tmp_path)
    compiled(file, height=5)
    (five,) = set(entries(tmp_path)) - {four}
    exchange(four, five)
    assert not hit(compiled(file))
    assert hit(compiled(file))


def linked(entry):
    entry.rename(entry.with_name("elsewhere"))
    entry.symlink_to(entry.with_name("elsewhere"))


@pytest.mark.opencl
@pytest.mark.parametrize("change", [linked, lambda entry: entry.chmod(0o666)])
def test_an_entry_that_somebody_else_may_have_put_there_is_not_taken_and_replaced(compiled, file, tmp_path, change):
    compiled(file)
    (entry,) = entries(tmp_path)
    content = entry.read_bytes()
    change(entry)
    assert not hit(compiled(file))
    assert hit(compiled(file))
    assert not entry.is_symlink()
    assert entry.stat().st_mode & 0o777 == 0o600
    if change is linked:
        assert entry.with_name("elsewhere").read_bytes() == content


@pytest.mark.opencl
def test_using_an_entry_does_not_change_it_for_those_who_have_it_mapped(compiled, file, tmp_path):
    first = compiled(file)
    first = compiled(file)
    time.sleep(0.02)
    assert hit(compiled(file))
    x = np.ones((4, 64), np.float32)
    first(x)
    first.reshape({"x": (5, 64)})
