"""Messages of the Open Inference Protocol in gRPC, as clients of KServe and Triton have them.

They are described here, and live in a pool of their own: a process may import the messages of ``tritonclient`` or
``kserve``, which have the same names, beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "inference"

_PARAMETERS = "map InferParameter"
_CHOICES = ("bool_param 1 bool", "int64_param 2 int64", "string_param 3 string")
_TENSOR = ("name 1 string", "datatype 2 string", "shape 3 repeated int64")

_MESSAGES: Mapping[str, tuple[str, ...]] = {
    "ServerLiveRequest": (),
    "ServerLiveResponse": ("live 1 bool",),
    "ServerReadyRequest": (),
    "ServerReadyResponse": ("ready 1 bool",),
    "ModelReadyRequest": ("name 1 string", "version 2 string"),
    "ModelReadyResponse": ("ready 1 bool",),
    "ServerMetadataRequest": (),
    "ServerMetadataResponse": ("name 1 string", "version 2 string", "extensions 3 repeated string"),
    "ModelMetadataRequest": ("name 1 string", "version 2 string"),
    "ModelMetadataResponse.TensorMetadata": _TENSOR,
    "ModelMetadataResponse": (
        *("name 1 string", "versions 2 repeated string", "platform 3 string"),
        "inputs 4 repeated ModelMetadataResponse.TensorMetadata",
        "outputs 5 repeated ModelMetadataResponse.TensorMetadata",
    ),
    "InferParameter": (*_CHOICES, "double_param 4 double", "uint64_param 5 uint64"),
    "InferTensorContents": (
        *("bool_contents 1 repeated bool", "int_contents 2 repeated int32", "int64_contents 3 repeated int64"),
        *("uint_contents 4 repeated uint32", "uint64_contents 5 repeated uint64"),
        *("fp32_contents 6 repeated float", "fp64_contents 7 repeated double", "bytes_contents 8 repeated bytes"),
    ),
    "ModelInferRequest.InferInputTensor": (*_TENSOR, f"parameters 4 {_PARAMETERS}", "contents 5 InferTensorContents"),
    "ModelInferRequest.InferRequestedOutputTensor": ("name 1 string", f"parameters 2 {_PARAMETERS}"),
    "ModelInferRequest": (
        *("model_name 1 string", "model_version 2 string", "id 3 string", f"parameters 4 {_PARAMETERS}"),
        "inputs 5 repeated ModelInferRequest.InferInputTensor",
        "outputs 6 repeated ModelInferRequest.InferRequestedOutputTensor",
        "raw_input_contents 7 repeated bytes",
    ),
    "ModelInferResponse.InferOutputTensor": (*_TENSOR, f"parameters 4 {_PARAMETERS}", "contents 5 InferTensorContents"),
    "ModelInferResponse": (
        *("model_name 1 string", "model_version 2 string", "id 3 string", f"parameters 4 {_PARAMETERS}"),
        "outputs 5 repeated ModelInferResponse.InferOutputTensor",
        "raw_output_contents 6 repeated bytes",
    ),
    "ModelStreamInferResponse": ("error_message 1 string", "infer_response 2 ModelInferResponse"),
    "ModelRepositoryParameter": (*_CHOICES, "bytes_param 4 bytes"),
    "RepositoryIndexRequest": ("repository_name 1 string", "ready 2 bool"),
    "RepositoryIndexResponse.ModelIndex": (
        *("name 1 string", "version 2 string", "state 3 string", "reason 4 string"),
    ),
    "RepositoryIndexResponse": ("models 1 repeated RepositoryIndexResponse.ModelIndex",),
    **{
        f"RepositoryModel{verb}Request": (
            *("repository_name 1 string", "model_name 2 string", "parameters 3 map ModelRepositoryParameter"),
        )
        for verb in ("Load", "Unload")
    },
    "RepositoryModelLoadResponse": (),
    "RepositoryModelUnloadResponse": (),
}
"""Fields by message, each ``name number [repeated | map] type``; a map's keys are strings. A name before a dot is that
of the message which the other is declared in."""

ONE_OF = {"InferParameter": "parameter_choice", "ModelRepositoryParameter": "parameter_choice"}
"""Messages of which one field is set, and what that choice is called."""

_Field = descriptor_pb2.FieldDescriptorProto


def _described() -> Any:
    """Return the file of all messages."""
    file = descriptor_pb2.FileDescriptorProto(name="clgraph/open_inference.proto", package=PACKAGE, syntax="proto3")
    made: dict[str, Any] = {}
    outer_first = sorted(_MESSAGES, key=lambda name: name.count("."))
    for name in outer_first:
        outer, _, own = name.rpartition(".")
        made[name] = (made[outer].nested_type if outer else file.message_type).add(name=own)
        if name in ONE_OF:
            made[name].oneof_decl.add(name=ONE_OF[name])
        for text in _MESSAGES[name]:
            _add_field(made[name], name, text.split())
    return file


def _add_field(message: Any, full_name: str, words: list[str]) -> None:
    name, number, *how, kind = words
    field = message.field.add(name=name, number=int(number), label=_Field.LABEL_REPEATED if how else 1)
    if how == ["map"]:
        entry = message.nested_type.add(name="ParametersEntry")
        entry.options.map_entry = True
        _add_field(entry, "", ["key", "1", "string"])
        _add_field(entry, "", ["value", "2", kind])
        kind = f"{full_name}.ParametersEntry"
    if kind[0].isupper():
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{PACKAGE}.{kind}"
    else:
        field.type = _Field.Type.Value(f"TYPE_{kind.upper()}")
    if full_name in ONE_OF:
        field.oneof_index = 0


def _classes() -> dict[str, Any]:
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(_described().SerializeToString())
    find = pool.FindMessageTypeByName
    return {name: message_factory.GetMessageClass(find(f"{PACKAGE}.{name}")) for name in _MESSAGES}


MESSAGES = _classes()
"""The classes of all messages, by name."""
