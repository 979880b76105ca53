"""``python -m clgraph.as_onnxruntime program.py ...``: run an unmodified program of ONNX Runtime with clgraph.

``-m module ...`` and ``-c code ...`` run what Python's own options of these names would.
"""

from __future__ import annotations

import runpy
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from clgraph.onnxruntime.installing import install

USAGE = "usage: python -m clgraph.as_onnxruntime (PROGRAM.py | -m MODULE | -c CODE) [ARGUMENTS ...]"


def main(arguments: list[str]) -> None:
    """Run what *arguments* name, with ``onnxruntime`` answered by clgraph, as Python's command line would."""
    if not arguments or arguments[0] in ("-h", "--help") or (arguments[0] in ("-m", "-c") and len(arguments) < 2):
        print(f"{USAGE}\n\nCLGRAPH_* variables are clgraph's options, as CLGRAPH_DEVICE=gpu; see docs/onnxruntime.md.")
        sys.exit(0 if arguments and arguments[0] in ("-h", "--help") else 2)
    install()
    match arguments:
        case ["-m", module, *rest]:
            sys.argv[:] = [module, *rest]
            sys.path[0] = str(Path.cwd())
            if not _is_there(module):
                _end(f"no module named {module}", 1)
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case ["-c", code, *rest]:
            sys.argv[:] = ["-c", *rest]
            sys.path[0] = ""
            made = sys.modules["__main__"] = ModuleType("__main__")
            exec(compile(code, "<string>", "exec"), made.__dict__)
        case [program, *rest]:
            if not Path(program).exists():
                _end(f"can't open file {program!r}: there is none", 2)
            sys.argv[:] = [program, *rest]
            sys.path[0] = str(Path(program).resolve().parent)
            runpy.run_path(program, run_name="__main__")


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False  # a package around it


def _end(why: str, status: int) -> NoReturn:
    """End as Python does where it finds no program."""
    print(f"python -m clgraph.as_onnxruntime: {why}", file=sys.stderr)
    sys.exit(status)


if __name__ == "__main__":
    main(sys.argv[1:])
