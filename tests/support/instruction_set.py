"""Tests in a process of their own, whose kernels are compiled for other CPUs."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def check_with(isa: str, tests: Sequence[str], functions: Sequence[str] = ()) -> None:
    """Run *tests*, as pytest names them, with kernels for the instruction set *isa*; fail where one does.

    Args:
        functions: The tile functions that they run, where libraries are to hold no others.
    """
    few = ("-p", "tests.support.few_functions", "--functions", ",".join(functions)) if functions else ()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "0", "-v", "-m", "", *few, *tests],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "CLGRAPH_TEST_ISA": isa},
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"instruction set: {isa}\n" in done.stdout, done.stdout[:1000] + done.stderr
    assert done.returncode == 0, done.stdout[-3000:]
