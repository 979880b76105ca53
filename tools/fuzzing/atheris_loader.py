#!/usr/bin/env python3
"""The loader under libFuzzer, which follows the lines of clgraph that bytes reach: needs atheris (extra ``fuzz``).

    python -m tools.fuzzing.atheris_loader CORPUS [-runs=100000] [-timeout=20] [further options of libFuzzer]

An empty folder CORPUS is filled with small valid models first. What crashes, hangs or raises anything but one error of
clgraph is written to the current folder, ``crash-*``; without CORPUS and with such a file it is run once.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["clgraph.frontend", "clgraph.graph", "clgraph.ops"]):
    import clgraph.frontend.onnx_loader  # noqa: F401

from tools.fuzzing.judging import judge
from tools.fuzzing.seeds import seeds

MOST_SEED_BYTES = 600
"""Short models are changed faster, and one operator each is enough to start from."""


def one_input(data: bytes) -> None:
    """Load *data* and bind shapes; raises ``RuntimeError`` for what must not be."""
    outcome = judge(data, {}, "load")
    if outcome.is_wrong:
        raise RuntimeError(f"{outcome.kind}: {outcome.detail}")


def main() -> None:
    """Run libFuzzer with the arguments of the command line."""
    folders = [Path(argument) for argument in sys.argv[1:] if not argument.startswith("-")]
    for folder in folders[:1]:
        if not folder.is_file() and (not folder.exists() or not any(folder.iterdir())):
            fill(folder)
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


def fill(folder: Path) -> int:
    """Write small valid models to *folder*; return how many."""
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    for seed in seeds():
        data = seed.model.SerializeToString()
        if len(data) <= MOST_SEED_BYTES:
            (folder / f"{seed.name}.onnx").write_bytes(data)
            count += 1
    return count


if __name__ == "__main__":
    main()
