"""What a worker of xdist tells of its tests: messages that nobody reads took longer than most tests, 1.5 ms each."""

from __future__ import annotations

from typing import Any

import pytest

SHOWN_SECONDS = 0.005
"""Preparations that took less are in no list of durations."""


def is_read(name: str, data: dict[str, Any]) -> bool:
    """Whether a message says what the terminal shows: a preparation or an end that went well and soon does not."""
    if name != "testreport":
        return name not in ("logstart", "logfinish")
    return bool(
        data["when"] == "call"
        or data["outcome"] != "passed"
        or data["sections"]
        or data["user_properties"]
        or data["duration"] >= SHOWN_SECONDS
    )


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let a worker send what is read, and of a test that passed no keywords; all of it to ``-v`` and JUnit's file."""
    config = session.config
    worker = _worker(config)
    if worker is None or config.option.verbose > 0 or config.getoption("xmlpath", None):
        return
    send = worker.sendevent

    def send_what_is_read(name: str, **told: Any) -> None:
        data = told.get("data", {})
        if is_read(name, data):
            if data.get("outcome") == "passed":
                data["keywords"] = {}
            send(name, **told)

    worker.sendevent = send_what_is_read


def _worker(config: pytest.Config) -> Any:
    """Return what xdist has a worker send by; None where there are no workers, and in their controller."""
    return next((p for p in config.pluginmanager.get_plugins() if type(p).__name__ == "WorkerInteractor"), None)
