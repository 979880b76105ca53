"""Providers: every form in which programs name them, and what they become."""

from __future__ import annotations

import pytest

import clgraph.onnxruntime as ours
from clgraph.onnxruntime import providers as providers_module
from clgraph.onnxruntime import statuses
from tests.support.ort_models import identity

HOST = [("ClgraphExecutionProvider", {"device": "host"})]
CPU = ["CPUExecutionProvider"]


def test_providers_are_taken_in_every_form() -> None:
    assert ours.get_available_providers() == ["ClgraphExecutionProvider", "CPUExecutionProvider"]
    for providers, options in (
        (HOST, None),
        ([HOST[0], "CPUExecutionProvider"], None),
        (["ClgraphExecutionProvider"], [{"device": "host"}]),
        ((("ClgraphExecutionProvider", {"device": "host"}),), None),
    ):
        session = ours.InferenceSession(identity(), None, providers, options)
        assert session.get_providers() == ["ClgraphExecutionProvider", "CPUExecutionProvider"]
        assert session.get_provider_options()["ClgraphExecutionProvider"] == {"device": "host"}
        assert session.model.device.name == "host"
    with pytest.warns(UserWarning, match="'CUDAExecutionProvider' is not available"):
        ours.InferenceSession(identity(), providers=["CUDAExecutionProvider", *HOST])
    for providers, options in (("CPUExecutionProvider", None), ([("a",)], None), (CPU, [{}, {}])):
        with pytest.raises(ValueError, match="provider"):
            ours.InferenceSession(identity(), providers=providers, provider_options=options, enable_fallback=0)
        with pytest.warns(UserWarning, match="CPUExecutionProvider is taken"):
            found = providers_module.provided_or_cpu(providers, options)
        assert found == providers_module.provided(CPU)
    with pytest.raises(statuses.InvalidArgument, match="'fast' is not an option"):
        ours.InferenceSession(identity(), providers=[("ClgraphExecutionProvider", {"fast": "1"})])
