"""Sessions whose run raises: they are as they were, and go on from there."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import clgraph
from clgraph.errors import InputError
from clgraph.model.state import session as module
from tests.support.decoder_weights import Decoder
from tests.support.hybrid import hybrid_model
from tests.support.moments import interrupted, moments_of

pytestmark = pytest.mark.opencl


def summing() -> onnx.ModelProto:
    """Return y = state + the sum of x, which is fed back."""
    info = helper.make_tensor_value_info
    ins = [info("x", TensorProto.FLOAT, ["batch", "n"]), info("state", TensorProto.FLOAT, ["batch"])]
    nodes = [
        helper.make_node("ReduceSum", ["x", "last"], ["sum"], keepdims=0),
        helper.make_node("Add", ["state", "sum"], ["new_state"]),
        helper.make_node("Identity", ["new_state"], ["y"]),
    ]
    outs = [info(name, TensorProto.FLOAT, ["batch"]) for name in ("y", "new_state")]
    graph = helper.make_graph(nodes, "summing", ins, outs, [onnx.numpy_helper.from_array(np.array([-1]), "last")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_what_is_carried_outlives_a_run_that_fails():
    session = clgraph.compile(summing()).session()
    ones = np.ones((2, 3), np.float32)
    with pytest.raises(InputError):
        session.run(x=np.ones((3, 3), np.float32), outputs=["no such"])
    np.testing.assert_array_equal(session.run(x=ones)["y"], [3, 3])
    with pytest.raises(InputError):
        session.run(x=ones, state=np.full(2, 7, np.float32), outputs=["no such"])
    other = session.fork()
    np.testing.assert_array_equal(session.run(x=ones)["y"], [6, 6])
    np.testing.assert_array_equal(other.run(x=ones, state=np.full(2, 1, np.float32))["y"], [4, 4])
    np.testing.assert_array_equal(session.run(x=ones)["y"], [9, 9])
    session.reset()
    np.testing.assert_array_equal(session.run(x=ones)["y"], [3, 3])


def test_an_interrupted_run_has_read_its_token_for_caches_and_carried_values_or_for_none():
    model = clgraph.compile(hybrid_model(Decoder(layers=1)))

    def logits(session, token):
        places = np.full((3, 1, 1), session.length)
        return session.run({"input_ids": np.array([[token]]), "position_ids": places}, outputs=["logits"])["logits"]

    begun, ahead = model.session(), model.session()
    logits(begun, 5)
    wanted = [logits(ahead, token).copy() for token in (5, 9, 7)]
    watched = begun.fork()
    moments = moments_of(lambda: logits(watched, 9), within=module.__file__)
    for moment in moments:
        session = begun.fork()
        with interrupted(moment, KeyboardInterrupt()) as told:
            logits(session, 9)
        assert told.happened
        for at in range(session.length, 3):
            np.testing.assert_array_equal(logits(session, (5, 9, 7)[at]), wanted[at], str(moment))
