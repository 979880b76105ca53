"""The name that is answered to, and whether it is."""

from __future__ import annotations

import sys

NAME, OWN = "onnxruntime", "clgraph.onnxruntime"


def is_installed() -> bool:
    """Whether ``import onnxruntime`` finds clgraph."""
    return getattr(sys.modules.get(NAME), "__name__", "") == OWN
