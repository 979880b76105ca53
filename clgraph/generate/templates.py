"""Chat templates rendered as Hugging Face does, by jinja2 in a sandbox, because models bring them."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment


class _Generation(Extension):
    """``{% generation %}`` marks what the model says, for training: the text is that without it."""

    tags = {"generation"}  # of instances, jinja2 declares

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Return what stands between ``generation`` and ``endgeneration``; the tags themselves render nothing."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def rendered(template: str, **values: Any) -> str:
    """Return the text that *template* makes of *values*; raises whatever it raises, ``TemplateError`` mostly."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    environment.globals |= {"raise_exception": _raise, "strftime_now": _now}
    environment.filters["tojson"] = _json
    return environment.from_string(template).render(**values)


def _raise(message: str) -> None:
    raise TemplateError(message)


def _now(form: str) -> str:
    return datetime.now().astimezone().strftime(form)


def _json(
    value: Any, ensure_ascii: bool = False, indent: int | None = None, separators: Any = None, sort_keys: bool = False
) -> str:
    """Return *value* as JSON, without the escapes for pages of the web that jinja2's own filter adds."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
