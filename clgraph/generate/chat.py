"""Conversations as the texts that a model was trained on: the chat template of its folder, by the package jinja2."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clgraph.core.frozen import frozen
from clgraph.errors import ModelError, OptionError

TEMPLATE, CONFIG = "chat_template.jinja", "tokenizer_config.json"


@frozen
class Message:
    """What somebody says in a conversation.

    Attributes:
        role: ``system``, ``user`` or ``assistant``.
    """

    role: str
    content: str


def chat_text(folder: Path, messages: Sequence[Message]) -> str:
    """Return the prompt for the model's answer to *messages*, special tokens spelled out.

    Raises:
        OptionError: The package ``jinja2`` is not installed.
        ModelError: The folder has no chat template, or it refuses the messages.
    """
    config = _config(folder)
    template = _template(folder, config)
    try:
        from clgraph.generate.templates import rendered
    except ImportError as error:
        raise OptionError("jinja2 is not installed: pip install 'clgraph-opencl[generate]'") from error
    tokens = {name: _token(config.get(name)) for name in ("bos_token", "eos_token", "pad_token", "unk_token")}
    said = [{"role": m.role, "content": m.content} for m in messages]
    try:
        return rendered(template, messages=said, add_generation_prompt=True, **tokens)
    except Exception as error:  # a template divides, adds and indexes as it likes
        raise ModelError(f"the chat template of {folder} fails: {' '.join(str(error).split())}") from error


def _config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} cannot be read as JSON: {error}") from error
    return found if isinstance(found, dict) else {}


def _template(folder: Path, config: dict[str, Any]) -> str:
    """Return the template: a file, a text of the tokenizer's settings, or that called ``default`` of several there."""
    if (folder / TEMPLATE).is_file():
        try:
            return (folder / TEMPLATE).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise ModelError(f"{folder / TEMPLATE} cannot be read as text: {error}") from error
    found = config.get("chat_template")
    if isinstance(found, list):
        found = next((t.get("template") for t in found if isinstance(t, dict) and t.get("name") == "default"), None)
    if not isinstance(found, str):
        raise ModelError(f"{folder} has no chat template, in {TEMPLATE} or {CONFIG}: the model continues plain texts")
    return found


def _token(value: Any) -> str:
    return str(value.get("content", "") if isinstance(value, dict) else value or "")
