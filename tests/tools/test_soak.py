"""The soak: its judgement of curves, and a short one of its own."""

from __future__ import annotations

import csv
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tools.soaking.curve import ALLOWED, FALSE_ALARMS, MIB, Sample, can_judge, growth

ROOT = Path(__file__).resolve().parents[2]
FLAT = Sample(1.0, 100, 5, 300.0, 12.0, 150, 14, 9)


# fmt: off
RUNS = (
    6689, 25453, 27614, 30797, 39092, 54660, 57813, 59765, 67818, 69197, 71135, 72968, 77994, 79365, 83827,
    85441, 87856, 94122, 96461, 99372, 101015, 103006, 105855, 107630, 108676, 110428, 126322, 128223, 132114,
    134158, 136189, 137746, 139211, 141073, 143235, 144262, 152563, 155555, 156893, 158022, 159899, 163023,
    164869, 166615, 167240, 167621, 168355, 168652, 169244, 169704, 173614, 175900, 182393, 202725, 232477,
)
NOISE = (
    15.54, 17.11, 17.11, 17.11, 15.32, 14.33, 13.6, 16.81, 19.58, 15.31, 15.28, 16.78, 16.49, 16.18, 18.91,
    15.11, 17.61, 15.65, 14.8, 14.73, 17.58, 15.55, 15.18, 18.94, 14.85, 14.81, 14.07, 18.91, 17.01, 17.3,
    15.1, 14.3, 15.17, 17.1, 16.55, 14.99, 16.68, 14.02, 17.05, 15.3, 16.57, 16.3, 17.47, 16.96, 17.15, 17.8,
    16.74, 15.78, 16.43, 16.41, 14.75, 18.75, 16.44, 16.89, 15.47,
)
# fmt: on
"""Of 55 minutes in which nothing grew: runs until each sample, and MiB of the buffers there were then."""


def test_a_curve_grows_where_it_rises_behind_its_first_third() -> None:
    curve = [replace(FLAT, minutes=float(i), rss_mib=300 + 10 * (i % 2)) for i in range(30)]
    assert growth(curve) == []
    assert growth([]) == []
    early = [replace(s, buffers=20) if s.minutes < 9 else s for s in curve]
    assert growth(early) == []
    for name, allowed in ALLOWED.items():
        slow = [replace(s, **{name: getattr(FLAT, name) + s.minutes * allowed / 18}) for s in curve]
        (said,) = growth(slow)
        assert said.startswith(f"{name} has grown by ")
        assert growth([replace(s, **{name: getattr(FLAT, name) + s.minutes * allowed / 20}) for s in curve]) == []


@pytest.mark.parametrize("turned", range(0, len(NOISE), 5))
def test_noise_is_no_growth_and_a_leak_of_sixty_four_bytes_a_run_is(turned: int) -> None:
    noise = NOISE[turned:] + NOISE[:turned]
    curve = [replace(FLAT, runs=runs, buffer_mib=mib) for runs, mib in zip(RUNS, noise, strict=True)]
    assert growth(curve) == []
    leaking = [replace(s, buffer_mib=s.buffer_mib + 64 * s.runs / MIB) for s in curve]
    (said,) = growth(leaking)
    assert said.startswith("buffer_mib has grown by ")


def test_of_a_thousand_soaks_in_which_nothing_grows_one_is_said_to_grow() -> None:
    rng, wrong, count = np.random.default_rng(0), 0, 4000
    for _ in range(count):
        samples = zip(*(rng.standard_normal((30, len(ALLOWED))) * 100).T.tolist(), strict=True)
        curve = [replace(FLAT, **dict(zip(ALLOWED, values, strict=True))) for values in samples]
        wrong += bool(growth(curve))
    # Above seven lie 0.1 % of Poisson's numbers of mean 4 * 0.6: what is allowed lowers the rate.
    assert wrong <= count * FALSE_ALARMS + 3


def test_few_samples_say_nothing() -> None:
    rising = [replace(FLAT, buffers=100 * i) for i in range(30)]
    assert [n for n in range(31) if can_judge(rising[:n])] == list(range(13, 31))
    assert growth(rising[:12]) == []
    assert growth(rising[:13])


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
