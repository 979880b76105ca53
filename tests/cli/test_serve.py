from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import onnx
import pytest
from click.testing import CliRunner

pytest.importorskip("uvicorn", reason="the extra 'serve' is not installed")

from clgraph.cli.serve_command import command
from clgraph.errors import OptionError
from tests.support.models import small_model


def test_the_options_of_the_command_are_those_of_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Any] = []
    monkeypatch.setattr("clgraph.serving.server.run", found.append)
    CliRunner().invoke(command, [str(tmp_path)], catch_exceptions=False)
    more = ["--host", "::1", "--http-port", "0", "--no-grpc", "--max-request", "1", "--timeout", "2.5", "--queue", "7"]
    more += ["--poll", "0", "--grace", "1", "--follow-links", "--device", "host", "--precision", "f16"]
    CliRunner().invoke(command, [str(tmp_path), *more], catch_exceptions=False)
    plain, given = found
    assert (plain.host, plain.http_port, plain.grpc_port, plain.max_request) == ("127.0.0.1", 8000, 8001, 64 << 20)
    assert (plain.timeout, plain.queue, plain.poll, plain.grace, plain.follow_links) == (60, 64, 5, 30, False)
    assert (given.host, given.http_port, given.grpc_port, given.max_request) == ("::1", 0, None, 1 << 20)
    assert (given.timeout, given.queue, given.poll, given.grace, given.follow_links) == (2.5, 7, 0, 1, True)
    assert (given.compile["device"], given.compile["config"]["precision"]) == ("host", "f16")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["models"], "there is no folder models"),
        (["file.onnx"], "file.onnx is a file, not a folder"),
        ([".", "--host", "300.0.0.1"], "HTTP cannot listen at 300.0.0.1:8000: .*; give an address of this machine"),
        ([".", "--no-http", "--no-grpc"], "a port for HTTP or one for gRPC"),
        ([".", "--host", "192.0.2.1", "--http-port", "0"], "HTTP cannot listen at 192.0.2.1:0"),
        ([".", "--host", "192.0.2.1", "--no-http"], "gRPC cannot listen at 192.0.2.1:8001"),
    ],
)
def test_what_cannot_be_served_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file.onnx").touch()
    with pytest.raises(OptionError, match=text):
        CliRunner().invoke(command, arguments, catch_exceptions=False)


def test_a_port_that_is_in_use_is_answered_by_another(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        arguments = [str(tmp_path), "--http-port", str(taken.getsockname()[1])]
        with pytest.raises(OptionError, match=r"in use.*; give another port"):
            CliRunner().invoke(command, arguments, catch_exceptions=False)


def test_a_package_that_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "clgraph.serving.server", None)
    with pytest.raises(OptionError, match=r"is not installed: pip install 'clgraph-opencl\[serve\]'"):
        CliRunner().invoke(command, [str(tmp_path)], catch_exceptions=False)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_process_when_what_runs_is_over(tmp_path: Path, number: signal.Signals) -> None:
    onnx.save(small_model(), tmp_path / "small.onnx")
    line = [sys.executable, "-m", "clgraph", "serve", str(tmp_path), "--http-port", "0", "--grpc-port", "0", "-v"]
    process = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    lines: list[str] = []
    while not lines or " ready " not in lines[-1]:
        lines.append(process.stderr.readline())
        assert lines[-1]
    port = int(re.search(r" http=(\d+) ", " ".join(lines))[1])  # type: ignore[index]  # it is there
    rest = threading.Thread(target=lambda: lines.extend(process.stderr))  # type: ignore[arg-type]  # a pipe
    rest.start()
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/v2/models/small")
    (about,) = json.loads(connection.getresponse().read())["inputs"]
    shape = [2 if size < 0 else size for size in about["shape"]]
    count = 1
    for size in shape:
        count *= size
    tensor = {"name": about["name"], "datatype": about["datatype"], "shape": shape, "data": [0] * count}
    body = json.dumps({"inputs": [tensor]})
    connection.request("POST", "/v2/models/small/infer", body)
    process.send_signal(number)
    # One that is read before the server ends is answered; one that is not is refused.
    assert connection.getresponse().status in (200, 503)
    assert process.wait(30) == 0
    rest.join()
    form = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (debug|info|warning) [a-z_A-Z]+( [a-z_]+=.*)?\n")
    assert [text for text in lines if not form.fullmatch(text)] == []
    assert lines[-1].split()[2] == "end"
