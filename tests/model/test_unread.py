"""Programs do not depend on the shapes of inputs that nothing reads; these are checked all the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import clgraph
from clgraph.errors import InputError
from clgraph.frontend.onnx_loader import load_onnx
from clgraph.model.unread import UnreadInputs
from tests.support.graphs import FLOAT, INT
from tests.support.open_models import open_model


def masked() -> onnx.ModelProto:
    """``y = relu(x)``; a mask is read by a layer that no output needs."""
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Not", ["no"], ["unused"])]
    nodes.insert(0, helper.make_node("Cast", ["mask"], ["no"], to=onnx.TensorProto.BOOL))
    return open_model(nodes, {"x": (FLOAT, ("batch", 6)), "mask": (INT, ("batch", "total", 2))})


def feeds(total: int, batch: int = 1) -> dict[str, np.ndarray]:
    x = np.random.default_rng(total).standard_normal((batch, 6)).astype(np.float32)
    return {"x": x, "mask": np.ones((batch, total, 2), np.int64)}


@pytest.mark.opencl
def test_one_program_runs_all_sizes_that_nothing_reads(device: str) -> None:
    model = clgraph.compile(masked(), device=device)
    for total in (3, 4, 5, 4):
        given = feeds(total)
        np.testing.assert_array_equal(model.run(given)["y"], np.maximum(given["x"], 0))
        tensors = {name: clgraph.Tensor(array, device="host") for name, array in given.items()}
        np.testing.assert_array_equal(model.run(tensors)["y"], np.maximum(given["x"], 0))
    model.profile(feeds(6))
    assert model.is_compiled_for(feeds(7))
    assert len(model.compiled) == 1
    model.run(feeds(3, batch=2))
    assert len(model.compiled) == 2


@pytest.mark.opencl
def test_runs_of_other_sizes_are_as_quick(device: str) -> None:
    model = clgraph.compile(masked(), device=device)
    model.run(feeds(3))
    for total in (4, 5):
        given = feeds(total)
        found = model.run_quickly(given)
        assert found is not None
        np.testing.assert_array_equal(found["y"], np.maximum(given["x"], 0))
    again = model.run_again(feeds(6))
    assert again is not None
    assert list(again) == ["y"]


@pytest.mark.parametrize(
    ("mask", "says"),
    [
        (np.ones((1, 4), np.int64), "does not fit"),
        (np.ones((1, 4, 3), np.int64), "does not fit"),
        (np.ones((1, 4, 2), np.float64), "requires int64"),
    ],
    ids=["rank", "size", "type"],
)
def test_what_does_not_fit_is_refused(mask: np.ndarray, says: str) -> None:
    model = clgraph.compile(masked(), device="host")
    for _ in range(2):
        with pytest.raises(InputError, match="'mask'"):
            model.run({**feeds(4), "mask": mask})
        model.run(feeds(4))
    with pytest.raises(InputError, match=says):
        model.run({**feeds(4), "mask": mask})


def test_a_saved_model_has_the_program_of_all_sizes(tmp_path: Path) -> None:
    model = clgraph.compile(masked(), device="host")
    model.run(feeds(3))
    model.save(tmp_path / "saved.clg")
    loaded = clgraph.load(tmp_path / "saved.clg", device="host")
    loaded.run(feeds(7))
    assert "layers" not in loaded.topology.__dict__
    assert len(loaded.compiled) == 1
    assert any(note.startswith("as saved") for note in loaded.notes)


def test_sizes_are_those_of_inputs_that_are_read() -> None:
    unread = UnreadInputs(load_onnx(masked()))
    assert unread.shapes(((5, 6), (5, 9, 2))) == ((5, 6), (5, 1, 2))
    assert unread.replaced(feeds(9, batch=5))["mask"].shape == (5, 1, 2)


def test_an_input_that_is_an_output_is_read() -> None:
    source = masked()
    source.graph.output.append(helper.make_tensor_value_info("mask", INT, None))
    unread = UnreadInputs(load_onnx(source))
    assert unread.shapes(((5, 6), (5, 9, 2))) == ((5, 6), (5, 9, 2))
