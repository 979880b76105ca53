"""What onnx says of operators: asked of its library, or kept in the cache folder from what that said before.

The library registers the schemas of all operators before it tells one, which takes a twentieth of a start that
compiles a small model; a model asks for a dozen.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from clgraph.core import cache_folder
from clgraph.core.digests import blake2
from clgraph.core.part import folder_of
from clgraph.frontend import protobuf
from clgraph.frontend.signatures import OperatorSignature
from clgraph.handlers import suppressed

FORMAT = 1
"""Raised whenever what is kept of a schema changes."""

_NEWEST = "newest"
"""Under what the newest operator set is kept; operators are under three words."""


class Schemas:
    """Schemas by operator, operator set and domain."""

    def __init__(self, folder: Path | None = None) -> None:
        """Look for what is kept in *folder*, below the cache folder; without one, onnx is asked for everything."""
        self._path: Path | None = None
        self._state, self._new = "", False
        self._known: dict[str, Any] = {}
        library = None if folder is None or _may_differ() else _library()
        if folder is None or library is None:
            return
        s = library.stat()
        self._state = f"{FORMAT} {library} {s.st_ino} {s.st_size} {s.st_mtime_ns} {s.st_ctime_ns}"
        # One file for a library: what it said before an update does not stay.
        self._path = folder / f"{blake2(os.fsencode(library)).hexdigest()[:32]}.json"
        with suppressed(OSError, ValueError, TypeError):
            state, known = json.loads(cache_folder.read(self._path))
            if state == self._state:
                self._known = dict(known)

    def newest_opset(self) -> int:
        """Return the newest set of ONNX's own operators that there are schemas of."""
        if _NEWEST not in self._known:
            self._learn(_NEWEST, protobuf.newest_opset())
        return int(self._known[_NEWEST])

    def find(self, op_type: str, opset: int, domain: str) -> tuple[int, OperatorSignature] | None:
        """Return the version of an operator in force and what its nodes look like; ``None`` where onnx has none."""
        key = f"{domain} {op_type} {opset}"
        if key not in self._known:
            try:
                schema = protobuf.defs.get_schema(op_type, opset, domain)
            except protobuf.defs.SchemaError:
                self._learn(key, None)
            else:
                self._learn(key, [int(schema.since_version), OperatorSignature.of(schema).to_json()])
        if (found := self._known[key]) is None:
            return None
        since, signature = found
        return since, OperatorSignature.of_json(signature)

    def keep(self) -> None:
        """Keep what onnx was asked for, where that is more than was kept."""
        if self._path is not None and self._new and not _may_differ():
            # A folder that cannot be written costs the time of asking, no more.
            with suppressed(OSError):
                cache_folder.write(self._path, json.dumps([self._state, self._known]).encode())

    def _learn(self, key: str, value: Any) -> None:
        self._known[key] = value
        self._new = True


def _may_differ() -> bool:
    """Whether other code of this process can have registered schemas."""
    return "onnx.defs" in sys.modules


def _library() -> Path | None:
    home = folder_of("onnx")
    return None if home is None else next(iter(sorted(home.glob("onnx_cpp2py_export*"))), None)
