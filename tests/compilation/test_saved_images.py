"""A saved model that was loaded before is run by its image, as if it had been loaded again."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import clgraph
from clgraph.compilation import cache_files, images, model_cache, saved_models
from clgraph.compilation.cache_files import ModelCache
from clgraph.core import cache_folder
from clgraph.errors import ClosedError, ModelError
from clgraph.model.kept_model import KeptModel
from clgraph.model.model import Model
from clgraph.saved.container import Contents

pytestmark = pytest.mark.opencl
RNG = np.random.default_rng(18)


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """What other tests registered is none of these."""
    monkeypatch.setattr(model_cache, "third_party", frozenset)


def product(path, device, sizes=(4, 64), **options):
    """Save the product of ``x`` and a weight, of which another picks rows."""
    weight, table = RNG.standard_normal((64, 256)).astype(np.float32), RNG.integers(-9, 9, (5000, 16)).astype(np.int32)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Gather", ["t", "n"], ["z"])],
        "g",
        [value("x", TensorProto.FLOAT, list(sizes)), value("n", TensorProto.INT64, [7])],
        [value("y", TensorProto.FLOAT, [sizes[0], 256]), value("z", TensorProto.INT32, [7, 16])],
        [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(table, "t")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    with clgraph.compile(model.SerializeToString(), device, config={"model_cache": 0, **options}) as made:
        made.save(path)
    return path


def feeds():
    return {"x": RNG.standard_normal((4, 64)).astype(np.float32), "n": RNG.integers(0, 5000, 7)}


def assert_alike(model, other):
    fed = feeds()
    found, wanted = model.run(fed), other.run(fed)
    assert list(found) == list(wanted)
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)


@pytest.fixture
def load(device, tmp_path):
    def make(path, **options):
        return clgraph.load(path, device, cache_dir=tmp_path / "cache", config={"model_cache": 64, **options})

    return make


@pytest.fixture
def kept(load, device, tmp_path):
    """Save a model, load it, which makes its image, and return the file and the model."""
    file = product(tmp_path / "m.clg", device)
    whole = load(file)
    assert type(whole) is Model
    return file, whole


def image_of(tmp_path):
    (path,) = (tmp_path / "cache" / "compiled").glob("*.image")
    return path


def test_a_saved_model_starts_by_its_image_and_computes_the_same(load, kept):
    file, whole = kept
    model = load(file)
    assert type(model) is KeptModel
    for _ in range(3):
        assert_alike(model, whole)
    assert "_specialisations" not in vars(model)


def test_pocl_sets_its_devices_up_beside_a_start_of_a_file_that_is_whole(load, kept, monkeypatch):
    expected = []
    monkeypatch.setattr(saved_models, "expect_devices", lambda: expected.append(True))
    file, _ = kept
    load(file)
    assert expected == [True]
    content = bytearray(file.read_bytes())
    content[len(content) // 2 :] = b""
    file.write_bytes(content)
    with pytest.raises(ModelError):
        load(file)
    assert expected == [True]


def test_what_else_is_asked_is_read_from_the_file(load, kept, tmp_path):
    file, whole = kept
    model = load(file)
    file.rename(tmp_path / "renamed.clg")
    assert (model.inputs, model.outputs, model.metadata) == (whole.inputs, whole.outputs, whole.metadata)
    assert "_specialisations" not in vars(model)
    assert str(model.explain()) == str(whole.explain())
    assert model.notes == whole.notes == ("as saved: no pass was run",)
    fed = feeds()
    short = model.reshape({"x": (3, 64)}).run({**fed, "x": fed["x"][:3]})
    np.testing.assert_array_equal(short["y"], whole.run(fed)["y"][:3])
    model.save(tmp_path / "again.clg")
    assert_alike(load(tmp_path / "again.clg"), whole)


def test_a_file_is_known_wherever_it_lies_and_another_of_its_name_is_not(load, kept, device, tmp_path):
    file, whole = kept
    shutil.copy(file, tmp_path / "copy.clg")
    model = load(tmp_path / "copy.clg")
    assert type(model) is KeptModel
    assert_alike(model, whole)
    product(file, device)
    other = load(file)
    assert type(other) is Model
    fed = feeds()
    assert (other.run(fed)["y"] != whole.run(fed)["y"]).any()
    assert type(load(file)) is KeptModel


@pytest.mark.parametrize("where", [3, 40, 100, -200, "cut", "empty"])
def test_a_damaged_image_is_made_anew(load, kept, tmp_path, where):
    file, whole = kept
    path = image_of(tmp_path)
    data = bytearray(path.read_bytes())
    if isinstance(where, int):
        data[where] ^= 8
    path.write_bytes({"cut": data[:-70], "empty": b""}.get(where, data))
    model = load(file)
    assert type(model) is Model
    assert_alike(model, whole)
    assert type(load(file)) is KeptModel


@pytest.mark.parametrize("where", ["header", "constant", "cut"])
def test_a_damaged_file_is_an_error_though_it_has_an_image(load, kept, where):
    """Of constants those of integers, as without an image."""
    file, _ = kept
    assert type(load(file)) is KeptModel
    data = bytearray(file.read_bytes())
    if where == "cut":
        data = data[:-100]
    else:
        contents = Contents(file)
        tables = [i for i, (_, nbytes, _) in enumerate(contents.header["blobs"]) if nbytes == 5000 * 16 * 4]
        at = {contents._start + contents.header["blobs"][i][0] + 99 for i in tables} if where == "constant" else {99}
        for each in at:
            data[each] ^= 1
    file.write_bytes(data)
    with pytest.raises(ModelError, match=r"damaged|cut"):
        load(file)


def test_a_file_that_is_cut_ends_runs(load, kept):
    file, _ = kept
    model = load(file)
    model.run(feeds())
    os.truncate(file, 4096)
    with pytest.raises(ModelError, match="cut to 4096"):
        model.run(feeds())


def test_an_image_of_another_device_driver_or_option_is_not_used(load, kept, monkeypatch):
    file, whole = kept
    assert type(load(file, precision="f16", log_level=None)) is not KeptModel
    made = images.circumstances
    for name in ("device", "driver", "vectors", "workers", "tuning", "sources"):
        with monkeypatch.context() as patch:
            patch.setattr(images, "circumstances", lambda *args, name=name: {**made(*args), name: "another"})
            assert type(load(file)) is Model
    assert_alike(load(file), whole)


def test_what_is_compiled_anew_has_no_image(load, device, tmp_path):
    file = product(tmp_path / "m.clg", device, precision="f16")
    for _ in range(2):
        model = load(file)
        assert (type(model), "compiled anew" in str(model.notes)) == (Model, True)
    assert not list((tmp_path / "cache" / "compiled").glob("*.image"))


@pytest.mark.parametrize("options", [{"model_cache": 0}, {"memory_limit": "1 GiB"}, {"verify_passes": True}])
def test_where_the_cache_does_not_serve_there_is_no_image(load, kept, device, tmp_path, options):
    file, _ = kept
    assert type(load(file, **options)) is not KeptModel
    image_of(tmp_path).unlink()
    load(file, **options)
    assert not list((tmp_path / "cache" / "compiled").glob("*.image"))


def test_a_cache_that_cannot_be_written_costs_the_image_and_no_more(load, device, tmp_path, monkeypatch):
    file = product(tmp_path / "m.clg", device)

    def refused(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr("clgraph.saved.container.replacing", refused)
        patch.setattr(cache_folder, "write", refused)
        models = [load(file), load(file)]
    assert [type(model) for model in models] == [Model, Model]
    assert_alike(*models)
    load(file)
    with monkeypatch.context() as patch:
        patch.setattr(cache_files, "write", refused)
        patch.setattr(os, "utime", refused)
        model = load(file)
    assert type(model) is KeptModel
    assert_alike(model, models[0])


def test_an_image_that_others_can_write_is_not_read(load, kept, tmp_path):
    file, _ = kept
    image_of(tmp_path).chmod(0o666)
    assert type(load(file)) is Model


def test_a_closed_model_is_closed_and_was_not_read(load, kept):
    file, _ = kept
    with load(file) as model:
        model.run(feeds())
    assert "_specialisations" not in vars(model)
    with pytest.raises(ClosedError):
        model.run(feeds())


def test_images_of_saved_models_count_to_the_cache_and_go_when_it_is_full(load, kept, tmp_path):
    file, _ = kept
    image = image_of(tmp_path)
    os.utime(image, (1, 1))
    folder = tmp_path / "cache" / "compiled"
    ModelCache(folder, 1 << 30).trim()
    assert type(load(file)) is KeptModel
    ModelCache(folder, image.stat().st_size - 1).trim()
    assert not [path for path in folder.iterdir() if path.is_file()]
    assert type(load(file)) is Model


_START = """
import sys
import numpy as np
import clgraph
model = clgraph.load(sys.argv[1], sys.argv[2])
found = model.run({"x": np.ones((4, 64), np.float32), "n": np.arange(7)})
print(type(model).__name__, found["y"].tobytes().hex()[:64], *sys.modules)
"""


_SAVE = "import sys; from tests.compilation.test_saved_images import product; product(*sys.argv[1:])"


def test_processes_that_start_at_once_compute_the_same_and_then_import_nothing_of_programs(device, tmp_path):
    file = tmp_path / "m.clg"
    # By a process, too: what other tests registered here would be other sources of clgraph.
    subprocess.run([sys.executable, "-c", _SAVE, str(file), device], check=True)
    command = [sys.executable, "-c", _START, str(file), device]
    variables = {**os.environ, "CLGRAPH_MODEL_CACHE": "64"}
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=variables) for _ in range(2)]
    told = [process.communicate()[0].split() for process in started]
    assert [process.returncode for process in started] == [0, 0]
    assert len({words[1] for words in told}) == 1
    name, bits, *modules = subprocess.run(
        command, capture_output=True, text=True, check=True, env=variables
    ).stdout.split()
    assert (name, bits) == ("KeptModel", told[0][1])
    heavy = {"clgraph.graph.program", "clgraph.graph.topology", "clgraph.network.network", "clgraph.passes", "logging"}
    heavy |= {"clgraph.selector.library", "clgraph.saved.programs", "clgraph.compilation.load", "onnx"}
    assert heavy & set(modules) == set()
