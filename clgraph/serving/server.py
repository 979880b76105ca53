"""The server: both protocols in one event loop, from the first look at the folder to the last answer."""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
from collections.abc import Callable
from contextlib import nullcontext, suppress
from time import monotonic
from typing import Any

import grpc.aio
import uvicorn

from clgraph.errors import OptionError
from clgraph.runtime import child
from clgraph.serving.connections import connections_of
from clgraph.serving.grpc_service import GrpcService
from clgraph.serving.logs import event
from clgraph.serving.options import ServerOptions
from clgraph.serving.repository import Repository
from clgraph.serving.rest import Rest
from clgraph.serving.service import Service

SPARE = 1 << 20
"""Bytes of a message of gRPC beside its tensors' that are taken."""


class Server:
    """Serves a folder of models until it is stopped.

    Attributes:
        http_port, grpc_port: That are listened at; ``None`` for none.
    """

    def __init__(self, options: ServerOptions) -> None:
        """Take what is served; raises ``OptionError`` where there is no such folder, or no protocol."""
        if options.http_port is None and options.grpc_port is None:
            raise OptionError("the server is to have a port for HTTP or one for gRPC")
        self.options, self.repository = options, Repository(options)
        self.http_port, self.grpc_port = options.http_port, options.grpc_port
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """End when what runs is over; called in the event loop."""
        self._stop.set()

    async def serve(self, started: Callable[[], None] = lambda: None) -> None:
        """Serve until :meth:`stop` is called.

        Args:
            started: Is called when the ports are listened at, which is before models are ready.

        Raises:
            OptionError: A port cannot be listened at.
        """
        service = Service(self.options, self.repository)
        http, listening = self._http(service)
        rpc = await self._grpc(service, listening)
        event("listen", host=self.options.host, http=self.http_port, grpc=self.grpc_port)
        started()
        watching = asyncio.create_task(service.watch())
        tasks = [watching, *([] if http is None else [asyncio.create_task(http.serve([listening]))])]
        stop, since = asyncio.create_task(self._stop.wait()), monotonic()
        try:
            await asyncio.wait((stop, *tasks[1:]), return_when=asyncio.FIRST_COMPLETED)
            event("stop", grace=self.options.grace)
            since = monotonic()
            await service.drain()
        finally:
            watching.cancel()
            stop.cancel()
            if rpc is not None:
                await rpc.stop(1)
            if http is not None:
                http.should_exit = True
            for task in (*tasks, stop):
                with suppress(asyncio.CancelledError):
                    await task
            await self._close(self.options.grace - (monotonic() - since))
            event("end")

    async def _close(self, seconds: float) -> None:
        """Unload everything; kernels that are still being compiled after *seconds* are given up."""
        closing = asyncio.create_task(asyncio.to_thread(self.repository.close))
        if not (await asyncio.wait((closing,), timeout=max(seconds, 0)))[0]:
            event("give_up", loading=True, grace=self.options.grace)
            child.end_all()
        while not (await asyncio.wait((closing,), timeout=1))[0]:
            child.end_all()  # of a library that came next
        await closing

    def _http(self, service: Service) -> tuple[Any, socket.socket | None]:
        """Return the server of HTTP and the socket that it listens at."""
        if self.options.http_port is None:
            return None, None
        config = uvicorn.Config(
            Rest(service).app(),
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            # Where httptools is installed uvicorn would take it: it has no limit for a head, and loses the body of a
            # request that offers an upgrade, as every first one of Java's client does.
            http=connections_of(self.options.timeout),
            ws="none",
            limit_concurrency=self.options.connections,
            timeout_graceful_shutdown=1,  # after the grace that calls had
        )
        listening = _listening(self.options.host, self.options.http_port)
        self.http_port = listening.getsockname()[1]
        server = uvicorn.Server(config)
        server.capture_signals = nullcontext  # they are the server's own, not uvicorn's
        return server, listening

    async def _grpc(self, service: Service, listening: socket.socket | None) -> Any:
        """Return the server of gRPC, started; closes *listening* where that fails."""
        if self.options.grpc_port is None:
            return None
        most = [("grpc.max_receive_message_length", self.options.max_request + SPARE)]
        options = [*most, ("grpc.max_send_message_length", -1), ("grpc.so_reuseport", 0)]
        server = grpc.aio.server(options=options, maximum_concurrent_rpcs=self.options.connections)
        server.add_generic_rpc_handlers((GrpcService(service).handler(),))
        host = f"[{self.options.host}]" if ":" in self.options.host else self.options.host
        try:
            self.grpc_port = server.add_insecure_port(f"{host}:{self.options.grpc_port}")
        except RuntimeError as error:
            if listening is not None:
                listening.close()
            raise OptionError(f"gRPC cannot listen at {host}:{self.options.grpc_port}: {error}") from error
        await server.start()
        return server


def run(options: ServerOptions) -> None:
    """Serve until the process is sent SIGTERM or SIGINT; raises as :class:`Server`."""
    asyncio.run(_run(options))


async def _run(options: ServerOptions) -> None:
    server, loop = Server(options), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    await server.serve()


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        found = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        advice = "another port" if error.errno in (errno.EADDRINUSE, errno.EACCES) else "an address of this machine"
        raise OptionError(f"HTTP cannot listen at {host}:{port}: {error.strerror}; give {advice}") from error
    # Accepted connections inherit it. asyncio sets it only where the listening socket was made with TCP by number:
    # without it a client that sends header and body apart waits 40 ms for the answer.
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found
