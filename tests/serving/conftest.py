from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.errors import ModelError
from clgraph.graph.signature import Signature
from clgraph.graph.topology import Topology
from clgraph.selector.query import DeviceInfo
from clgraph.serving.options import ServerOptions
from clgraph.serving.repository import Repository
from clgraph.throughput.seats import Seat
from clgraph.throughput.streamed_model import StreamedModel
from tests.support.waiting import soon


@frozen
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        found = self.json
        assert list(found) == ["error"]
        assert "Traceback" not in found["error"]
        return str(found["error"])


class FakeModel:
    """Adds 1; waits for *gate* in a run, and ends when it is cancelled meanwhile."""

    inputs = (Signature("x", DType.F32, (None, 2)),)
    outputs = (Signature("y", DType.F32, (None, 2)), Signature("z", DType.F32, (None, 2)))
    compiled: Mapping[str, Any] = {}
    device = DeviceInfo()

    def __init__(self, path: Path | None = None) -> None:
        self.text = "" if path is None else path.read_text()
        if "broken" in self.text:
            raise ModelError(f"{path} is broken")
        self.gate: threading.Event | None = None
        self.running = threading.Event()
        self.closed = self.cancelled = False
        self.prepared: Any = None

    @property
    def topology(self) -> Topology:
        found = Topology()
        found.input("x", (None, 2))
        return found

    def run(self, feeds: Mapping[str, Any], outputs: Any, tensors: bool, cancellation: Any) -> dict[str, Any]:
        self.running.set()
        try:
            while self.gate is not None and not self.gate.wait(0.005):
                if cancellation is not None:
                    cancellation.check()
        except Exception:
            self.cancelled = True
            raise
        assert not self.closed
        return {name: feeds["x"] + (1 if name == "y" else 2) for name in outputs or ("y", "z")}

    def prepare(self, shapes: Any) -> None:
        self.prepared = shapes

    def clone(self) -> FakeModel:
        twin = FakeModel()
        twin.gate = self.gate
        return twin

    def close(self) -> None:
        self.closed = True


class Fakes:
    """Compiles fakes of files, served by real streams, and keeps the first of each in order."""

    def __init__(self) -> None:
        self.made: list[FakeModel] = []
        self.arguments: dict[str, Any] = {}

    def __call__(self, path: Path, streams: int | None, **arguments: Any) -> StreamedModel:
        self.arguments = arguments
        fake = FakeModel(path)
        self.made.append(fake)
        how = {name: arguments[name] for name in ("batching", "queue_size", "queue_timeout")}
        return StreamedModel(lambda seat: fake, [Seat("fake", None)] * (streams or 1), **how)  # type: ignore[arg-type, return-value]  # a fake


@pytest.fixture
def fakes() -> Fakes:
    return Fakes()


@pytest.fixture
def repository(tmp_path: Path, fakes: Fakes) -> Iterator[Repository]:
    """Return the models of the test's folder; nothing is loaded yet."""
    found = Repository(ServerOptions(folder=tmp_path, queue=2, timeout=20), fakes)  # type: ignore[arg-type]  # fakes
    yield found
    for fake in fakes.made:
        if fake.gate is not None:
            fake.gate.set()
    found.close()


async def ask(
    app: Any,
    method: str,
    path: str,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    *,
    goes: Callable[[], bool] = lambda: False,
) -> Reply:
    """Return what an ASGI application answers.

    Args:
        goes: Says when the client goes, once the request is sent.
    """
    parts = [body[: len(body) // 2], body[len(body) // 2 :]]
    incoming = [{"type": "http.request", "body": part, "more_body": i < 1} for i, part in enumerate(parts)]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if incoming:
            return incoming.pop(0)
        await soon(goes)
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    raw, _, query = path.partition("?")
    scope = {
        "type": "http",
        "method": method,
        "path": unquote(raw),
        "raw_path": raw.encode(),
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()],
        "http_version": "1.1",
        "scheme": "http",
        "server": ("test", 80),
        "client": ("test", 1),
    }
    await app(scope, receive, send)
    start = next(message for message in sent if message["type"] == "http.response.start")
    found = b"".join(message.get("body", b"") for message in sent if message["type"] == "http.response.body")
    return Reply(start["status"], {n.decode(): v.decode() for n, v in start["headers"]}, found)


def tensor(data: Any, name: str = "x", datatype: str = "FP32", shape: Any = None, **more: Any) -> dict[str, Any]:
    """Return an input of a request in JSON."""
    return {"name": name, "datatype": datatype, "shape": shape or list(np.shape(data)), "data": data, **more}


def called(*inputs: Any, **more: Any) -> bytes:
    """Return a request's JSON."""
    return json.dumps({"inputs": list(inputs), **more}).encode()
