"""Wrong feeds of every kind: one InputError that says what is wrong, and the model is as it was."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import clgraph
from clgraph.errors import InputError
from tests.support.models import image, small_model

ROOT = Path(__file__).resolve().parents[2]
X = image((1, 3, 10, 10))


class Stubborn:
    """An object whose arrays cannot be had."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise self._error


class Elsewhere:
    """An array of another device."""

    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("it lies on another device")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)


class Liar:
    """An object that says it is an array and returns something else."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return "no array"


WRONG: dict[str, Any] = {
    "none": None,
    "text": "pixels",
    "bytes": b"pixels",
    "number": 3.0,
    "object": object(),
    "function": image,
    "a list of numbers that are lost": (X.astype(float) * 1e300).tolist(),
    "a ragged list": [[1.0], [1.0, 2.0]],
    "a dictionary": {"x": X},
    "a set": {1.0},
    "an array of objects": X.astype(object),
    "an array of texts": X.astype(str),
    "doubles": X.astype(np.float64),
    "halves": X.astype(np.float16),
    "integers": X.astype(np.int32),
    "complex": X.astype(np.complex64),
    "bools": X > 0,
    "dates": np.zeros(X.shape, "M8[s]"),
    "records": np.zeros(X.shape, [("a", "f4")]),
    "masked": np.ma.masked_array(X, X > 0),
    "a rank less": X[0],
    "a rank more": X[None],
    "rank 64": np.zeros((1,) * 64, np.float32),
    "a scalar": np.float32(1),
    "another size": X[:, :, :9],
    "nothing": np.zeros((1, 3, 0, 10), np.float32),
    "no image": np.zeros((0, 3, 10, 10), np.float32),
    "transposed": X.T,
    "huge": np.broadcast_to(np.float32(0), (1, 3, 1 << 28, 1 << 28)),
    "raises TypeError": Stubborn(TypeError("no")),
    "raises RuntimeError": Stubborn(RuntimeError("requires grad")),
    "raises ValueError": Stubborn(ValueError("no")),
    "on another device": Elsewhere(),
    "no array after all": Liar(),
    "a tensor of doubles": lambda: clgraph.Tensor(X.astype(np.float64), "host"),
    "a tensor of another size": lambda: clgraph.Tensor(X[:, :, 1:], "host"),
}


@pytest.fixture(scope="module", params=["host", pytest.param("pocl", marks=pytest.mark.opencl)])
def model(request: pytest.FixtureRequest) -> clgraph.Model:
    return clgraph.compile(small_model(), device=request.param)


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_feed_is_one_input_error(model: clgraph.Model, what: str) -> None:
    given = WRONG[what]() if what.startswith("a tensor") else WRONG[what]
    want = model(X)
    calls = [model.run, model.profile, lambda feeds: model.run_async(feeds).result(30)]
    for call in calls:
        with pytest.raises(InputError, match="input 'x'") as caught:
            call({"x": given})
        assert len(str(caught.value)) < 400
        assert "\n" not in str(caught.value)
    np.testing.assert_array_equal(model(X), want)


@pytest.mark.parametrize("feeds", [None, {}, {"y": X}, {1: X}, {"x": X, None: X}], ids=range(5))
def test_wrong_sets_of_feeds_are_one_input_error(model: clgraph.Model, feeds: Any) -> None:
    want = model(X)
    with pytest.raises(InputError, match="the inputs are 'x'"):
        model.run(feeds)
    np.testing.assert_array_equal(model(X), want)


@pytest.mark.parametrize("value", [[X], (X,), "x", 5], ids=range(4))
def test_what_is_no_dictionary_is_the_value_of_the_input(model: clgraph.Model, value: Any) -> None:
    want = model(X)
    with pytest.raises(InputError, match="input 'x'"):
        model.run(value)
    np.testing.assert_array_equal(model(X), want)


RIGHT: dict[str, Any] = {
    "big-endian": X.astype(">f4"),
    "read-only": np.broadcast_to(X, X.shape),
    "Fortran": np.asfortranarray(X),
    "backwards": X[:, :, ::-1].copy()[:, :, ::-1],
    "strided": np.repeat(X, 2, axis=3)[..., ::2],
    "unaligned": np.concatenate([[0], X.view(np.uint8).ravel()]).astype(np.uint8)[1:].view(np.float32).reshape(X.shape),
    "matrix subclass": X.view(type("Sub", (np.ndarray,), {})),
    "a list of doubles": X.astype(float).tolist(),
    "a list": [[[list(map(np.float32, row)) for row in plane] for plane in X[0]]],
}


@pytest.mark.parametrize("what", RIGHT)
def test_any_order_of_memory_gives_the_same_result(model: clgraph.Model, what: str) -> None:
    np.testing.assert_array_equal(model(RIGHT[what]), model(X))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38, 1e-45])
def test_no_number_is_wrong(model: clgraph.Model, value: float) -> None:
    want = model(X)
    odd = X.copy()
    odd[0, :, 3:5, 3:5] = value
    with np.errstate(all="ignore"):
        got = model(odd)
    assert got.shape == want.shape
    assert np.isfinite(got[..., 4:, 4:]).all()
    np.testing.assert_array_equal(model(X), want)


@pytest.mark.parametrize("what", ["doubles", "garbage"])
def test_the_command_line_says_one_line(tmp_path: Path, what: str) -> None:
    onnx.save(small_model(), tmp_path / "m.onnx")
    feed = tmp_path / "x.npy"
    if what == "garbage":
        feed.write_bytes(b"\x93NUMPY garbage")
    else:
        np.save(feed, WRONG[what])
    command = [sys.executable, "-m", "clgraph", "run", "m.onnx", "--device", "host", "--input", "x=x.npy"]
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
