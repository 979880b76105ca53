from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from clgraph.cli import generate_command
from tests.support.decoder_folder import CHAT_TEMPLATE, write_decoder_folder
from tests.support.decoder_weights import Decoder

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_decoder_folder(tmp_path / "model", Decoder(positions=40), chat_template=CHAT_TEMPLATE)


@pytest.mark.opencl
def test_a_text_is_shown_and_reported(
    clgraph_command: Command, folder: Path, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = ("--max-tokens", 4, "--ignore-end", "--device", device)
    shown: list[str] = []
    monkeypatch.setattr(generate_command, "working", lambda what: nullcontext(shown.append(what)))
    status, out, err = clgraph_command("generate", folder, "--prompt", "A clock", *where)
    assert status == 0
    assert "text: 4 tokens" in err
    assert "ended by length" in err
    assert shown == ["compiling model", "reading the prompt"]  # which compiles what its length needs
    monkeypatch.setattr(sys, "stdin", io.StringIO("A clock"))
    status, report, err = clgraph_command("generate", folder, "--json", *where)
    assert (status, err) == (0, "")
    found = json.loads(report)
    assert found["text"] + "\n" == out
    assert len(found["tokens"]) == 4
    assert found["reason"] == "length"
    assert found["tokens_per_second"] > 0
    said = ("--chat", "--system", "Hm", "--prompt", "A", "--json", *where)
    chat = json.loads(clgraph_command("generate", folder, *said)[1])
    assert chat["prompt_tokens"] > found["prompt_tokens"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{gone}", "--prompt", "A"], "there is no folder"),
        (["{model}", "--prompt", "A", "--top-p", "2"], "'--top-p': 2.0 is not in the range 0<x<=1"),
        (["{model}", "--prompt", "A", "--stop", ""], "--stop has no text"),
        (["{model}", "--prompt", "A" * 90], "the model's longest text 40"),
        (["{model}", "--prompt", ""], "the prompt is empty"),
        (["{model}", "--prompt", "A", "--system", "B"], "--system does nothing without --chat"),
        (["{model}", "--prompt", "A", "--prompt", "B"], "--prompt is given 2 times; a call continues one text"),
        (["{bare}", "--prompt", "A"], "has no tokenizer.json"),
        (["{bare}", "--prompt", "A", "--chat"], "has no chat template"),
    ],
)
def test_what_is_wrong_is_one_line(clgraph_command: Command, folder: Path, arguments: list[str], message: str) -> None:
    bare = folder.parent / "bare"
    if "{bare}" in arguments:
        folder.rename(bare)
        (bare / "tokenizer.json").unlink()
        (bare / "tokenizer_config.json").unlink()
    places = {"model": folder, "gone": folder.parent / "gone", "bare": bare}
    status, out, err = clgraph_command("generate", *(a.format(**places) for a in arguments), "--device", "host")
    assert (status, out) == (2 if "--top-p" in arguments else 1, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err
