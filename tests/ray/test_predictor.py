"""The callable of batch jobs, without a cluster: rows, columns, sizes of batches, refusals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clgraph.errors import ClgraphError, InputError, ModelError, OptionError, ShapeError
from clgraph.graph.topology import Topology
from clgraph.model.model import Model
from clgraph.ops.activation import Activation
from clgraph.ops.reduce import Reduce
from clgraph.ray import Predictor, deployment, map_batches
from clgraph.ray.cluster import shipped
from clgraph.ray.rows import pieces


def relu(*shape: Any) -> Topology:
    topology = Topology()
    topology.output(topology.add("y", Activation("relu"), topology.input("x", shape)))
    return topology


def test_batches_have_few_sizes() -> None:
    assert list(pieces(0, 8, fixed=False)) == []
    assert list(pieces(21, 8, fixed=False)) == [(0, 8, 8), (8, 16, 8), (16, 21, 8)]
    assert [size for n in range(1, 9) for *_, size in pieces(n, 8, fixed=False)] == [1, 2, 4, 4, 8, 8, 8, 8]
    assert list(pieces(7, 6, fixed=False)) == [(0, 6, 6), (6, 7, 1)]
    assert list(pieces(5, 4, fixed=True)) == [(0, 4, 4), (4, 5, 4)]


def test_results_take_the_place_of_inputs_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    run: Callable[..., Any] = Model.run

    def noting(model: Model, feeds: dict[str, Any], **options: Any) -> Any:
        sizes.append(len(feeds["x"]))
        return run(model, feeds, **options)

    monkeypatch.setattr(Model, "run", noting)
    for shape, expected in {("batch", 4): [4, 4, 2], (3, 4): [3, 3, 3, 3]}.items():
        sizes.clear()
        predictor = Predictor(relu(*shape), {"x": "picture"}, {"y": "score"}, 4, device="host")
        pictures = np.random.default_rng(0).standard_normal((10, 4)).astype(np.float32)
        found = predictor({"picture": pictures, "path": np.arange(10)})
        assert found.keys() == {"path", "score"}
        np.testing.assert_array_equal(found["score"], np.maximum(pictures, 0))
        np.testing.assert_array_equal(found["path"], np.arange(10))
        assert sizes == expected


def test_rows_of_different_shapes_are_run_apart_and_keep_their_order() -> None:
    predictor = Predictor(relu("batch", "length"), device="host")
    rows = [np.full(length, sign, np.float32) for length, sign in [(3, 1), (5, -1), (3, -2), (2, 4)]]
    column = np.empty(len(rows), object)
    column[:] = rows
    found = predictor({"x": column})["y"]
    for row, result in zip(rows, found, strict=True):
        np.testing.assert_array_equal(result, np.maximum(row, 0))
    column[:] = rows[:1] * 4
    assert predictor({"x": column})["y"].shape == (4, 3)


def test_what_does_not_fit_is_refused_by_name(tmp_path: Path) -> None:
    mean = Topology()
    mean.output(mean.add("y", Reduce("mean", (0,), keepdims=False), mean.input("x", ("batch", 5))))
    two = relu(2, 4)
    two.output(two.add("z", Activation("relu"), two.input("w", (3, 4))))
    x = np.ones((3, 4), np.float32)
    predictor = Predictor(relu("batch", 4), device="host")
    refused: list[tuple[type[ClgraphError], str, Callable[[], Any]]] = [
        (OptionError, "batch_size=0", lambda: Predictor(relu("batch", 4), batch_size=0)),
        (OptionError, "no 'q', but 'x'", lambda: Predictor(relu("batch", 4), {"q": "x"}, device="host")),
        (OptionError, "no 'q', but 'y'", lambda: Predictor(relu("batch", 4), results={"q": "x"}, device="host")),
        (OptionError, "different batches", lambda: Predictor(two, device="host")),
        (OptionError, "no batch dimension", lambda: Predictor(relu(), device="host")),
        (InputError, "no column 'x', but 'a'", lambda: predictor({"a": x})),
        (InputError, "column 'y' already", lambda: predictor({"x": x, "y": x})),
        (ShapeError, "not a row for each", lambda: Predictor(mean, device="host")({"x": np.ones((3, 5), np.float32)})),
        (ModelError, "cannot be read", lambda: shipped(tmp_path / "none.onnx", ship=True)),
        (OptionError, "leave ship=False out", lambda: shipped(b"", ship=False)),
        (OptionError, "num_cpus=0", lambda: map_batches(None, b"", num_cpus=0)),
        (OptionError, "actors=", lambda: map_batches(None, b"", actors=(2, 1))),
        (OptionError, "replicas=", lambda: deployment(b"", replicas=(2, 1))),
        (OptionError, "autoscaling needs", lambda: deployment(b"", autoscaling={"target_ongoing_requests": 2})),
    ]
    for kind, said, act in refused:
        with pytest.raises(kind, match=said):
            act()
