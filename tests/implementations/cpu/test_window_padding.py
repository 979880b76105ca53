"""The share of windows that lies in the input: counted in closed form, at once for sizes that nobody can enumerate."""

from __future__ import annotations

import random

import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.implementations.cpu.window_padding import SKIPPED_FROM, present_share
from clgraph.ops.convolution import Convolution
from clgraph.selector.query import DeviceInfo, Query


def share(size: int, taps: int, stride: int, dilation: int, pads: tuple[int, int], run: int) -> tuple[float, int]:
    p = Convolution((stride,), (dilation,), (pads,))
    layouts = tuple(Layout(DType.F32, s) for s in ((1, 16, size), (16, 16, taps)))
    out = p.infer(layouts)
    return present_share(Query(p, layouts, out, DeviceInfo(), 2, ()), run), out[0].shape[2]


@pytest.mark.parametrize("seed", range(50))
def test_elements_whose_pixels_in_a_run_span_some_of_the_input_are_counted(seed: int) -> None:
    draw = random.Random(seed).randint
    size, taps, stride, dilation, run = (draw(1, most) for most in (20, 5, 3, 9, 15))
    pads = (draw(0, 20), dilation * (taps - 1))
    found, made = share(size, taps, stride, dilation, pads, run)
    firsts = [i * stride - pads[0] + tap * dilation for i in range(0, made, run) for tap in range(taps)]
    wanted = sum(first < size and first + (run - 1) * stride >= 0 for first in firsts) / len(firsts)
    assert found == pytest.approx(wanted if wanted < SKIPPED_FROM else 1.0)


def test_absurd_sizes_take_no_time() -> None:
    assert share(1 << 40, 3, 1, 1 << 38, (1 << 39, 1 << 39), 14)[0] < 1
    assert share(1 << 20, 1 << 19, 1, 1, (1 << 19, 0), 1)[0] == 1
