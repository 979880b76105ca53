"""A model that was loaded out of the model cache before is run by its image, as if it had been loaded again."""

import os
import shutil
import subprocess
import sys
import threading
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import clgraph
from clgraph.compilation import cache_entries, cache_files, images, keeper, model_cache
from clgraph.errors import ClosedError, InputError, ModelError
from clgraph.model.kept_model import KeptModel
from clgraph.model.model import Model
from clgraph.network.image import BORROWED, COPIED, IN_FILE, INPUT, PACKED, RESULT, UNREAD
from clgraph.runtime.binaries import ProgramCache
from clgraph.saved.container import Contents

pytestmark = pytest.mark.opencl
RNG = np.random.default_rng(13)
WAIT = 0.06


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Files settle soon, models are written at once, and what other tests registered is none of these."""
    monkeypatch.setattr(cache_files, "SETTLED_SECONDS", WAIT / 2)
    monkeypatch.setattr(keeper.Later, "start", keeper.Later.finish)
    monkeypatch.setattr(model_cache, "third_party", frozenset)


def write(path, nodes, inputs, outputs, **constants):
    """Write a model of *nodes*; inputs and outputs by name have a type and a shape."""
    ins, outs = (
        [helper.make_tensor_value_info(name, *kind) for name, kind in values.items()] for values in (inputs, outputs)
    )
    kept = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph([helper.make_node(*n[:3], **(n[3] if len(n) > 3 else {})) for n in nodes], "g", ins, outs)
    graph.initializer.extend(kept)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    time.sleep(WAIT)
    return path


F32, I64 = TensorProto.FLOAT, TensorProto.INT64


def product(path):
    weight = RNG.standard_normal((64, 256)).astype(np.float32)
    return write(
        path,
        [("MatMul", ["x", "w"], ["t"]), ("Relu", ["t"], ["y"])],
        {"x": (F32, [4, 64])},
        {"y": (F32, [4, 256])},
        w=weight,
    )


def pictures(path):
    weight = RNG.standard_normal((32, 16, 3, 3)).astype(np.float32)
    nodes = [("Conv", ["x", "w"], ["y"], {"pads": [1] * 4}), ("Det", ["z"], ["s"])]
    return write(
        path,
        nodes,
        {"x": (F32, [1, 16, 64, 64]), "z": (F32, [3, 3]), "unread": (F32, [2])},
        {"y": (F32, [1, 32, 64, 64]), "s": (F32, [])},
        w=weight,
    )


def words(path):
    table = RNG.standard_normal((50, 32)).astype(np.float32)
    return write(path, [("Gather", ["table", "n"], ["y"])], {"n": (I64, [7])}, {"y": (F32, [7, 32])}, table=table)


def passed_on(path):
    return write(
        path,
        [("Reshape", ["x", "shape"], ["y"]), ("Exp", ["z"], ["e"])],
        {"x": (F32, [4, 6]), "z": (F32, [3])},
        {"y": (F32, [24]), "e": (F32, [3])},
        shape=np.int64([24]),
    )


MODELS = {"product": product, "pictures": pictures, "words": words}


def feeds_of(model):
    return {
        s.name: RNG.integers(-5, 5, s.shape)
        if s.dtype.name == "I64"
        else RNG.standard_normal(s.shape).astype(np.float32)
        for s in model.inputs
    }


@pytest.fixture
def compiled(device, tmp_path):
    def make(source, **options):
        return clgraph.compile(source, device, cache_dir=tmp_path / "cache", config={"model_cache": 64, **options})

    return make


@pytest.fixture
def kept(compiled, tmp_path):
    """Compile a model, load it, which makes its image, and return what compiles it again."""

    def make(name):
        file = MODELS[name](tmp_path / f"{name}.onnx")
        whole = [compiled(file), compiled(file)]
        assert [type(model) for model in whole] == [Model, Model]
        return file, whole[1]

    return make


def image_of(tmp_path):
    (path,) = (tmp_path / "cache" / "compiled").glob("*.image")
    return path


@pytest.mark.parametrize("name", MODELS)
def test_an_image_computes_bit_for_bit_what_the_whole_model_does(compiled, kept, name):
    file, whole = kept(name)
    model = compiled(file)
    assert type(model) is KeptModel
    for _ in range(3):
        feeds = feeds_of(whole)
        found, wanted = model.run(feeds), whole.run(feeds)
        assert list(found) == list(wanted)
        for output, array in wanted.items():
            np.testing.assert_array_equal(found[output], array)
            assert (found[output].dtype, found[output].flags.writeable) == (array.dtype, True)
    assert "_specialisations" not in vars(model)


def test_images_hold_what_programs_have(kept, tmp_path):
    for name in MODELS:
        kept(name)
    parts = set()
    for path in (tmp_path / "cache" / "compiled").glob("*.image"):
        image = Contents(path).header["image"]
        parts |= {(part, row[0]) for part in ("banks", "launches", "feeds", "results") for row in image[part]}
    wanted = {("launches", "tiles"), ("launches", "kernel"), ("banks", IN_FILE), ("banks", PACKED), ("banks", INPUT)}
    wanted |= {("banks", RESULT), *(("feeds", kind) for kind in (COPIED, BORROWED, UNREAD))}
    assert wanted | {("results", COPIED), ("results", BORROWED)} <= parts


def test_results_stay_when_the_model_is_run_again(compiled, kept):
    file, whole = kept("pictures")
    model = compiled(file)
    feeds = [feeds_of(whole) for _ in range(4)]
    found = [model.run(each) for each in feeds]
    for each, results in zip(feeds, found, strict=True):
        np.testing.assert_array_equal(results["y"], whole.run(each)["y"])


def test_arrays_at_odd_addresses_are_read_alike(compiled, kept):
    file, whole = kept("pictures")
    model, feeds = compiled(file), feeds_of(whole)
    memory = np.zeros(feeds["x"].nbytes + 1, np.uint8)
    odd = memory[1:].view(np.float32).reshape(feeds["x"].shape)
    odd[...] = feeds["x"]
    np.testing.assert_array_equal(model.run({**feeds, "x": odd})["y"], whole.run(feeds)["y"])


def test_what_else_is_asked_is_what_the_whole_model_says(compiled, kept):
    file, whole = kept("pictures")
    model, feeds = compiled(file), feeds_of(whole)
    results = model.run(feeds)
    assert (model.inputs, model.input_names, model.outputs) == (whole.inputs, whole.input_names, whole.outputs)
    assert (model.device, model.metadata, model.is_static) == (whole.device, whole.metadata, True)
    assert "_specialisations" not in vars(model)
    assert str(model.explain()) == str(whole.explain())
    assert (model.notes, [p.name for p in model.passes]) == (whole.notes, [p.name for p in whole.passes])
    assert model.specialisations == whole.specialisations
    assert [row.node for row in model.profile(feeds).commands] == [row.node for row in whole.profile(feeds).commands]
    np.testing.assert_array_equal(model.run(feeds)["y"], results["y"])
    np.testing.assert_array_equal(model.clone().run(feeds)["y"], results["y"])


def test_other_feeds_are_taken_or_refused_as_ever(compiled, kept):
    file, whole = kept("words")
    x = np.arange(7)
    np.testing.assert_array_equal(compiled(file).run({"n": list(range(7))})["y"], whole.run({"n": x})["y"])
    np.testing.assert_array_equal(compiled(file)(x), whole(x))
    np.testing.assert_array_equal(compiled(file).run({"n": x}, outputs=["y"])["y"], whole.run({"n": x})["y"])
    wrong = [{}, {"m": x}, {"n": x.astype(np.int32)}, {"n": x + 50}, {"n": x, "m": x}]
    for feeds in wrong:
        told = []
        for model in (compiled(file), whole):
            with pytest.raises(InputError) as caught:
                model.run(feeds)
            told.append(str(caught.value))
        assert told[0] == told[1]
    with pytest.raises(InputError):
        compiled(file).run({"n": x[:4]})


@pytest.mark.parametrize("where", [3, 40, 100, -200, "cut", "empty"])
def test_a_damaged_image_is_made_anew(compiled, kept, tmp_path, where):
    file, whole = kept("product")
    path, feeds = image_of(tmp_path), feeds_of(whole)
    data = bytearray(path.read_bytes())
    if isinstance(where, int):
        data[where] ^= 8
    path.write_bytes({"cut": data[:-70], "empty": b""}.get(where, data))
    model = compiled(file)
    assert type(model) is Model
    np.testing.assert_array_equal(model.run(feeds)["y"], whole.run(feeds)["y"])
    assert type(compiled(file)) is KeptModel


def test_constants_that_are_damaged_in_the_entry_are_noticed(compiled, tmp_path):
    """Those of integers, as when an entry is read."""
    table = RNG.integers(-9, 9, (500, 64)).astype(np.int32)
    file = write(
        tmp_path / "m.onnx",
        [("Gather", ["t", "n"], ["y"])],
        {"n": (I64, [7])},
        {"y": (TensorProto.INT32, [7, 64])},
        t=table,
    )
    for wanted in (Model, Model, KeptModel):
        assert type(compiled(file)) is wanted
    (entry,) = (tmp_path / "cache" / "compiled").glob("*.clg")
    data = bytearray(entry.read_bytes())
    at = bytes(data).index(table.tobytes())
    data[at + 100] ^= 1
    entry.write_bytes(data)
    n = np.arange(7)
    np.testing.assert_array_equal(compiled(file).run({"n": n})["y"], table[n])


def test_an_image_of_another_entry_is_not_used(compiled, kept, tmp_path):
    _, whole = kept("product")
    path = image_of(tmp_path)
    shutil.move(path, tmp_path / "other.image")
    other = product(tmp_path / "other.onnx")
    compiled(other), compiled(other)
    shutil.copy(tmp_path / "other.image", image_of(tmp_path))
    model, feeds = compiled(other), feeds_of(whole)
    assert type(model) is Model
    assert (model.run(feeds)["y"] != whole.run(feeds)["y"]).any()


def test_an_image_whose_kernels_are_gone_is_not_used(compiled, kept, monkeypatch):
    file, whole = kept("pictures")
    feeds = feeds_of(whole)
    engine = next(iter(whole.compiled.values())).network.engine
    engine.programs._of_binary.clear()
    with monkeypatch.context() as patch:
        patch.setattr(ProgramCache, "read", lambda self, key: None)
        model = compiled(file)
    assert type(model) is Model
    np.testing.assert_array_equal(model.run(feeds)["y"], whole.run(feeds)["y"])


def test_a_tuning_of_the_device_is_another_circumstance(compiled, kept, monkeypatch):
    file, _ = kept("product")
    made = images.circumstances
    monkeypatch.setattr(images, "circumstances", lambda *args: {**made(*args), "tuning": "another"})
    assert type(compiled(file)) is Model


def test_with_a_limit_of_memory_there_is_no_image(compiled, kept):
    file, whole = kept("product")
    model = compiled(file, memory_limit="1 GiB")
    assert type(model) is Model
    feeds = feeds_of(whole)
    np.testing.assert_array_equal(model.run(feeds)["y"], whole.run(feeds)["y"])


def test_what_an_image_cannot_do_is_noted_once(compiled, tmp_path, monkeypatch):
    file = passed_on(tmp_path / "m.onnx")
    compiled(file), compiled(file)
    assert "passed on" in Contents(image_of(tmp_path)).header["none"]
    monkeypatch.setattr(images, "_write", None)
    assert type(compiled(file)) is Model


def test_a_closed_model_is_closed_and_was_not_read(compiled, kept):
    file, whole = kept("product")
    with compiled(file) as model:
        model.run(feeds_of(whole))
    assert "_specialisations" not in vars(model)
    with pytest.raises(ClosedError):
        model.run(feeds_of(whole))
    with pytest.raises(ClosedError):
        model.clone()
    model.close()


def test_a_model_is_read_though_its_file_and_entry_are_gone(compiled, kept, tmp_path):
    file, whole = kept("product")
    model, feeds = compiled(file), feeds_of(whole)
    file.unlink()
    shutil.rmtree(tmp_path / "cache" / "compiled")
    assert [n.name for n in model.program] == [n.name for n in whole.program]
    np.testing.assert_array_equal(
        model.reshape({"x": (3, 64)}).run({"x": feeds["x"][:3]})["y"], whole.run(feeds)["y"][:3]
    )


def test_an_entry_that_proves_damaged_later_is_compiled_anew(compiled, kept, tmp_path, monkeypatch):
    file, whole = kept("product")
    model, feeds = compiled(file), feeds_of(whole)

    def damaged(*_: object) -> None:
        raise ModelError("planted")

    monkeypatch.setattr(cache_entries, "topology_of", damaged)
    assert [n.name for n in model.program] == [n.name for n in whole.program]
    assert not model.notes
    np.testing.assert_array_equal(model.run(feeds)["y"], whole.run(feeds)["y"])


def test_an_entry_that_is_written_to_ends_runs(compiled, kept, tmp_path):
    file, whole = kept("product")
    model, feeds = compiled(file), feeds_of(whole)
    model.run(feeds)
    (entry,) = (tmp_path / "cache" / "compiled").glob("*.clg")
    with entry.open("r+b") as opened:
        opened.truncate(4096)
    with pytest.raises(ModelError, match="cut to 4096"):
        model.run(feeds)


def test_an_image_goes_with_its_entry(compiled, kept, tmp_path):
    kept("product")
    image = image_of(tmp_path)
    cache = cache_files.ModelCache(tmp_path / "cache" / "compiled", 1)
    cache.trim()
    assert not image.exists()


def test_threads_that_run_and_ask_at_once_find_one_model(compiled, kept):
    file, whole = kept("product")
    model, feeds = compiled(file), feeds_of(whole)
    wanted, found = whole.run(feeds)["y"], []

    def work(number):
        found.append(model.run(feeds)["y"] if number % 2 else len(list(model.program)))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    arrays = [each for each in found if isinstance(each, np.ndarray)]
    assert len(arrays) == 4
    assert all((array == wanted).all() for array in arrays)
    assert {each for each in found if isinstance(each, int)} == {len(list(whole.program))}


def test_an_entry_whose_header_is_damaged_is_compiled_anew_though_its_image_is_not(compiled, kept, tmp_path):
    file, whole = kept("product")
    (entry,) = (tmp_path / "cache" / "compiled").glob("*.clg")
    data = bytearray(entry.read_bytes())
    data[1000] ^= 1
    entry.write_bytes(data)
    model, feeds = compiled(file), feeds_of(whole)
    assert (type(model), model.notes) == (Model, ())
    np.testing.assert_array_equal(model.run(feeds)["y"], whole.run(feeds)["y"])


_START = """
import sys
import numpy as np
import clgraph
model = clgraph.compile(open(sys.argv[1], 'rb').read(), sys.argv[2])  # a file is kept once it was left alone
model.run({"x": np.ones((4, 64), np.float32)})
print(type(model).__name__, *sys.modules)
"""


def test_a_start_by_an_image_imports_nothing_of_programs(device, tmp_path):
    file = product(tmp_path / "m.onnx")
    command = [sys.executable, "-c", _START, str(file), device]
    variables = {**os.environ, "CLGRAPH_MODEL_CACHE": "64"}
    for _ in range(3):
        ended = subprocess.run(command, capture_output=True, text=True, check=True, env=variables)
        name, *modules = ended.stdout.split()
    assert name == "KeptModel"
    heavy = {"clgraph.graph.program", "clgraph.graph.topology", "clgraph.network.network", "clgraph.passes", "logging"}
    heavy |= {"clgraph.selector.library", "clgraph.saved.programs", "clgraph.compilation.load", "onnx"}
    assert heavy & set(modules) == set()
