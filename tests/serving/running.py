"""A server in a thread, and clients of Triton for it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import helper

pytest.importorskip("uvicorn", reason="the extra 'serve' is not installed")
pytest.importorskip("tritonclient.http", reason="the test extra's tritonclient is not installed")
pytest.importorskip("tritonclient.grpc", reason="the test extra's tritonclient is not installed")

import tritonclient.grpc
import tritonclient.http

from clgraph.serving.options import ServerOptions
from clgraph.serving.server import Server


def save(path: Path, nodes: list[Any], inputs: list[Any], outputs: list[Any], constants: Any = ()) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)


class Running:
    """A server in a thread."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.options = ServerOptions(folder=folder, http_port=0, grpc_port=0, poll=0, **options)
        self._up, self._thread = threading.Event(), threading.Thread(target=lambda: asyncio.run(self._main()))
        self._thread.start()
        assert self._up.wait(60)
        self.http = tritonclient.http.InferenceServerClient(f"127.0.0.1:{self.server.http_port}")
        self.grpc = tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{self.server.grpc_port}")

    async def _main(self) -> None:
        self.server, self._loop = Server(self.options), asyncio.get_running_loop()
        await self.server.serve(self._up.set)

    def wait(self) -> None:
        while not self.grpc.is_server_ready():
            threading.Event().wait(0.01)

    def stop(self) -> None:
        self.http.close()
        self.grpc.close()
        self._loop.call_soon_threadsafe(self.server.stop)
        self._thread.join(60)
        assert not self._thread.is_alive()
