from __future__ import annotations

import asyncio
import gzip
import json
import threading
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the extra 'serve' is not installed")

from hypothesis import given, settings
from hypothesis import strategies as st

from clgraph.errors import InputError
from clgraph.serving.options import ServerOptions
from clgraph.serving.repository import Repository
from clgraph.serving.rest import Rest
from clgraph.serving.rest_calls import read_json
from clgraph.serving.service import Service
from tests.serving.conftest import Fakes, Reply, ask, called, tensor
from tests.support.waiting import soon, until

X = tensor([[1.0, 2.0]])
Fetch = Callable[..., Reply]


@pytest.fixture
def service(tmp_path: Path, fakes: Fakes) -> Service:
    """Return what serves a model "a" and has a broken one, "b"."""
    (tmp_path / "a.onnx").write_text("model")
    (tmp_path / "b.onnx").write_text("broken")
    options = ServerOptions(folder=tmp_path, queue=1, timeout=5, max_request=4096, grace=5)
    found = Service(options, Repository(options, fakes))  # type: ignore[arg-type]  # fakes
    found.repository.refresh(settled=False)
    found.ready = True
    return found


@pytest.fixture
def fetch(service: Service) -> Fetch:
    app = Rest(service).app()
    return lambda *args, **more: asyncio.run(ask(app, *args, **more))


def _infer(fetch: Fetch, body: bytes, headers: Mapping[str, str] | None = None, name: str = "a") -> Reply:
    return fetch("POST", f"/v2/models/{name}/infer", body, headers)


