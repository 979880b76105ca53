from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="the extra 'serve' is not installed")
pytest.importorskip("grpc", reason="the extra 'serve' is not installed")

from starlette.responses import Response

from clgraph.serving.options import ServerOptions
from clgraph.serving.rest import Rest
from clgraph.serving.server import Server

LIVE = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"
SLOW = LIVE.replace(b"live", b"ready")
SECONDS = 1.0
"""That a head may take: what a client sends at once is there sooner on a busy machine, too."""


def test_who_sends_no_whole_head_in_time_is_hung_up_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def slow(self: Rest, request: object) -> Response:
        await asyncio.sleep(2 * SECONDS)
        return Response("ready")

    async def answered(server: Server, sent: bytes) -> int:
        """Return how many answers come until the server closes the connection."""
        reader, writer = await asyncio.open_connection("127.0.0.1", server.http_port)
        writer.write(sent)
        found = await asyncio.wait_for(reader.read(), 60)
        writer.close()
        return found.count(b"HTTP/1.1 200 OK")

    async def main(*sent: bytes) -> list[int]:
        server, up = (
            Server(ServerOptions(folder=tmp_path, http_port=0, grpc_port=None, timeout=SECONDS)),
            asyncio.Event(),
        )
        serving = asyncio.create_task(server.serve(up.set))
        await up.wait()
        try:
            return await asyncio.gather(*(answered(server, each) for each in sent))
        finally:
            server.stop()
            await serving

    monkeypatch.setattr(Rest, "_ready", slow)
    part = LIVE[:9]
    sent = (b"", part, LIVE, LIVE + part, LIVE * 3 + part, SLOW, SLOW + part)
    assert asyncio.run(main(*sent)) == [0, 0, 1, 1, 3, 1, 1]


def test_an_offer_to_upgrade_is_no_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> bytes:
        server, up = Server(ServerOptions(folder=tmp_path, http_port=0, grpc_port=None)), asyncio.Event()
        serving = asyncio.create_task(server.serve(up.set))
        await up.wait()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.http_port)
        offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\n\r\n"
        writer.write(LIVE.removesuffix(b"\r\n") + offer)
        try:
            return await asyncio.wait_for(reader.readuntil(b"}"), 60)
        finally:
            writer.close()
            server.stop()
            await serving

    caplog.set_level("WARNING")
    assert b"HTTP/1.1 200 OK" in asyncio.run(main())
    assert not caplog.records
