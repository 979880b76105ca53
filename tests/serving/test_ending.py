"""What ends early: a client's call by gRPC, and a server that loads a model."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("grpc", reason="the extra 'serve' is not installed")
pytest.importorskip("uvicorn", reason="the extra 'serve' is not installed")

import grpc

from clgraph.errors import NotReadyError
from clgraph.runtime import child
from clgraph.serving.calls import Call
from clgraph.serving.grpc_service import GrpcService
from clgraph.serving.messages import MESSAGES, PACKAGE
from clgraph.serving.options import ServerOptions
from clgraph.serving.repository import Repository
from clgraph.serving.server import Server
from clgraph.serving.service import Service
from tests.serving.conftest import Fakes
from tests.support.waiting import until


def test_a_call_by_grpc_whose_client_goes_is_counted_as_one_by_http_is(
    tmp_path: Path, repository: Repository, fakes: Fakes
) -> None:
    (tmp_path / "a.onnx").write_text("model")
    repository.refresh(settled=False)
    service = Service(ServerOptions(folder=tmp_path), repository)

    async def goes() -> None:
        calls = GrpcService(service)
        request = MESSAGES["ModelInferRequest"](model_name="a")
        call = asyncio.ensure_future(calls._told("ModelInfer", lambda _: asyncio.sleep(60), request))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(goes())
    counted = 'clgraph_requests_total{model="a",protocol="grpc",status="499",version=""} 1.0'
    assert counted in service.metrics.text().decode()


def test_a_server_gives_up_kernels_that_are_still_being_compiled_when_the_grace_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled, given_up = threading.Event(), list[bool]()

    def end_all() -> None:
        given_up.append(True)
        if len(given_up) == 2:  # another library came behind the first
            compiled.set()

    async def serve() -> None:
        server = Server(ServerOptions(folder=tmp_path, http_port=0, grpc_port=None, grace=0.05))
        compiles: Any = lambda **_: compiled.wait(20)  # noqa: E731
        monkeypatch.setattr(server.repository, "refresh", compiles)
        monkeypatch.setattr(server.repository, "close", compiles)
        await server.serve(server.stop)

    monkeypatch.setattr(child, "end_all", end_all)
    asyncio.run(asyncio.wait_for(serve(), 15))
    assert given_up == [True, True]


ENDING = "the server is shutting down and takes no more calls"


def _method(channel: Any, kind: str, name: str, answer: str) -> Any:
    return getattr(channel, kind)(
        f"/{PACKAGE}.GRPCInferenceService/{name}",
        request_serializer=lambda x: x if isinstance(x, bytes) else x.SerializeToString(),
        response_deserializer=MESSAGES[f"{answer}Response"].FromString,
    )


async def _refusal(answer: Any) -> tuple[Any, str]:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await answer
    return raised.value.code(), raised.value.details()


def test_messages_that_have_not_come_when_a_server_ends_are_told_so(tmp_path: Path) -> None:
    async def never() -> AsyncIterator[Any]:
        await asyncio.sleep(60)
        yield

    async def ends() -> None:
        server, up = Server(ServerOptions(folder=tmp_path, http_port=None, grpc_port=0)), asyncio.Event()
        serving = asyncio.create_task(server.serve(up.set))
        await up.wait()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
            infer = _method(channel, "unary_unary", "ModelInfer", "ModelInfer")
            status, text = await _refusal(infer(b"\xff"))
            assert (status, "cannot be read" in text) == (grpc.StatusCode.INVALID_ARGUMENT, True)
            uploads = _method(channel, "stream_unary", "ModelInfer", "ModelInfer")(never())
            stream = _method(channel, "stream_stream", "ModelStreamInfer", "ModelStreamInfer")(never())
            told = [asyncio.ensure_future(_refusal(uploads)), asyncio.ensure_future(_refusal(stream.read()))]
            # The calls are open when one that comes later is answered.
            await _method(channel, "unary_unary", "ServerLive", "ServerLive")(MESSAGES["ServerLiveRequest"]())
            server.stop()
            assert await asyncio.gather(*told) == [(grpc.StatusCode.UNAVAILABLE, ENDING)] * 2
        await serving

    asyncio.run(asyncio.wait_for(ends(), 30))


def test_a_call_that_is_not_over_when_the_grace_is_is_told_so(
    tmp_path: Path, repository: Repository, fakes: Fakes
) -> None:
    (tmp_path / "a.onnx").write_text("model")
    repository.refresh(settled=False)
    fakes.made[-1].gate = threading.Event()
    service = Service(ServerOptions(folder=tmp_path, grace=0.01), repository)

    async def ends() -> None:
        call = Call("a", "", "", {"x": np.zeros((1, 2), np.float32)}, ())
        running = asyncio.ensure_future(service.infer(call))
        await asyncio.sleep(0)
        await service.drain()
        with pytest.raises(NotReadyError, match="has shut down before the call was over"):
            await running

    asyncio.run(ends())
    until(lambda: fakes.made[-1].cancelled)
