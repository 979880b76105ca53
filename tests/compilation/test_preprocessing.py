"""Models that are fed images: ``clgraph.compile(model, preprocess=...)``."""

import time

import numpy as np
import pytest
from onnx import TensorProto, helper
from PIL import Image

import clgraph
from clgraph import Preprocess
from clgraph.compilation import cache_files, keeper, model_cache
from clgraph.errors import InputError, OptionError, ShapeError
from clgraph.graph.topology import Topology
from clgraph.ops.activation import Activation

STEP = 1.01
"""Pillow rounds to bytes behind rows and behind columns."""
ROUNDED = 20 * 2.0**-24 * 2 * 510
"""At most 20 roundings of sums of at most 510 (a colour's luma and chroma), here and in the reference."""


def model(*shape, dtype=TensorProto.FLOAT, second=False):
    """Return a model that gives its input back, negated twice."""
    infos = [helper.make_tensor_value_info(n, dtype, shape) for n in ("x", "y")]
    nodes = [helper.make_node("Neg", ["x"], ["t"]), helper.make_node("Neg", ["t"], ["y"])]
    more = [helper.make_tensor_value_info("z", dtype, shape)] * second
    graph = helper.make_graph(nodes, "g", [infos[0], *more], [infos[1]])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def image(rng):
    return rng.integers(0, 256, (48, 64, 3), np.uint8)


def resized(image, rows, columns):
    found = np.asarray(Image.fromarray(image).resize((columns, rows), Image.Resampling.BILINEAR), np.float32)
    return found.transpose(2, 0, 1)[None]


@pytest.mark.opencl
def test_an_image_of_any_size_is_an_input(image, device):
    found = clgraph.compile(model(1, 3, 20, 30), device, preprocess=Preprocess())
    assert str(found.inputs[0]) == "x u8 [x.rows, x.columns, 3]"
    for part in (image, image[:40, :33], image[:17]):
        assert np.abs(found.run(part)["y"] - resized(part, 20, 30)).max() <= STEP
        assert "bound in" in found.program.notes["family"]
    assert [node.primitive.kind for node in found.program if "preprocess" in node.name][-1] == "image_planes"


@pytest.mark.opencl
@pytest.mark.parametrize("fit", ["stretch", "letterbox", "crop"])
@pytest.mark.parametrize("rule", ["pillow", "opencv"])
@pytest.mark.parametrize("image", ["RGB", "NV12"])
def test_members_of_a_family_are_what_the_reference_makes(image, rule, fit, device, rng):
    done = Preprocess(image, size=(20, 30), fit=fit, rule=rule, padding=7)
    found = clgraph.compile(model(1, 3, "h", "w"), device, preprocess=done)
    for sides in ((48, 64), (90, 20), (20, 30), (9, 12), (33, 202), (300, 20)):
        given = rng.integers(0, 256, sides if image == "NV12" else (*sides, 3), np.uint8)
        if sides[0] % 3 and image == "NV12":
            continue
        wanted = done.reference(given)[0]
        # Sums over at most 2 * 300 / 20 taps an axis, of bytes and 7 less.
        np.testing.assert_allclose(found.run(given)["y"], wanted, rtol=0, atol=2 * 2 * 32 * 2.0**-24 * 262)
        assert "compiled whole" not in found.program.notes["family"]


@pytest.mark.opencl
def test_a_size_may_be_fed_with_every_image(image, device):
    found = clgraph.compile(model("n", 3, "h", "w"), device, preprocess=Preprocess(size="fed"))
    assert [s.name for s in found.inputs] == ["x", "x.size"]
    for size in ((20, 30), (64, 96), (65, 40)):
        got = found.run({"x": image, "x.size": np.array(size)})["y"]
        assert np.abs(got - resized(image, *size)).max() <= STEP
        assert "x.size = [x.size[0], x.size[1]]" in found.program.notes["family"]
    with pytest.raises(ShapeError, match=r"\[0, 5\] that is fed must be rows and columns"):
        found.run({"x": image, "x.size": np.array([0, 5])})
    assert found.run({"x": image, "x.size": np.array([4, 5])})["y"].shape == (1, 3, 4, 5)


