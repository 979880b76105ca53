from __future__ import annotations

import numpy as np
import pytest

from clgraph.graph.program import Program
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.passes.quantization.prepare_quantization import PrepareQuantization
from tests.support.onnx_case import reference_outputs
from tests.support.programs import Net, run

F = np.float32
STEP = float(F(0.0014))


def wide(scale: float, low: float) -> Activation:
    return Activation("fake_quantize_wide", float(F(scale)), low)


def linear(a: float, b: float = 0.0) -> Activation:
    return Activation("linear", float(F(a)), float(F(b)))


def every_step(scale: float, low: float) -> np.ndarray:
    """Return numbers on, between and beyond the steps."""
    whole = (np.arange(-300, 65836) + low) * scale
    odd = [np.nan, np.inf, -np.inf, 1e30, -1e30, 0.0, -0.0]
    return np.concatenate([whole, whole + 0.49 * scale, whole + 0.51 * scale, odd]).astype(F)


def chained(*functions: Activation, also: int | None = None) -> Program:
    """Return functions behind each other; the one at *also* is read by an output, too."""
    net = Net()
    net.input("x", every_step(STEP, -100).shape)
    names = ["x"]
    for i, function in enumerate(functions):
        names.append(net.add(f"f{i}", function, names[-1]))
    outputs = [names[-1]] + ([] if also is None else [net.add("other", Activation("relu"), names[also + 1])])
    return net.program(*outputs)


def both(functions: tuple[Activation, ...], **more) -> list[Activation]:
    """Return what the pass makes of *functions*, whose results are the same bits."""
    x = every_step(functions[0].alpha, functions[0].beta)
    programs = chained(*functions, **more), run(chained(*functions, **more), PrepareQuantization())
    before, after = (reference_outputs(p, {"x": x}) for p in programs)
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old.view(np.int32), new.view(np.int32))
    return [n.primitive for n in programs[1]]


SCALED = wide(0.6 * STEP, -34000)


def test_roundings_of_products_and_sums_with_constants_that_move_no_step_are_two_operations() -> None:
    chain = (wide(STEP, -34000), linear(0.6), SCALED, linear(1, 366 * 0.6 * STEP), wide(0.6 * STEP, -33634))
    assert both(chain) == [Activation("whole_steps", STEP, -34000), Activation("scaled_sum", SCALED.alpha, 366.0)]
    divided = (wide(STEP, -34000), Activation("divided", 6.0), wide(STEP / 6, -34000), linear(3))
    made = both(divided)
    assert made == [
        Activation("whole_steps", STEP, -34000),
        Activation("scaled_sum", divided[2].alpha, 0.0),
        divided[3],
    ]


def test_steps_that_a_sum_moves_out_of_the_range_stay_at_its_ends() -> None:
    chain = (wide(STEP, -167), linear(1, -383.74 * STEP), wide(STEP, -550))
    made = both(chain)
    assert made[1:] == [Activation("clip", -166.0, -167.0 + 65535), Activation("scaled_sum", STEP, -384.0)]


@pytest.mark.parametrize(
    "chain",
    [
        (wide(STEP, -100), linear(0.6), wide(STEP, -100)),
        (wide(STEP, -100), linear(1, 0.5 * STEP), wide(STEP, -100)),
        (wide(STEP, -100), linear(1, np.nextafter(F(STEP / 2), F(0))), wide(STEP, -100)),
        (wide(STEP, -100), linear(-1), wide(STEP, -65435)),
        (wide(STEP, -100), Activation("relu"), wide(STEP, -100)),
        (wide(STEP, -100), linear(1.01)),
        (wide(1e-30, -100), linear(1.0), wide(1e-30, -100)),
    ],
    ids=["other steps", "halves", "beside halves", "turned", "no line", "one rounding", "tiny"],
)
def test_other_chains_stay(chain) -> None:
    assert both(chain) == list(chain)


def test_what_is_read_in_between_ends_a_chain() -> None:
    chain = (wide(STEP, -100), linear(0.6), wide(0.6 * STEP, -100), linear(2), wide(1.2 * STEP, -100))
    for also, first in ((0, 2), (1, 2), (2, 0), (3, 0), (None, 0)):
        made = [p.function for p in both(chain, also=also) if p != Activation("relu")]
        assert made.index("whole_steps") == first
        assert len(made) == (2 if also is None else 4)


def gated(turned: bool = False, also: bool = False, low: float = 0.0, function: str = "mul") -> Program:
    net = Net()
    net.input("x", (200007,))
    x = net.add("q", wide(STEP, -34000), "x")
    gate = net.add("r", wide(6 / 65535, low), net.add("s", linear(1, 3), x))
    net.add("y", Eltwise(function), *((gate, x) if turned else (x, gate)))
    return net.program("y", *(["r"] if also else []))


@pytest.mark.parametrize("turned", [False, True])
def test_a_number_times_what_16_bits_hold_of_its_sum_with_a_constant_is_one_function(turned) -> None:
    program = run(gated(turned), PrepareQuantization())
    assert [n.primitive for n in program] == [
        wide(STEP, -34000),
        Activation("gated_steps", wide(6 / 65535, 0).alpha, 3.0),
    ]
    x = np.resize(every_step(STEP, -34000), 200007)
    (before,), (after,) = (reference_outputs(p, {"x": x}) for p in (gated(turned), program))
    np.testing.assert_array_equal(before.view(np.int32), after.view(np.int32))


@pytest.mark.parametrize("more", [{"also": True}, {"low": -5.0}, {"function": "add"}], ids=str)
def test_other_gates_stay(more) -> None:
    assert len(list(run(gated(**more), PrepareQuantization()))) == 4


@pytest.mark.parametrize(("number", "stays"), [(6.0, False), (0.0, True), (np.inf, True), ([6.0, 3.0, 2.0], True)])
def test_a_rounded_number_by_a_constant_is_one_function(number, stays) -> None:
    net = Net()
    net.input("x", (2, 3))
    net.constant("c", np.array(number, F))
    net.add("y", Eltwise("div"), net.add("q", wide(STEP, -34000), "x"), "c")
    *_, last = run(net.program("y"), PrepareQuantization())
    assert last.primitive == (Eltwise("div") if stays else Activation("divided", 6.0))
