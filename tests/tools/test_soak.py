"""The soak: its judgement of curves, and a short one of its own."""

from __future__ import annotations

import csv
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tools.soaking.curve import ALLOWED, Sample, growth

ROOT = Path(__file__).resolve().parents[2]
FLAT = Sample(1.0, 100, 5, 300.0, 12.0, 150, 14, 9)


def test_a_curve_grows_where_its_last_third_lies_above_its_middle_third() -> None:
    curve = [replace(FLAT, minutes=float(i), rss_mib=300 + 10 * (i % 2)) for i in range(30)]
    assert growth(curve) == []
    assert growth([]) == []
    early = [replace(s, buffers=20) if s.minutes < 9 else s for s in curve]
    assert growth(early) == []
    for name, allowed in ALLOWED.items():
        slow = [replace(s, **{name: getattr(FLAT, name) + s.minutes * allowed / 9}) for s in curve]
        (said,) = growth(slow)
        assert said.startswith(f"{name} has grown from ")
        assert growth([replace(s, **{name: getattr(FLAT, name) + s.minutes * allowed / 11}) for s in curve]) == []


@pytest.mark.slow
@pytest.mark.opencl
def test_a_minute_of_everything_at_once_and_of_faults_has_no_wrong_result_and_grows_nothing(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    out = tmp_path / "curve.csv"
    command = [sys.executable, str(ROOT / "tools" / "soak"), "--minutes", "1", "--samples", "20", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    rows = list(csv.DictReader(out.open()))
    assert len(rows) > 3
    for fault in ("memory", "launch", "finish", "build", "cache"):
        assert f" {fault}" in next(line for line in done.stdout.splitlines() if line.startswith("faults "))
