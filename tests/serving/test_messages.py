from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tritonclient.grpc", reason="the test extra's tritonclient is not installed")

from tritonclient.grpc import service_pb2

from clgraph.errors import InputError, UnsupportedError
from clgraph.serving.calls import Answer
from clgraph.serving.grpc_calls import read_call, write_answer
from clgraph.serving.messages import MESSAGES
from clgraph.serving.tensors import BYTES, TYPES, to_list, to_raw


def _fields(descriptor: Any) -> dict[str, Any]:
    """Return what goes over the wire: fields with their numbers and types."""
    found = {}
    for field in descriptor.fields:
        inner = field.message_type
        choice = None if field.containing_oneof is None else field.containing_oneof.name
        about = (field.number, field.type, field.is_repeated, choice)
        found[field.name] = about if inner is None else (*about, inner.full_name, inner.GetOptions().map_entry)
    return found


def test_messages_are_those_of_tritonclient() -> None:
    for name, ours in MESSAGES.items():
        theirs: Any = service_pb2
        for part in name.split("."):
            theirs = getattr(theirs, part)
        assert ours.DESCRIPTOR.full_name == theirs.DESCRIPTOR.full_name
        assert _fields(ours.DESCRIPTOR) == _fields(theirs.DESCRIPTOR)


def _request(array: Any, kind: str, **contents: Any) -> Any:
    request = MESSAGES["ModelInferRequest"](model_name="m", id="7")
    tensor = request.inputs.add(name="x", datatype=kind, shape=array.shape)
    for field, elements in contents.items():
        getattr(tensor.contents, field).extend(elements)
    return request


def test_tensors_of_every_type_come_as_bytes_and_as_contents() -> None:
    texts = np.array(["a", "größe"], object)
    arrays = {name: np.array([0, 1], dtype.numpy) for name, dtype in TYPES.items()} | {BYTES: texts}
    for kind, array in arrays.items():
        answer = Answer("m", "1", "7", {"x": array})
        request = _request(array, kind)
        request.raw_input_contents.append(to_raw(array))
        found = read_call(request)
        assert (found.model, found.version, found.id, found.seconds) == ("m", "", "7", None)
        assert found.feeds["x"].tolist() == array.tolist()
        raw = write_answer(answer, raw=True)
        assert (raw.outputs[0].datatype, list(raw.outputs[0].shape), raw.raw_output_contents[0]) == (
            kind,
            [2],
            to_raw(array),
        )
        typed = write_answer(answer, raw=False)
        if kind in ("FP16", "BF16"):
            assert typed == raw
            continue
        ((field, elements),) = typed.outputs[0].contents.ListFields()
        back = read_call(_request(array, kind, **{field.name: elements})).feeds["x"]
        assert (back.dtype, to_list(back)) == (array.dtype, to_list(array))


def test_requests_that_mean_nothing_are_refused() -> None:
    x = np.zeros(2, np.float32)
    both = _request(x, "FP32", fp32_contents=[0, 0])
    both.raw_input_contents.append(x.tobytes())
    more = _request(x, "FP32")
    more.raw_input_contents.extend([x.tobytes()] * 2)
    negative = MESSAGES["ModelInferRequest"]()
    negative.inputs.add(name="x", datatype="FP32", shape=[-1])
    twice = _request(x, "FP32", fp32_contents=[0, 0])
    twice.inputs.add(name="x")
    for request, text in (
        (both, "both contents and raw_input_contents"),
        (more, "1 inputs and 2 raw_input_contents"),
        (negative, "holds -1, which is not a size"),
        (twice, "input 'x' is there twice"),
        (_request(x, "FP32"), "2 elements are expected, 0 were given"),
        (_request(x, "FP31"), "the datatype of input 'x' is 'FP31'"),
        (_request(x, "FP32", int_contents=[0, 0]), "must be in fp32_contents, not in int_contents"),
        (_request(x, "FP16", fp32_contents=[0, 0]), "comes in raw_input_contents alone"),
        (_request(x, "INT8", int_contents=[0, 300]), "300, which int8 cannot hold"),
        (_request(x, BYTES, bytes_contents=[b"a", b"\xff"]), "not UTF-8"),
    ):
        with pytest.raises(InputError, match=text):
            read_call(request)
    request = _request(x, "FP32", fp32_contents=[0, 0])
    request.parameters["sequence_id"].int64_param = 3
    with pytest.raises(UnsupportedError, match="are not served"):
        read_call(request)
