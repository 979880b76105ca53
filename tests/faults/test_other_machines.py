"""A saved model on a machine whose CPU lacks the instructions it was compiled for: compiled anew, and said so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import clgraph
from clgraph.runtime.engine import Engine
from clgraph.runtime.instruction_sets import of_host
from tests.support.models import image, small_model

pytestmark = pytest.mark.opencl
ROOT = Path(__file__).resolve().parents[2]

CODE = """
import sys
import numpy as np
import clgraph
from tests.support.models import image
model = clgraph.load(sys.argv[1], device="pocl")
print(*model.notes)
np.save(sys.argv[2], model(image((1, 3, 10, 10))))
"""


@pytest.mark.slow
def test_a_model_saved_for_wide_vectors_runs_on_a_machine_with_narrow_ones(engine: Engine, tmp_path: Path) -> None:
    """The library for the other instruction set is compiled here, which takes a quarter of a minute."""
    if not engine.info.name.startswith("pocl") or of_host()[0].simd < 16:
        pytest.skip("needs PoCL on a CPU with AVX-512")
    model = clgraph.compile(small_model(), device="pocl")
    want = model(image((1, 3, 10, 10)))
    model.save(tmp_path / "m.clg")
    variables = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "CLGRAPH_POCL_ISA": "avx2",
        "CLGRAPH_CACHE_DIR": str(tmp_path / "cache"),
    }
    command = [sys.executable, "-c", CODE, str(tmp_path / "m.clg"), str(tmp_path / "y.npy")]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "compiled anew" in done.stdout
    assert "vectors 16 " in done.stdout
    assert "here 8 " in done.stdout
    # Sums of 27 and 8 products in another order, of numbers around 1.
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), want, atol=40 * 2.0**-24 * 20)
