"""What ends early: a client's call by gRPC, and a server that loads a model."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc", reason="the extra 'serve' is not installed")
pytest.importorskip("uvicorn", reason="the extra 'serve' is not installed")

from clgraph.runtime import child
from clgraph.serving.grpc_service import GrpcService
from clgraph.serving.messages import MESSAGES
from clgraph.serving.options import ServerOptions
from clgraph.serving.repository import Repository
from clgraph.serving.server import Server
from clgraph.serving.service import Service
from tests.serving.conftest import Fakes


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
