"""The Open Inference Protocol by REST, and Prometheus' metrics: an ASGI application."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from clgraph.errors import ClgraphError, InputError, NotReadyError, RunCancelledError, UnsupportedError
from clgraph.graph.faults import faults
from clgraph.serving.rest_calls import HEADER_LENGTH, read_call, read_json, too_large, unpacked, write_answer
from clgraph.serving.service import EXTENSIONS, NAME, PLATFORM, VERSION, Service
from clgraph.serving.statuses import status_of, text_of

T = TypeVar("T")

JSON, OCTETS = "application/json", "application/octet-stream"
BIG = 1 << 18
"""Bytes from which a body is read, and an answer written, beside the event loop."""
DISCARDED = 16
"""How many times the largest request is read of one that is too large."""


class Rest:
    """The endpoints. Each returns a response, or raises what :func:`answer` makes one of."""

    def __init__(self, service: Service) -> None:
        """Take the service that requests are passed to."""
        self._service = service

    def app(self) -> Starlette:
        """Return the application."""
        model = "/v2/models/{name}"
        routes = [
            ("/v2", "GET", self._about),
            ("/v2/health/live", "GET", self._live),
            ("/v2/health/ready", "GET", self._ready),
            *(
                (path + end, method, endpoint)
                for path in (model, model + "/versions/{version}")
                for end, method, endpoint in (
                    ("", "GET", self._model),
                    ("/ready", "GET", self._model_ready),
                    ("/infer", "POST", self._infer),
                )
            ),
            ("/v2/repository/index", "POST", self._index),
            ("/v2/repository/models/{name}/load", "POST", self._load),
            ("/v2/repository/models/{name}/unload", "POST", self._unload),
            ("/metrics", "GET", self._metrics),
        ]
        found = Starlette(
            routes=[Route(path, partial(self._answer, endpoint), methods=[how]) for path, how, endpoint in routes],
            exception_handlers={HTTPException: _no_endpoint},
        )
        found.router.redirect_slashes = False
        return found

    async def _answer(self, endpoint: Callable[[Request], Awaitable[Response]], request: Request) -> Response:
        """Return what *endpoint* makes, or what tells its error."""
        since, error = monotonic(), None
        what = request.url.path.rsplit("/", 1)[-1] if request.method == "POST" else "look"
        try:
            with faults(f"answering {what!r}"):
                response = await endpoint(request)
        except ClgraphError as raised:
            error, response = raised, _error(raised)
        about = {**request.path_params, **request.state._state}
        about = {"model": about.get("name"), "version": about.get("version"), "id": about.get("id")}
        self._service.told("http", what, error, since, **{key: text for key, text in about.items() if text})
        return response

    async def _about(self, request: Request) -> Response:
        return _json({"name": NAME, "version": VERSION, "extensions": list(EXTENSIONS)})

    async def _live(self, request: Request) -> Response:
        return _json({"live": True})

    async def _ready(self, request: Request) -> Response:
        if not self._service.ready:
            raise NotReadyError("the server loads its models, or ends")
        return _json({"ready": True})

    async def _model(self, request: Request) -> Response:
        name, version = _named(request)
        model = self._service.repository.get(name, version)
        versions = [str(e.found.version) for e in self._service.repository.entries(name) if e.model is not None]
        found: dict[str, Any] = {"name": name, "versions": versions[::-1], "platform": PLATFORM}
        for kind, tensors in (("inputs", model.inputs), ("outputs", model.outputs)):
            found[kind] = [{"name": t.name, "datatype": t.datatype, "shape": list(t.shape)} for t in tensors]
        return _json(found)

    async def _model_ready(self, request: Request) -> Response:
        name, version = _named(request)
        self._service.repository.get(name, version)
        if not self._service.is_ready(name, version):
            raise NotReadyError("the server ends")
        return _json({"name": name, "ready": True})

    async def _infer(self, request: Request) -> Response:
        name, version = _named(request)
        body = await self._body(request)
        header = request.headers.get(HEADER_LENGTH)
        asked = await _beside(len(body), partial(read_call, body, header, name, version))
        request.state.id = asked.call.id
        answer = await _while_connected(request, self._service.infer(asked.call))
        size = sum(array.nbytes for array in answer.outputs.values())
        text, length = await _beside(size, partial(write_answer, asked, answer))
        request.state.version = answer.version
        if length is None:
            return Response(text, media_type=JSON)
        return Response(text, 200, {HEADER_LENGTH: str(length)}, OCTETS)

    async def _index(self, request: Request) -> Response:
        ready = read_json(await self._body(request)).get("ready", False)
        if not isinstance(ready, bool):
            raise InputError(f"'ready' must be true or false, not {ready!r}")
        found = []
        for entry in self._service.repository.index(ready=ready):
            of = {"name": entry.found.name, "version": str(entry.found.version)}
            found.append({**of, "state": entry.state, "reason": entry.reason})
        return _json(found)

    async def _load(self, request: Request) -> Response:
        if read_json(await self._body(request)).get("parameters"):
            raise UnsupportedError("a model is loaded as it lies in the server's folder: no parameters are taken")
        await self._service.load(_named(request)[0])
        return _json({})

    async def _unload(self, request: Request) -> Response:
        read_json(await self._body(request))
        await self._service.unload(_named(request)[0])
        return _json({})

    async def _metrics(self, request: Request) -> Response:
        return Response(self._service.metrics.text(), media_type=self._service.metrics.content_type)

    async def _body(self, request: Request) -> bytes:
        """Return the body, within the limits of size and time.

        Raises:
            TooLargeError: It has more bytes.
            InputError: It was not sent in time.
            RunCancelledError: The client has gone.
        """
        most, seconds, parts, size = self._service.options.max_request, self._service.options.timeout, [], 0
        announced = request.headers.get("content-length", "")
        # Closing a connection with unread bytes resets it, and the answer may be lost (RFC 9112, section 9.6): what is
        # too large is read as well, unless it is far too large, or its client waits for "100 Continue".
        patient = request.headers.get("expect", "").lower() == "100-continue"
        most_read = most if patient else DISCARDED * most
        if announced.isdecimal() and (len(announced) > 18 or int(announced) > most_read):
            raise too_large(most)
        try:
            async with asyncio.timeout(seconds):
                async for part in request.stream():
                    parts.append(part)
                    if (size := size + len(part)) > most:
                        parts.clear()
                    if size > most_read:
                        break
        except TimeoutError as error:
            if size <= most:
                raise InputError(f"the request was not sent within {seconds:g} s") from error
        except ClientDisconnect as error:
            raise RunCancelledError("the client has gone while it sent its request") from error
        if size > most:
            raise too_large(most)
        body, encoding = b"".join(parts), request.headers.get("content-encoding", "").strip().lower()
        return await _beside(size, partial(unpacked, body, encoding, most))


async def _beside(size: int, work: Callable[[], T]) -> T:
    """Return what *work* on *size* bytes makes, in another thread where that would keep the event loop."""
    return work() if size < BIG else await asyncio.to_thread(work)


async def _while_connected(request: Request, work: Awaitable[T]) -> T:
    """Return what *work* makes, which is cancelled when the client goes; raises ``RunCancelledError`` then."""
    running, gone = asyncio.ensure_future(work), asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait((running, gone), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            return running.result()
        raise RunCancelledError("the client has gone")
    finally:
        for task in (running, gone):
            task.cancel()
            with suppress(asyncio.CancelledError, ClgraphError):
                await task


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _no_endpoint(request: Request, error: HTTPException) -> Response:
    text = f"{request.method} {request.url.path} is not served: {error.detail}"
    return Response(json.dumps({"error": text}), error.status_code, error.headers, JSON)


def _named(request: Request) -> tuple[str, str]:
    return request.path_params["name"], request.path_params.get("version", "")


def _json(document: object) -> Response:
    return Response(json.dumps(document), media_type=JSON)


def _error(error: ClgraphError) -> Response:
    status = status_of(error).http
    headers = {"retry-after": "1"} if status == 503 else None
    return Response(json.dumps({"error": text_of(error)}), status, headers, JSON)
