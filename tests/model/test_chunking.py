"""Prompts come in chunks of a few sizes."""

from __future__ import annotations

import numpy as np
import pytest

import clgraph
from clgraph.model.state.chunking import rows_for
from tests.support.decoder_weights import Decoder
from tests.support.decoders import decoder_model


@pytest.mark.parametrize(
    ("left", "rows"), [(1, 1), (2, 16), (16, 16), (17, 32), (32, 32), (33, 32), (80, 32), (81, 128), (300, 128)]
)
def test_the_rest_of_a_prompt_has_the_smallest_program_that_holds_it(left: int, rows: int) -> None:
    assert rows_for(left) == rows


@pytest.mark.opencl
def test_a_prompt_of_several_sizes_of_chunks_is_one_text() -> None:
    d = Decoder("onnx23", 2)
    model, ids = clgraph.compile(decoder_model(d)), np.random.default_rng(2).integers(0, 300, (1, 45))
    feeds = {"input_ids": ids, "position_ids": np.arange(45)[None]}
    got = model.session().run(feeds)["logits"]
    assert {rows for (_, rows), *_ in model._model_state.programs._made} == {16, 32}
    one_by_one = model.session()
    for i in range(45):
        feeds = {"input_ids": ids[:, i : i + 1], "position_ids": np.array([[i]])}
        np.testing.assert_allclose(one_by_one.run(feeds)["logits"][:, 0], got[:, i], rtol=1e-4, atol=1e-5)
