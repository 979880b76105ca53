"""Connections of HTTP within limits: who does not send the head of a request in time is hung up on."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol


def connections_of(seconds: float) -> type[asyncio.Protocol]:
    """Return the class of connections of which each head of a request comes within *seconds*."""

    class Connection(H11Protocol):  # type: ignore[misc]  # uvicorn's types are not followed
        """A connection that is closed where the head of a request, the first or the next, is not there in time.

        Connections are limited in number, so that those that stay without a request would keep all others out. What
        follows the head is limited by the application.
        """

        _late: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._rest()

        def _unsupported_upgrade_warning(self) -> None:
            """Say nothing where an upgrade is offered and not taken: that is the client's everyday request."""

        def _watch(self) -> None:
            """Begin to wait for a head where none is being answered; what was waited for since before goes on."""
            if self.cycle is not None and not self.cycle.response_complete:
                self._rest()
            elif self._late is None:
                self._late = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

        def _rest(self) -> None:
            if self._late is not None:
                self._late.cancel()
                self._late = None

    return Connection
