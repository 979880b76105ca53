"""What the stand-in for ONNX Runtime logs, and says once where programs ask for it again and again."""

from __future__ import annotations

import logging

log = logging.getLogger("clgraph.onnxruntime")
_said: set[str] = set()


def say_once(text: str, level: int = logging.INFO) -> None:
    """Log *text*, at the first call with it only."""
    if text not in _said:
        _said.add(text)
        log.log(level, "%s", text)
