"""Clients of Triton, unmodified, against the server in a thread: real models, sockets and both protocols."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

pytest.importorskip("uvicorn", reason="the extra 'serve' is not installed")
pytest.importorskip("tritonclient.http", reason="the test extra's tritonclient is not installed")
pytest.importorskip("tritonclient.grpc", reason="the test extra's tritonclient is not installed")

import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException

from clgraph.serving.tensors import BYTES, TYPES
from tests.serving.running import Running, save

pytestmark = pytest.mark.opencl

X = np.arange(8, dtype=np.float32).reshape(2, 4)


def _value(name: str, kind: int) -> Any:
    return helper.make_tensor_value_info(name, kind, ["n", 4])


_KINDS = {BYTES: TensorProto.STRING, "BOOL": TensorProto.BOOL, "FP16": TensorProto.FLOAT16, "FP32": TensorProto.FLOAT}
_KINDS |= {"FP64": TensorProto.DOUBLE, "BF16": TensorProto.BFLOAT16}
_KINDS |= {name: getattr(TensorProto, name) for name in TYPES if "INT" in name}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    root = tmp_path_factory.mktemp("models")
    one = helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0])
    add = [helper.make_node("Add", ["x", "one"], ["y"])]
    save(root / "add/1/model.onnx", add, [_value("x", 1)], [_value("y", 1)], [one])
    (root / "broken").mkdir()
    (root / "broken/model.onnx").write_bytes(b"nonsense")
    outside = helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0])
    outside.ClearField("float_data")
    outside.data_location = TensorProto.EXTERNAL
    outside.external_data.add(key="location", value="../../etc/passwd")
    save(root / "reads.onnx", add, [_value("x", 1)], [_value("y", 1)], [outside])
    names = {kind: kind.lower() for kind in _KINDS}
    nodes = [helper.make_node("Identity", [f"{name}_in"], [name]) for name in names.values()]
    inputs = [_value(f"{name}_in", _KINDS[kind]) for kind, name in names.items()]
    save(root / "types.onnx", nodes, inputs, [_value(name, _KINDS[kind]) for kind, name in names.items()])
    found = Running(root, max_request=1 << 20)
    found.wait()
    yield found
    found.stop()


def _inputs(client: Any, arrays: dict[str, Any], kinds: dict[str, str], **how: Any) -> list[Any]:
    found = []
    for name, array in arrays.items():
        tensor = client.InferInput(name, list(array.shape), kinds[name])
        tensor.set_data_from_numpy(array, **how)
        found.append(tensor)
    return found


def _x(client: Any, array: Any = X, **how: Any) -> list[Any]:
    return _inputs(client, {"x": array}, {"x": "FP32"}, **how)


def test_clients_are_told_of_the_server_and_its_models(running: Running) -> None:
    for client in (running.http, running.grpc):
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("add")
        assert client.is_model_ready("add", "1")
    assert not running.http.is_model_ready("broken")
    assert not running.grpc.is_model_ready("broken")
    about = running.http.get_model_metadata("add")
    assert about["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
    assert running.grpc.get_model_metadata("add", as_json=True)["outputs"][0]["name"] == "y"
    assert running.grpc.get_server_metadata().name == running.http.get_server_metadata()["name"] == "clgraph"
    index = {each["name"]: each for each in running.http.get_model_repository_index()}
    assert {name: each["state"] for name, each in index.items()} == {
        "add": "READY",
        "broken": "UNAVAILABLE",
        "reads": "UNAVAILABLE",
        "types": "READY",
    }
    assert "it does not parse" in index["broken"]["reason"]
    assert "outside the model's folder" in index["reads"]["reason"]
    assert str(running.options.folder) not in index["broken"]["reason"]
    found = running.grpc.get_model_repository_index()
    assert {m.name: m.reason for m in found.models} == {name: each["reason"] for name, each in index.items()}


def test_clients_run_a_model(running: Running) -> None:
    http, grpc = tritonclient.http, tritonclient.grpc
    for client, module in ((running.http, http), (running.grpc, grpc)):
        found = client.infer("add", _x(module), request_id="7", timeout=50_000_000)
        np.testing.assert_array_equal(found.as_numpy("y"), X + 1)
        about = found.get_response()
        assert (about["id"] if module is http else about.id) == "7"
        named = client.infer("add", _x(module, X[:1]), model_version="1", outputs=[module.InferRequestedOutput("y")])
        np.testing.assert_array_equal(named.as_numpy("y"), X[:1] + 1)
    text = running.http.infer(
        "add", _x(http, binary_data=False), outputs=[http.InferRequestedOutput("y", binary_data=False)]
    )
    np.testing.assert_array_equal(text.as_numpy("y"), X + 1)
    packed = running.http.infer("add", _x(http), request_compression_algorithm="gzip")
    np.testing.assert_array_equal(packed.as_numpy("y"), X + 1)


def test_tensors_of_every_type_come_and_go(running: Running) -> None:
    arrays: dict[str, Any] = {f"{n.lower()}_in": np.array([[0, 1, 1, 0]], TYPES[n].numpy) for n in TYPES}
    arrays["bytes_in"] = np.array([["a", "größe", "", "b"]], object)
    kinds = {f"{kind.lower()}_in": kind for kind in _KINDS}
    for client, module in ((running.http, tritonclient.http), (running.grpc, tritonclient.grpc)):
        found = client.infer("types", _inputs(module, arrays, kinds))
        for kind in _KINDS:
            result = found.as_numpy(kind.lower())
            wanted = arrays[f"{kind.lower()}_in"]
            texts = [text.decode() for text in result.flat] if kind == BYTES else result.ravel().tolist()
            assert texts == wanted.ravel().tolist()


def test_a_stream_goes_on_behind_an_error(running: Running) -> None:
    answers: list[Any] = []
    done = threading.Semaphore(0)

    def take(result: Any, error: Any) -> None:
        answers.append((result, error))
        done.release()

    running.grpc.start_stream(take)
    for name in ("add", "nothing", "add"):
        running.grpc.async_stream_infer(name, _x(tritonclient.grpc))
    assert all(done.acquire(timeout=30) for _ in range(3))
    running.grpc.stop_stream()
    assert [error is None for _, error in answers] == [True, False, True]
    assert "there is no model 'nothing'" in str(answers[1][1])


def test_errors_have_statuses_and_texts(running: Running) -> None:
    http, grpc = tritonclient.http, tritonclient.grpc
    cases: list[tuple[str, dict[str, Any], str, str, str]] = [
        ("nothing", {}, "404", "NOT_FOUND", "there is no model 'nothing'"),
        ("../../etc/passwd", {}, "404", "NOT_FOUND", "passwd"),
        ("broken", {}, "503", "UNAVAILABLE", "model 'broken' is not ready"),
        ("add", {"x": X.astype(np.float64)}, "400", "INVALID_ARGUMENT", "input 'x' of model 'add' is FP32, not FP64"),
        ("add", {"x": X[:, :2]}, "400", "INVALID_ARGUMENT", "input 'x'"),
        ("add", {"w": X}, "400", "INVALID_ARGUMENT", "has no input 'w'; the inputs are 'x'"),
        ("types", {"bool_in": X > 0}, "400", "INVALID_ARGUMENT", "input"),
    ]
    for client, module, number in ((running.http, http, 0), (running.grpc, grpc, 1)):
        for name, feeds, *statuses, text in cases:
            kinds = {"x": "FP64" if feeds.get("x", X).dtype == np.float64 else "FP32", "w": "FP32", "bool_in": "BOOL"}
            inputs = _inputs(module, feeds or {"x": X}, kinds)
            with pytest.raises(InferenceServerException) as caught:
                client.infer(name, inputs)
            assert statuses[number] in str(caught.value.status())
            assert text in str(caught.value)
            assert "Traceback" not in str(caught.value)
        with pytest.raises(InferenceServerException, match=r"was not loaded: .*it does not parse"):
            client.load_model("broken")
        with pytest.raises(InferenceServerException, match="no parameters are taken"):
            client.load_model("add", config="{}")
        big = np.zeros((1 << 17, 4), np.float32)
        with pytest.raises(InferenceServerException) as caught:
            client.infer("add", _x(module, big))
        assert ("413", "RESOURCE_EXHAUSTED")[number] in str(caught.value.status())
        np.testing.assert_array_equal(client.infer("add", _x(module)).as_numpy("y"), X + 1)


@pytest.mark.parametrize("length", [{"Content-Length": str(60 << 20)}, {"Transfer-Encoding": "chunked"}])
def test_who_sends_too_much_before_it_reads_is_told_so(
    running: Running, monkeypatch: pytest.MonkeyPatch, length: dict[str, str]
) -> None:
    monkeypatch.setattr("clgraph.serving.rest.DISCARDED", 60)
    connection = http.client.HTTPConnection("127.0.0.1", running.server.http_port, timeout=60)
    body = (bytes(1 << 20) for _ in range(60))  # more than the buffers of a socket hold
    length = {**length, "Connection": "close"}  # as urllib's
    connection.request("POST", "/v2/models/add/infer", body, length, encode_chunked="Content-Length" not in length)
    answer = connection.getresponse()
    assert (answer.status, b"more than 1048576 bytes" in answer.read()) == (413, True)


def _answers(connection: socket.socket, sent: bytes) -> bytes:
    connection.sendall(sent)
    connection.settimeout(60)
    found = b""
    while part := connection.recv(65536):
        found += part
    return found


def test_requests_come_in_one_packet_in_chunks_and_with_offers_to_upgrade(running: Running) -> None:
    body = b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}'
    head = b"POST /v2/models/add/infer HTTP/1.1\r\nHost: x\r\n"
    size = b"Content-Length: %d\r\n" % len(body)
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:7], body[7:], b""))
    requests = [
        head + size + b"\r\n" + body,
        head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks,
        head + size + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\n\r\n" + body,
    ]
    end = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    address = ("127.0.0.1", running.server.http_port)
    with socket.create_connection(address) as connection:
        found = _answers(connection, requests[0] * 3 + requests[1] * 2 + end)
    assert (found.count(b"HTTP/1.1 200 OK"), found.count(b"[2.0, 3.0, 4.0, 5.0]")) == (6, 5)
    with socket.create_connection(address) as connection:
        # The answer is there though the connection stays open, for what the client would say when it was upgraded.
        connection.sendall(requests[2])
        connection.settimeout(60)
        found = b""
        while b"[2.0, 3.0, 4.0, 5.0]" not in found:
            part = connection.recv(65536)
            assert part
            found += part


def test_a_head_that_is_too_long_is_refused_before_it_has_come(running: Running) -> None:
    with socket.create_connection(("127.0.0.1", running.server.http_port)) as connection:
        assert b"HTTP/1.1 400" in _answers(connection, b"GET /v2 HTTP/1.1\r\nX: " + b"a" * 70_000)


def test_clients_load_and_unload(running: Running) -> None:
    for client in (running.http, running.grpc):
        client.unload_model("add")
        assert not client.is_model_ready("add")
        with pytest.raises(InferenceServerException, match="is not ready: unloaded"):
            client.get_model_metadata("add")
        client.load_model("add")
        assert client.is_model_ready("add")


def test_what_is_no_http_and_who_hangs_up_leaves_the_server_as_it_was(running: Running) -> None:
    address = ("127.0.0.1", running.server.http_port)
    head = b"POST /v2/models/add/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"
    for sent in (b"", b"\x00\xff" * 50, b"GET", head, head + b"{" * 10, b"GET /" + b"a" * 100_000):
        with socket.create_connection(address) as connection:
            connection.sendall(sent)
        with socket.create_connection(("127.0.0.1", running.server.grpc_port)) as connection:
            connection.sendall(sent)
    connection = http.client.HTTPConnection(*address)
    connection.request("GET", "/v2/models/..%2f..%2fetc%2fpasswd")
    assert connection.getresponse().status == 404
    np.testing.assert_array_equal(running.grpc.infer("add", _x(tritonclient.grpc)).as_numpy("y"), X + 1)
    np.testing.assert_array_equal(running.http.infer("add", _x(tritonclient.http)).as_numpy("y"), X + 1)
