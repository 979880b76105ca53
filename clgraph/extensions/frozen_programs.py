"""Frozen programs: where PyInstaller finds what it has to know of clgraph.

It asks the entry point ``pyinstaller40`` of an installed clgraph. The hooks put clgraph's modules, kernels and drivers
into the program as files, and let it start itself as the separate process in which kernels are compiled.
"""

from __future__ import annotations

from pathlib import Path

HOOKS = Path(__file__).parents[1] / "data" / "pyinstaller"
"""They are executed by PyInstaller and by the frozen program, and imported by nobody."""


def hook_directories() -> list[str]:
    """Return the folder of PyInstaller's hooks."""
    return [str(HOOKS)]