@pytest.mark.opencl
def test_images_of_floats_and_of_other_shapes_are_refused_and_the_model_can_be_used(image, device):
    found = clgraph.compile(model(1, 3, 20, 30), device, preprocess=Preprocess())
    for wrong in (image.astype(np.float32), image[:, :, :2], image[None], image[:0]):
        with pytest.raises((InputError, ShapeError), match="x"):
            found.run(wrong)
    assert found.run(image)["y"].shape == (1, 3, 20, 30)


@pytest.mark.opencl
def test_shapes_are_those_of_the_image(image, device):
    found = clgraph.compile(model(1, 3, "h", "w"), device, {"x": (48, 64, 3)}, preprocess=Preprocess(mean=1))
    assert found.is_static
    np.testing.assert_array_equal(found.run(image)["y"], image.transpose(2, 0, 1)[None] - np.float32(1))


@pytest.mark.opencl
def test_batches_and_planes_of_frames_are_inputs(device, rng):
    batches = clgraph.compile(model("n", 3, 8, 8), device, preprocess=Preprocess("GRAY", batch=True))
    assert batches.run(rng.integers(0, 256, (3, 9, 9), np.uint8))["y"].shape == (3, 3, 8, 8)
    frames = clgraph.compile(model(1, 3, 8, 8), device, preprocess={"x": Preprocess("NV12_PLANES")})
    luma, chroma = rng.integers(0, 256, (12, 16), np.uint8), rng.integers(0, 256, (6, 8, 2), np.uint8)
    wanted = Preprocess("NV12_PLANES", size=(8, 8)).reference(luma, chroma)[0]
    np.testing.assert_allclose(frames.run({"x": luma, "x.chroma": chroma})["y"], wanted, rtol=0, atol=ROUNDED)
    with pytest.raises(ShapeError, match="rows / 2"):
        frames.run({"x": luma, "x.chroma": chroma[:5]})


@pytest.mark.opencl
def test_a_saved_model_takes_images(image, device, tmp_path):
    made = clgraph.compile(model(1, 3, "h", "w"), device, preprocess=Preprocess(size=(20, 30), mean=[1, 2, 3]))
    wanted = made.run(image)["y"]
    made.save(tmp_path / "m.clg")
    found = clgraph.load(tmp_path / "m.clg", device)
    np.testing.assert_array_equal(found.run(image)["y"], wanted)
    other = image[:31]
    np.testing.assert_array_equal(found.run(other)["y"], made.run(other)["y"])


@pytest.mark.opencl
def test_a_saved_model_of_floats_is_compiled_for_images(image, device, tmp_path):
    clgraph.compile(model(1, 3, "h", "w"), device).save(tmp_path / "m.clg")
    found = clgraph.compile(tmp_path / "m.clg", device, preprocess=Preprocess(size=(20, 30)))
    assert np.abs(found.run(image)["y"] - resized(image, 20, 30)).max() <= STEP


@pytest.mark.opencl
def test_the_model_cache_keeps_models_by_what_is_done_to_images(image, device, tmp_path, monkeypatch):
    monkeypatch.setattr(cache_files, "SETTLED_SECONDS", 0.03)
    monkeypatch.setattr(keeper.Later, "start", keeper.Later.finish)
    monkeypatch.setattr(model_cache, "third_party", frozenset)
    path = tmp_path / "m.onnx"
    path.write_bytes(model(1, 3, "h", "w").SerializeToString())
    time.sleep(0.06)

    def compiled(**options):
        return clgraph.compile(
            path,
            device,
            cache_dir=tmp_path / "cache",
            config={"model_cache": 64},
            preprocess=Preprocess(size=(20, 30), **options),
        )

    first = compiled().run(image)["y"]
    again, other = compiled(), compiled(mean=1)
    np.testing.assert_array_equal(again.run(image)["y"], first)
    assert any("model cache" in note for note in map(str, again.notes))
    assert not any("model cache" in note for note in map(str, other.notes))
    np.testing.assert_allclose(other.run(image)["y"], first - 1, rtol=0, atol=2.0**-14)
    # A shape of no family that is kept: the layers are read again, with those of the image in front.
    assert again.run(image[:1, :1])["y"].shape == (1, 3, 20, 30)


@pytest.mark.opencl
def test_streams_take_images(image, device):
    found = clgraph.compile(model(1, 3, 8, 8), device, hint="throughput", streams=2, preprocess=Preprocess())
    with found:
        assert found.run(image)["y"].shape == (1, 3, 8, 8)


