"""The parts of an explorer's page, cut out as a browser does."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any


class Scripts(HTMLParser):
    """The scripts of a page, as a browser cuts them out of it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[dict[str, str | None], str]] = []
        self._open = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open = tag == "script"
        if self._open:
            self.found.append((dict(attrs), ""))

    def handle_data(self, data: str) -> None:
        if self._open:
            self.found[-1] = self.found[-1][0], self.found[-1][1] + data

    def handle_endtag(self, tag: str) -> None:
        self._open = False


def data_of(text: str) -> dict[str, Any]:
    """Return the data that a page shows."""
    (data,) = (text for attributes, text in Scripts(text).found if attributes.get("id") == "data")
    found = json.loads(data)
    assert isinstance(found, dict)
    return found
