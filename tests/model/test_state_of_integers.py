"""Caches of integers of 8 and 4 bits as state."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import clgraph
from tests.support.decoder_weights import Decoder
from tests.support.decoders import decoder_feeds, decoder_model, onnxruntime_run

pytestmark = pytest.mark.opencl


def with_integers(made, d, bits):
    """Have the caches of *made* hold integers of 8 or 4 bits, of which a byte holds two, under names as sizes."""
    dtype = TensorProto.INT8 if bits == 8 else TensorProto.UINT8
    scale = np.array([4 / 2**bits], np.float32)
    made.graph.initializer.append(onnx.numpy_helper.from_array(scale, "scale"))
    for node in made.graph.node:
        if node.op_type == "GroupQueryAttention":
            node.input.extend([*[""] * (12 - len(node.input)), "scale", "scale"])
            kinds = {f"{part}_quant_type": "PER_TENSOR" for part in "kv"} | {"kv_cache_bit_width": bits}
            node.attribute.extend(helper.make_attribute(name, value) for name, value in kinds.items())
    for end in (*made.graph.input, *made.graph.output):
        if end.name.endswith(("key", "value")):
            end.type.tensor_type.elem_type = dtype
            end.type.tensor_type.shape.dim[3].dim_param = "bytes"
    return [np.zeros((1, d.shared, 0, d.head_size * bits // 8), np.int8 if bits == 8 else np.uint8)] * 2 * d.layers


@pytest.mark.parametrize("bits", [8, 4])
def test_caches_of_integers_stay_as_they_are(bits):
    d, prompt = Decoder("genai", 1), np.arange(1, 20)[None]
    made = decoder_model(d)
    empty = with_integers(made, d, bits)
    run, model = onnxruntime_run(made), clgraph.compile(made)
    session, caches, mine, ids = model.session(), empty, empty, prompt
    for _ in range(6):
        want, *caches = run(decoder_feeds(d, ids, caches))
        got, *mine = model.run(decoder_feeds(d, ids, mine)).values()
        np.testing.assert_array_equal(session.run(input_ids=ids)["logits"], got)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
        for one, other in zip(mine, caches, strict=True):
            np.testing.assert_array_equal(one, other)
        ids = want[:, -1:].argmax(-1)
    caches = session._caches
    assert caches.nbytes == caches.places * 2 * d.shared * d.head_size * bits // 8