def test_what_models_are_written_in_is_kept():
    t = Topology()
    t.input("x", (1, 3, "h", "w"))
    t.input("x/preprocess", None)
    t.add("y", Activation("neg"), "x")
    t.output("y")
    t.output("same", "x")
    found = clgraph.compile(t, "host", preprocess={"x": Preprocess()})
    one = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    got = found.run({"x": one, "x/preprocess": np.zeros(1, np.float32)})
    np.testing.assert_array_equal(got["same"], one.transpose(2, 0, 1)[None].astype(np.float32))
    np.testing.assert_array_equal(got["y"], -got["same"])


def _refused(preprocess, *shape, **options):
    with pytest.raises(OptionError) as refusal:
        clgraph.compile(model(*shape, **options), "host", preprocess=preprocess)
    return str(refusal.value)


def test_inputs_that_are_none_of_images_are_refused():
    assert "no input is called 'q'; the inputs are 'x'" in _refused({"q": Preprocess()}, 1, 3, 8, 8)
    assert "the inputs are 'x', 'z': say which" in _refused(Preprocess(), 1, 3, 8, 8, second=True)
    assert "not 'RGB'" in _refused("RGB", 1, 3, 8, 8)
    assert "not {'x': 'RGB'}" in _refused({"x": "RGB"}, 1, 3, 8, 8)
    assert "has 2 axes, not those of layout='NCHW'" in _refused(Preprocess(), 1, 3)
    assert "has 8 channels in layout='NCHW', RGB has 3" in _refused(Preprocess(), 1, 8, 8, 3)
    assert "takes batches of 4: give batch=True" in _refused(Preprocess(), 4, 3, 8, 8)
    assert "has 8 rows and 8 columns, not size=(9, 8)" in _refused(Preprocess(size=(9, 8)), 1, 3, 8, 8)
    assert "has 8 rows and 8 columns, not size='fed'" in _refused(Preprocess(size="fed"), 1, 3, 8, 8)
    assert "does not have size=(9, 8)" in _refused(Preprocess(size=(9, 8)), 1, 3, 8, "w")
    assert "has one open side: give the size" in _refused(Preprocess(), 1, 3, 8, "w")
    t = Topology()
    t.input("x", (1, 3, 8, 8), np.bool_)
    t.output("x")
    with pytest.raises(OptionError, match="no numbers that images become"):
        clgraph.compile(t, "host", preprocess=Preprocess())
    t = Topology()
    t.input("x", (1, 3, "h", "w"))
    t.input("x.size", None)
    t.output("x")
    with pytest.raises(OptionError, match=r"a value called 'x\.size', the name of an input"):
        clgraph.compile(t, "host", preprocess={"x": Preprocess(size="fed")})


@pytest.mark.opencl
def test_requests_of_batches_of_images_are_joined_and_those_of_lone_ones_are_not(device, rng):
    images = rng.integers(0, 256, (6, 9, 9), np.uint8)
    options = {"hint": "throughput", "streams": 1, "batching": clgraph.Batching(maximum=4, wait_ms=200)}
    with clgraph.compile(model("n", 3, 8, 8), device, preprocess=Preprocess("GRAY", batch=True), **options) as found:
        results = [found.submit(x=image[None]) for image in images]
        for image, result in zip(images, results, strict=True):
            wanted = Preprocess("GRAY", size=(8, 8)).reference(image)[0]
            np.testing.assert_allclose(result.result()["y"], wanted, rtol=0, atol=ROUNDED)
        assert max(found.throughput.batches) > 1
    with clgraph.compile(model("n", 3, 8, 8), device, preprocess=Preprocess("GRAY"), **options) as found:
        results = [found.submit(x=image) for image in images]
        assert [result.result()["y"].shape for result in results] == [(1, 3, 8, 8)] * 6


def test_estimates_take_images_and_no_rows_for_a_batch():
    found = clgraph.estimate(model(1, 3, 8, 8), "null:avx2", {"x": (40, 60, 3)}, preprocess=Preprocess())
    assert (found.inputs, found.batch, found.largest_batch) == (7200, 0, None)
    assert "one by one" in found.why
    batch = Preprocess(batch=True)
    found = clgraph.estimate(
        model("n", 3, 8, 8), "null:avx2", {"x": (2, 40, 60, 3)}, preprocess=batch, memory_limit="1 MiB"
    )
    assert found.batch == 2
    assert found.largest_batch > 2
