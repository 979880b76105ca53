"""What ``tools/bench --set ray`` makes of its measurements."""

from __future__ import annotations

import json

import pytest

from tools.benchmark.found import Found
from tools.benchmark.scaling import ScalingFigures, measure_scaling, rate_of, scaling_markdown

FIGURES = ScalingFigures("model", 80, 8, {"1": [10.0, 20.0, 40.0], "2": [19.0, 30.0, 80.0]})


def test_the_rate_is_that_of_the_middle_of_a_job() -> None:
    came = [0.0, 6.0, *(6.0 + 0.5 * i for i in range(1, 9)), 99.0]
    assert rate_of(came, [8 * (i + 1) for i in range(len(came))]) == pytest.approx(16.0)


def test_ratios_are_those_of_rounds_and_figures_survive_a_file() -> None:
    assert FIGURES.ratio("2") == pytest.approx(1.9)
    found = Found.from_data(json.loads(json.dumps(Found(scaling=[FIGURES]).to_data())))
    assert scaling_markdown(found.scaling) == scaling_markdown([FIGURES])
    assert "batches of 8 | 2 | 30.0 | 1.90 | 3 |" in found.sections()[0]


@pytest.mark.slow
@pytest.mark.opencl
def test_jobs_of_one_worker_and_of_two_are_timed() -> None:
    pytest.importorskip("ray", reason="the extra 'ray' is not installed")
    found = measure_scaling("mobilenet_v2", [1, 2], 1, 0.5)
    assert found.rows >= 10 * found.batch
    assert [len(rates) for rates in found.rates.values()] == [1, 1]
    assert all(rate > 0 for rates in found.rates.values() for rate in rates)
