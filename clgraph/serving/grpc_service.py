"""The Open Inference Protocol by gRPC: the service's methods, one after the other as its file declares them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from time import monotonic
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from clgraph.errors import ClgraphError, InputError, RunCancelledError, UnsupportedError
from clgraph.graph.faults import faults
from clgraph.serving.grpc_calls import read_call, write_answer
from clgraph.serving.messages import MESSAGES, PACKAGE
from clgraph.serving.service import EXTENSIONS, NAME, PLATFORM, VERSION, Service
from clgraph.serving.statuses import status_of, text_of

SERVICE = f"{PACKAGE}.GRPCInferenceService"
Method = Callable[[Any], Awaitable[Any]]


class GrpcService:
    """The methods. Each takes a message and returns one, or raises what :meth:`_answer` makes a status of."""

    def __init__(self, service: Service) -> None:
        """Take what they ask."""
        self._service = service

    def handler(self) -> Any:
        """Return what a server of gRPC is given."""
        methods: dict[str, Method] = {
            "ServerLive": self._live,
            "ServerReady": self._ready,
            "ModelReady": self._model_ready,
            "ServerMetadata": self._about,
            "ModelMetadata": self._model,
            "ModelInfer": self._infer,
            "RepositoryIndex": self._index,
            "RepositoryModelLoad": self._load,
            "RepositoryModelUnload": self._unload,
        }
        # One message is asked for as a stream is: gRPC calls a method of one message when that is there, which a server
        # that ends does not wait for, and would end the call without a word.
        found = {
            name: grpc.stream_unary_rpc_method_handler(partial(self._answer, name, method), **_codec(name, name))
            for name, method in methods.items()
        }
        stream = _codec("ModelInfer", "ModelStreamInfer")
        found["ModelStreamInfer"] = grpc.stream_stream_rpc_method_handler(self._stream, **stream)
        return grpc.method_handlers_generic_handler(SERVICE, found)

    async def _answer(self, name: str, method: Method, requests: AsyncIterator[Any], context: Any) -> Any:
        try:
            request = await self._next(name, requests)
            if request is None:
                raise InputError(f"{name} was called without a message")
            return await self._told(name, method, request)
        except ClgraphError as error:
            await context.abort(grpc.StatusCode[status_of(error).grpc], text_of(error))

    async def _next(self, name: str, requests: AsyncIterator[Any]) -> Any:
        """Return the next message to a method of that *name*; ``None`` where there is none, else raises."""
        try:
            return await self._service.received(anext(requests, None))
        except DecodeError as error:
            raise InputError(f"the message to {name} cannot be read: {error}") from error

    async def _told(self, name: str, method: Method, request: Any) -> Any:
        """Return what *method* answers, which is logged and counted, or raises."""
        since = monotonic()
        error: ClgraphError | None = None
        version, answer = "", None
        try:
            with faults(f"answering {name}"):
                answer = await method(request)
        except ClgraphError as raised:
            error = raised
            raise
        except asyncio.CancelledError:
            error = RunCancelledError("the client has gone")
            raise
        else:
            return answer
        finally:
            if name == "ModelInfer":
                version = request.model_version if answer is None else answer.model_version
                about = {"model": request.model_name, "version": version, "id": request.id}
            else:
                about = {"model": getattr(request, "name", "") or getattr(request, "model_name", "")}
            if answer is not None or error is not None:
                what = "infer" if name == "ModelInfer" else name
                self._service.told("grpc", what, error, since, **{key: text for key, text in about.items() if text})

    async def _live(self, request: Any) -> Any:
        return MESSAGES["ServerLiveResponse"](live=True)

    async def _ready(self, request: Any) -> Any:
        return MESSAGES["ServerReadyResponse"](ready=self._service.ready)

    async def _model_ready(self, request: Any) -> Any:
        return MESSAGES["ModelReadyResponse"](ready=self._service.is_ready(request.name, request.version))

    async def _about(self, request: Any) -> Any:
        return MESSAGES["ServerMetadataResponse"](name=NAME, version=VERSION, extensions=EXTENSIONS)

    async def _model(self, request: Any) -> Any:
        model = self._service.repository.get(request.name, request.version)
        versions = [str(e.found.version) for e in self._service.repository.entries(request.name) if e.model is not None]
        found = MESSAGES["ModelMetadataResponse"](name=request.name, versions=versions[::-1], platform=PLATFORM)
        for tensors, into in ((model.inputs, found.inputs), (model.outputs, found.outputs)):
            for tensor in tensors:
                into.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
        return found

    async def _infer(self, request: Any) -> Any:
        call = read_call(request)
        typed = any(tensor.HasField("contents") for tensor in request.inputs)
        return write_answer(await self._service.infer(call), raw=not typed)

    async def _stream(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        """Answer the requests of a stream one after the other; an error is an answer, and the stream goes on."""
        while True:
            try:
                request = await self._next("ModelStreamInfer", requests)
            except ClgraphError as error:
                await context.abort(grpc.StatusCode[status_of(error).grpc], text_of(error))
            if request is None:
                return
            try:
                answer = await self._told("ModelInfer", self._infer, request)
                yield MESSAGES["ModelStreamInferResponse"](infer_response=answer)
            except ClgraphError as error:
                yield MESSAGES["ModelStreamInferResponse"](error_message=text_of(error))

    async def _index(self, request: Any) -> Any:
        found = MESSAGES["RepositoryIndexResponse"]()
        for entry in self._service.repository.index(ready=request.ready):
            of = {"name": entry.found.name, "version": str(entry.found.version)}
            found.models.add(**of, state=entry.state, reason=entry.reason)
        return found

    async def _load(self, request: Any) -> Any:
        if request.parameters:
            raise UnsupportedError("a model is loaded as it lies in the server's folder: no parameters are taken")
        await self._service.load(request.model_name)
        return MESSAGES["RepositoryModelLoadResponse"]()

    async def _unload(self, request: Any) -> Any:
        await self._service.unload(request.model_name)
        return MESSAGES["RepositoryModelUnloadResponse"]()


def _codec(asked: str, answered: str) -> dict[str, Any]:
    return {
        "request_deserializer": MESSAGES[f"{asked}Request"].FromString,
        "response_serializer": MESSAGES[f"{answered}Response"].SerializeToString,
    }
