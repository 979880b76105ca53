"""The name and version that are answered to, and whether they are."""

from __future__ import annotations

import sys

NAME, OWN = "onnxruntime", "clgraph.onnxruntime"

__version__ = "1.32.0"
"""The version of ONNX Runtime whose Python interface is answered."""


def is_installed() -> bool:
    """Whether ``import onnxruntime`` finds clgraph."""
    return getattr(sys.modules.get(NAME), "__name__", "") == OWN