def test_health_metadata_and_the_index_are_told(fetch: Fetch, service: Service) -> None:
    assert fetch("GET", "/v2/health/live").json == {"live": True}
    assert fetch("GET", "/v2/health/ready").json == {"ready": True}
    assert fetch("GET", "/v2").json["extensions"] == ["binary_tensor_data", "model_repository"]
    about = {"name": "a", "versions": ["1"], "platform": "onnx_clgraph"}
    about |= {"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}]}
    about |= {"outputs": [{"name": name, "datatype": "FP32", "shape": [-1, 2]} for name in ("y", "z")]}
    assert fetch("GET", "/v2/models/a").json == fetch("GET", "/v2/models/a/versions/1").json == about
    assert fetch("GET", "/v2/models/a/ready").json == {"name": "a", "ready": True}
    assert (fetch("GET", "/v2/models/b/ready").status, fetch("GET", "/v2/models/c/ready").status) == (503, 404)
    a = {"name": "a", "version": "1", "state": "READY", "reason": ""}
    b = {"name": "b", "version": "1", "state": "UNAVAILABLE", "reason": "b.onnx is broken"}
    assert fetch("POST", "/v2/repository/index").json == [a, b]
    assert fetch("POST", "/v2/repository/index", b'{"ready": true}').json == [a]
    service.ready = False
    assert fetch("GET", "/v2/health/ready").error == "the server loads its models, or ends"


def test_a_call_in_json_is_answered_in_json(fetch: Fetch) -> None:
    found = _infer(fetch, called(X, id="7", parameters={"custom": [1]}))
    assert (found.status, found.headers["content-type"]) == (200, "application/json")
    outputs = [tensor([2.0, 3.0], "y", shape=[1, 2]), tensor([3.0, 4.0], "z", shape=[1, 2])]
    assert found.json == {"model_name": "a", "model_version": "1", "outputs": outputs, "id": "7"}
    found = fetch("POST", "/v2/models/a/versions/1/infer", called(X, outputs=[{"name": "z"}]))
    assert [each["name"] for each in found.json["outputs"]] == ["z"]
    assert "id" not in found.json


def test_tensors_come_and_go_as_bytes_where_that_is_asked_for(fetch: Fetch) -> None:
    array = np.array([[1, 2], [3, 4]], np.float32)
    about = {"name": "x", "datatype": "FP32", "shape": [2, 2], "parameters": {"binary_data_size": 16}}
    text = called(about, outputs=[{"name": "y", "parameters": {"binary_data": True}}, {"name": "z"}])
    header = {"Inference-Header-Content-Length": str(len(text))}
    found = _infer(fetch, text + array.tobytes(), header)
    length = int(found.headers["inference-header-content-length"])
    y, z = json.loads(found.body[:length])["outputs"]
    assert found.headers["content-type"] == "application/octet-stream"
    assert y == {"name": "y", "datatype": "FP32", "shape": [2, 2], "parameters": {"binary_data_size": 16}}
    assert np.frombuffer(found.body[length:], np.float32).tolist() == [2, 3, 4, 5]
    assert z["data"] == [3, 4, 5, 6]
    found = _infer(fetch, called(X, parameters={"binary_data_output": True}))
    assert found.body.endswith(np.array([2, 3, 3, 4], np.float32).tobytes())


def test_a_compressed_request_is_read(fetch: Fetch) -> None:
    for name, pack in (("gzip", gzip.compress), ("deflate", zlib.compress)):
        assert _infer(fetch, pack(called(X)), {"Content-Encoding": name}).status == 200


_BINARY = {"name": "x", "datatype": "FP32", "shape": [1, 2], "parameters": {"binary_data_size": 8}}


@pytest.mark.parametrize(
    ("body", "headers", "status", "text"),
    [
        (b"", {}, 400, "the request is to have a list of 'inputs'"),
        (b"{", {}, 400, "the request is not JSON"),
        (b"\xff\xfe{", {}, 400, "the request is not JSON"),
        (b"[1]", {}, 400, "must be an object, not list"),
        (b'{"inputs": [], "id": ' + b"9" * 4000, {}, 400, "the request is not JSON"),
        (called(tensor([[1.0, 2.0]])).replace(b"1.0", b"NaN"), {}, 400, "NaN is not a number of JSON"),
        (called(tensor([[1.0, 2.0]])).replace(b"1.0", b"-Infinity"), {}, 400, "-Infinity is not a number of JSON"),
        (called(), {}, 400, "input 'x' is missing"),
        (called(X, X), {}, 400, "input 'x' is there twice"),
        (called(X, tensor([1.0], "w")), {}, 400, "has no input 'w'; the inputs are 'x'"),
        (called(tensor([[1]], datatype="INT64")), {}, 400, "is FP32, not INT64"),
        (called(tensor([[1.0, 2.0]], datatype="FP31")), {}, 400, "the datatype of input 'x' is 'FP31'"),
        (called(tensor([[1.0, 2.0]], shape=[1, 3])), {}, 400, "3 elements are expected, 2 were given"),
        (called(tensor([[1.0, 2.0]], shape=[1, -2])), {}, 400, "holds -2, which is not a size"),
        (called(tensor([[1.0, 2.0]], shape=[1] * 64 + [2])), {}, 400, "has 65 axes; 64 are the most"),
        (called(tensor([[1.0, 2.0]], shape="12")), {}, 400, "a list of sizes, not str"),
        (called({"name": "x", "shape": [1, 2], "data": [1, 2]}), {}, 400, "input 'x' has no 'datatype'"),
        (called({"name": "x", "datatype": "FP32", "shape": [1, 2]}), {}, 400, "either 'data' or"),
        (called({"datatype": "FP32"}), {}, 400, "an object with a 'name'"),
        (called(3), {}, 400, "an object with a 'name'"),
        (called(X, outputs=[{"name": "q"}]), {}, 400, "no output 'q'; the outputs are 'y', 'z'"),
        (called(X, outputs={}), {}, 400, "a list of 'outputs'"),
        (called(X, outputs=[{"name": "y", "parameters": {"binary_data": 1}}]), {}, 400, "true or false, not 1"),
        (called(X, outputs=[{"name": "y", "parameters": {"classification": 3}}]), {}, 501, "are not served"),
        (called(X, parameters={"sequence_id": 3}), {}, 501, "are not served"),
        (called(X, parameters={"timeout": "1"}), {}, 400, "a number of microseconds, not '1'"),
        (called(X, parameters=[1]), {}, 400, "must be an object, not list"),
        (called({**X, "parameters": {"shared_memory_region": "r"}}), {}, 501, "are not served"),
        (called(X, id=3), {}, 400, "the id must be a text, not 3"),
        (called(_BINARY), {}, 400, "the binary_data_size 8; 0 bytes are left"),
        (called(_BINARY) + b"1234567", {"#": "7"}, 400, "the binary_data_size 8; 7 bytes are left"),
        (called(_BINARY) + b"123456789", {"#": "9"}, 400, "1 bytes are left behind the inputs"),
        (called({**_BINARY, "shape": [1, 3]}) + b"12345678", {"#": "8"}, 400, "takes 12 bytes: 8 were given"),
        (called({**_BINARY, "parameters": {"binary_data_size": -1}}), {}, 400, "the binary_data_size -1"),
        (called({**_BINARY, "parameters": {"binary_data_size": "8"}}), {}, 400, "the binary_data_size '8'"),
        (called(X), {"Inference-Header-Content-Length": "99999"}, 400, "the header"),
        (called(X), {"Inference-Header-Content-Length": "-1"}, 400, "the header"),
        (called(X), {"Inference-Header-Content-Length": "1" * 5000}, 400, "the header"),
        (called(X), {"Content-Encoding": "br"}, 400, "encoded as 'br'"),
        (called(X), {"Content-Encoding": "gzip"}, 400, "the body is no gzip"),
        (gzip.compress(called(X), mtime=0)[:-9], {"Content-Encoding": "gzip"}, 400, "gzip that was cut"),
        (
            gzip.compress(called(X), mtime=0) + b"more",
            {"Content-Encoding": "gzip"},
            400,
            "4 bytes are left of the body",
        ),
        (gzip.compress(b" " * 9999, mtime=0), {"Content-Encoding": "gzip"}, 413, "more than 4096 bytes"),
        (b" " * 4097, {}, 413, "more than 4096 bytes"),
        (b"", {"Content-Length": "9" * 30}, 413, "more than 4096 bytes"),
    ],
)
def test_a_malformed_request_is_told_what_is_wrong_with_it(
    fetch: Fetch, body: bytes, headers: dict[str, str], status: int, text: str
) -> None:
    if "#" in headers:
        headers = {"Inference-Header-Content-Length": str(len(body) - int(headers["#"]))}
    found = _infer(fetch, body, headers)
    assert found.status == status
    assert text in found.error
    assert _infer(fetch, called(X)).status == 200


def test_json_that_is_nested_too_deep_is_refused() -> None:
    with pytest.raises(InputError, match="nested too deep"):
        read_json(b"[" * 200_000)


@pytest.mark.parametrize(
    "name",
    [
        *("c", "..", "%2e%2e", "..%2f..%2fetc%2fpasswd", "../../etc/passwd", "%00", "a%0ax", "a.onnx", "ä"),
        *("a/versions/9", "a/versions/../../b", "a%2f", "A", "x" * 3000),
    ],
)
def test_a_name_of_no_model_is_not_found_whatever_it_looks_like(fetch: Fetch, name: str) -> None:
    for method, path in (("GET", f"/v2/models/{name}"), ("POST", f"/v2/models/{name}/infer")):
        assert fetch(method, path, called(X) if method == "POST" else b"").status == 404
    for change in ("load", "unload"):
        found = fetch("POST", f"/v2/repository/models/{name}/{change}")
        assert found.status == 404
        assert found.error


def test_other_paths_and_methods_are_refused_in_json(fetch: Fetch) -> None:
    assert fetch("GET", "/v2/models/a/stats").status == 404
    assert fetch("GET", "/v2/models/a/infer").status == 405
    assert "GET /v2/models/a/infer is not served" in fetch("GET", "/v2/models/a/infer").error
    assert fetch("GET", "/v2/health/ready/").status == 404


def test_models_are_unloaded_and_loaded_by_clients(fetch: Fetch, tmp_path: Path) -> None:
    assert fetch("POST", "/v2/repository/models/a/unload").status == 200
    assert _infer(fetch, called(X)).error == "model 'a' is not ready: unloaded"
    assert fetch("POST", "/v2/repository/models/a/load", b"{}").status == 200
    assert _infer(fetch, called(X)).status == 200
    broken = fetch("POST", "/v2/repository/models/b/load")
    assert (broken.status, broken.error) == (503, "version 1 of model 'b' was not loaded: b.onnx is broken")
    (tmp_path / "c.onnx").write_text("new")
    assert fetch("POST", "/v2/repository/models/c/load").status == 200
    config = json.dumps({"parameters": {"config": "{}", "file:1/model.onnx": "aaaa"}}).encode()
    assert fetch("POST", "/v2/repository/models/a/load", config).status == 501


def test_overload_is_503_and_a_call_that_takes_too_long_504(fetch: Fetch, service: Service, fakes: Fakes) -> None:
    fake = fakes.made[0]
    fake.gate = threading.Event()
    found = _infer(fetch, called(X, parameters={"timeout": 50_000}))
    assert (found.status, found.error) == (504, "the call of model 'a' was not over after 0.05 s")
    until(lambda: fake.cancelled)  # it ends at its next step
    fake.running.clear()
    app = Rest(service).app()

    async def three() -> list[Reply]:
        taken = [asyncio.ensure_future(ask(app, "POST", "/v2/models/a/infer", called(X)))]
        await soon(fake.running.is_set)
        taken.append(asyncio.ensure_future(ask(app, "POST", "/v2/models/a/infer", called(X))))
        await soon(lambda: service.repository.get("a").throughput.waiting)
        refused = await ask(app, "POST", "/v2/models/a/infer", called(X))
        assert fake.gate is not None
        fake.gate.set()
        return [refused, *[await each for each in taken]]

    refused, *answered = asyncio.run(three())
    assert [each.status for each in answered] == [200, 200]
    assert (refused.status, refused.headers["retry-after"]) == (503, "1")
    assert refused.error.startswith("1 calls of model 'a' wait, which is as many as may")


def test_a_client_that_goes_ends_its_call_and_no_other(fetch: Fetch, fakes: Fakes) -> None:
    fake = fakes.made[0]
    fake.gate = threading.Event()
    assert fetch("POST", "/v2/models/a/infer", called(X), goes=fake.running.is_set).status == 499
    until(lambda: fake.cancelled)
    fake.gate.set()
    until(lambda: _infer(fetch, called(X)).status == 200)


def test_a_server_that_ends_answers_what_runs_and_refuses_what_comes(service: Service, fakes: Fakes) -> None:
    fake, app = fakes.made[0], Rest(service).app()
    fake.gate = threading.Event()

    async def ending() -> list[Reply]:
        first = asyncio.ensure_future(ask(app, "POST", "/v2/models/a/infer", called(X)))
        await soon(fake.running.is_set)
        draining = asyncio.ensure_future(service.drain())
        await asyncio.sleep(0.01)
        found = [await ask(app, "POST", "/v2/models/a/infer", called(X))]
        found += [await ask(app, "GET", path) for path in ("/v2/health/ready", "/v2/models/a/ready", "/v2/health/live")]
        found.append(await ask(app, "POST", "/v2/repository/models/a/load"))
        assert not draining.done()
        assert fake.gate is not None
        fake.gate.set()
        await draining
        return [await first, *found]

    assert [reply.status for reply in asyncio.run(ending())] == [200, 503, 503, 503, 200, 503]


def test_a_request_that_is_not_sent_in_time_is_given_up(service: Service, fakes: Fakes) -> None:
    object.__setattr__(service.options, "timeout", 0.05)
    app = Rest(service).app()

    async def slow(message: list[Any]) -> dict[str, Any]:
        await asyncio.sleep(3600)
        return {}

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v2/models/a/infer", "headers": [], "query_string": b""}
    asyncio.run(app(scope, lambda: slow([]), send))
    assert sent[0]["status"] == 400
    assert b"was not sent within 0.05 s" in sent[1]["body"]


def test_a_result_that_json_has_no_number_for_is_told_so(fetch: Fetch) -> None:
    text = called(tensor([[3e38, 0.0]]))
    inf = called(_BINARY, outputs=[{"name": "y"}])
    body, header = inf + np.array([np.inf, 0], np.float32).tobytes(), {"Inference-Header-Content-Length": str(len(inf))}
    found = _infer(fetch, body, header)
    assert (found.status, "ask for it as bytes" in found.error) == (400, True)
    assert _infer(fetch, text).status == 200


def test_calls_are_counted_for_prometheus_by_names_that_there_are(fetch: Fetch) -> None:
    for name in ("a", "a", "b", "nothing", "x" * 99):
        _infer(fetch, called(X), name=name)
    text = fetch("GET", "/metrics").body.decode()
    for line in (
        'clgraph_requests_total{model="a",protocol="http",status="200",version="1"} 2.0',
        'clgraph_requests_total{model="b",protocol="http",status="503",version=""} 1.0',
        'clgraph_requests_total{model="",protocol="http",status="404",version=""} 2.0',
        'clgraph_failures_total{model="b",version=""} 1.0',
        'clgraph_request_seconds_count{model="a",version="1"} 2.0',
        'clgraph_call_size_bucket{le="1.0",model="a",version="1"} 2.0',
        'clgraph_batches_total{entries="1",model="a",version="1"} 2.0',
        'clgraph_queue_length{model="a",version="1"} 0.0',
        'clgraph_model_bytes{model="a",version="1"} 0.0',
    ):
        assert line in text
    assert "nothing" not in text
    assert "process_resident_memory_bytes" in text


_SCALARS = st.none() | st.booleans() | st.integers(-3, 1 << 70) | st.floats(allow_nan=False) | st.text(max_size=5)
_KEYS = st.sampled_from(["name", "shape", "datatype", "data", "parameters", "inputs", "outputs", "id", "x", "FP32"])
_JSON = st.recursive(
    _SCALARS | _KEYS, lambda of: st.lists(of, max_size=3) | st.dictionaries(_KEYS, of, max_size=4), max_leaves=12
)


def test_no_request_whatever_it_holds_fails_the_server(fetch: Fetch) -> None:
    @settings(max_examples=50, deadline=None, database=None)
    @given(_JSON, st.sampled_from(["name", "shape", "datatype", "data", "parameters"]), st.binary(max_size=9))
    def fuzz(value: Any, key: str, behind: bytes) -> None:
        for document in (
            value,
            {"inputs": [{**X, key: value}]},
            {"inputs": [X], "outputs": [{"name": "y", key: value}]},
        ):
            text = json.dumps(document).encode()
            header = {"Inference-Header-Content-Length": str(len(text))} if behind else {}
            found = _infer(fetch, text + behind, header)
            assert found.status == 200 or (400 <= found.status < 500 and found.error) or found.status == 501

    fuzz()
    assert _infer(fetch, called(X)).status == 200
