"""What a service asks of Ray Serve, and how a replica reads a request: without Ray."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the extra 'serve' is not installed")

import clgraph.ray
from clgraph.errors import InputError
from clgraph.ray.service import Replica


def test_requests_wait_in_replicas_and_before_them_in_limited_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[str, Any] = {}

    def deployment(**asked: Any) -> Any:
        told.update(asked)
        return lambda replica: SimpleNamespace(bind=lambda *given: given)

    monkeypatch.setattr("clgraph.ray.service.ray_module", lambda name: SimpleNamespace(deployment=deployment))
    monkeypatch.setattr("clgraph.ray.service.shipped", lambda model, ship: model)
    _, options = clgraph.ray.deployment(b"model", num_cpus=2, queue_size=7)
    # Without a number, Serve keeps all that come.
    assert (told["max_ongoing_requests"], told["max_queued_requests"], options["queue_size"]) == (7, 7, 7)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "is no JSON"),
        (b"{", "is no JSON"),
        (b"[" * 100_000, "is no JSON"),
        (b"[]", "the body is not"),
        (b'{"inputs": 3}', "the body is not"),
        (b'{"outputs": {}}', "the body is not"),
        (b'{"inputs": {"x": [[1], [2, 3]]}}', "input 'x' is given no array"),
        (b'{"inputs": {"x": ["a"]}}', "input 'x' is given no array"),
        (b'{"inputs": {"x": {"data": 1}}}', "input 'x' is given no array"),
    ],
)
def test_a_body_that_is_no_request_is_refused(body: bytes, said: str) -> None:
    replica = Replica.__new__(Replica)
    replica._types = {"x": np.dtype(np.float32)}
    with pytest.raises(InputError, match=said):
        replica._feeds(body)
    assert replica._feeds(b'{"inputs": {"x": [[1, 2]]}}')["x"].tolist() == [[1, 2]]


@pytest.mark.parametrize(("value", "status"), [(1.5, 200), (np.nan, 400), (np.inf, 400)])
def test_an_answer_is_json_or_an_error_that_says_why_not(value: float, status: int) -> None:
    async def submit(feeds: Any, queue_timeout: float) -> dict[str, Any]:
        return {"y": feeds["x"] * np.float32(value)}

    async def body() -> bytes:
        return b'{"inputs": {"x": [[1, 1]]}}'

    replica = Replica.__new__(Replica)
    replica._types, replica._model = {"x": np.dtype(np.float32)}, SimpleNamespace(submit=submit)
    answer = asyncio.run(replica(SimpleNamespace(body=body)))
    found = json.loads(answer.body, parse_constant=pytest.fail)
    assert answer.status_code == status
    assert found == {"outputs": {"y": [[1.5, 1.5]]}} if status == 200 else "NaN or infinity" in found["error"]
