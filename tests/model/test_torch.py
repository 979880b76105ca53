"""Torch's own tensors in and out; torch is no dependency, and takes gigabytes."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto

import clgraph
from clgraph.errors import InputError
from tests.support.models import image, small_model
from tests.support.ort_models import identity

pytestmark = pytest.mark.slow
torch = pytest.importorskip("torch", reason="torch is no dependency of clgraph")


def test_tensors_are_read_returned_and_written_in_place() -> None:
    model = clgraph.compile(small_model(), device="host")
    x = image((1, 3, 10, 10))
    want = torch.from_numpy(model(x))
    for given in (torch.from_numpy(x), torch.nn.Parameter(torch.from_numpy(x))):
        assert torch.equal(model(given), want)
        place = torch.empty(want.shape)
        assert model.run(given, outputs={"y": place})["y"] is place
        assert torch.equal(place, want)
    assert torch.equal(torch.from_dlpack(model.run(x, tensors=True)["y"]), want)
    for wrong in (torch.from_numpy(x).half(), torch.from_numpy(x).to_sparse(), torch.from_numpy(x).to("meta")):
        with pytest.raises(InputError, match="input 'x'"):
            model(wrong)


def test_bfloat16_goes_in_and_out() -> None:
    model = clgraph.compile(identity(TensorProto.BFLOAT16), device="host")
    given = torch.tensor([[1.5, -2.0, 3e20]], dtype=torch.bfloat16)
    assert torch.equal(model(given), given)
    place = torch.zeros(1, 3, dtype=torch.bfloat16)
    model.run(given, outputs={"y": place})
    assert torch.equal(place, given)
    assert np.asarray(model.run(given)["y"]).dtype.name == "bfloat16"
