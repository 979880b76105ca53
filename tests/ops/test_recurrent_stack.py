"""Recurrent layers as one node: the bits of the layers apart, whatever the chunks, and what it is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import clgraph
from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.topology import Topology
from clgraph.implementations.cpu import recurrent_stack
from clgraph.implementations.cpu.cost import TicketRanges
from clgraph.implementations.cpu.recurrent_stack import RecurrentStackWaves, Waves, cut, waves_of
from clgraph.ops.concat import Concat
from clgraph.ops.recurrent_stack import PRODUCT, RecurrentStack
from clgraph.ops.recurrent_steps import GATES, RecurrentSteps
from clgraph.ops.reshape import Reshape
from clgraph.selector.query import DeviceInfo, Query
from tests.support.check_op import check_op
from tests.support.of_a_kind import on_a_cpu
from tools.benchmark.small import recurrent

CELLS = {
    "rnn": RecurrentSteps("rnn", 20),
    "gru": RecurrentSteps("gru", 20, present=("bias", "hidden")),
    "linear gru": RecurrentSteps("gru", 32, linear_before_reset=True, present=("bias", "lengths")),
    "lstm": RecurrentSteps("lstm", 32, present=("lengths", "hidden", "cell")),
    "full lstm": RecurrentSteps("lstm", 20, clip=0.5, coupled=True, present=("bias", "lengths", "cell", "peephole")),
}


def shapes_of(p: RecurrentStack, tokens: int, batch: int, depth: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the inputs of *p*, in order."""
    size, rows, layers = p.steps.hidden, GATES[p.steps.cell] * p.steps.hidden, p.layers
    more = {"bias": (layers, rows), "lengths": (batch,), "peephole": (layers, 3 * size)}
    shapes = {"x": (tokens, batch, depth), "first": (rows, depth), "others": (layers - 1, rows, size)}
    shapes |= {"r": (layers, rows, size)} | ({"ahead": (layers, rows)} if p.biased else {})
    return shapes | {name: more.get(name, (layers, batch, size)) for name in p.steps.present}


def draw(p: RecurrentStack, tokens: int, batch: int, depth: int, seed: int) -> dict[str, np.ndarray]:
    """Return inputs of *p*: the last token of a sequence has an infinity, one before a NaN."""
    rng = np.random.default_rng(seed)
    found = {n: (rng.standard_normal(s) / 4).astype(np.float32) for n, s in shapes_of(p, tokens, batch, depth).items()}
    found["x"][-1, -1, 0] = np.inf
    found["x"][tokens // 2, 0, 0] = np.nan
    if "lengths" in found:
        found["lengths"] = rng.integers(0, tokens + 1, batch).astype(np.int32)
    return found


def results(topology: Topology, feeds: dict[str, np.ndarray], device: str) -> list[np.ndarray]:
    """Return the results of *topology*, as it is spelled."""
    config = {"strict": True, "disable_passes": frozenset({"fuse_recurrent_layers"})}
    compiled = clgraph.compile(topology, device=device, config=config)
    return list(compiled.run(feeds).values())


def as_one(p: RecurrentStack, given: dict[str, np.ndarray], device: str) -> list[np.ndarray]:
    topology, fed = Topology(), [n for n in given if n in ("x", "lengths", "hidden", "cell")]
    names = [topology.input(n, a.shape, a.dtype) if n in fed else topology.constant(n, a) for n, a in given.items()]
    made = ("y", "last", "cells")[: 3 if p.steps.cell == "lstm" else 2]
    topology.add("stack", p, *names, outputs=made)
    for name in made:
        topology.output(name)
    return results(topology, {n: given[n] for n in fed}, device)


def apart(p: RecurrentStack, given: dict[str, np.ndarray], device: str) -> list[np.ndarray]:
    """Return what :func:`as_one` does of a node for each product and the steps of each layer."""
    topology, lasts = Topology(), [[] for _ in range(2 if p.steps.cell == "lstm" else 1)]
    x = topology.input("x", given["x"].shape)
    if "lengths" in given:
        topology.input("lengths", given["lengths"].shape, np.int32)
    for i in range(p.layers):
        w = given["others"][i - 1] if i else given["first"]
        own = {"w": w} | ({"ahead": given["ahead"][i]} if p.biased else {})
        product = [topology.constant(f"{n}{i}", a) for n, a in own.items()]
        topology.add(f"product{i}", PRODUCT, x, *product, outputs=(f"gates{i}",))
        walked = [topology.constant(f"r{i}", given["r"][i : i + 1])]
        for name in p.steps.present:
            part = None if name == "lengths" else given[name][i : i + 1]
            walked.append("lengths" if part is None else topology.constant(f"{name}{i}", part))
        made = [f"every{i}", *(f"last{i}_{n}" for n in range(len(lasts)))]
        topology.add(f"steps{i}", p.steps, f"gates{i}", *walked, outputs=tuple(made))
        for column, name in zip(lasts, made[1:], strict=True):
            column.append(name)
        tokens, batch, _ = given["x"].shape
        x = f"x{i}"
        topology.add(f"reshape{i}", Reshape((tokens, batch, p.steps.hidden)), made[0], outputs=(x,))
    topology.output(f"every{p.layers - 1}")
    for n, column in enumerate(lasts):
        topology.add(f"join{n}", Concat(0), *column, outputs=(f"joined{n}",))
        topology.output(f"joined{n}")
    return results(topology, {n: given[n] for n in ("x", "lengths") if n in given}, device)


SIZES = [(1, 1, 24, 4), (4, 1, 24, 4), (13, 1, 7, 4), (13, 3, 7, 5), (9, 5, 33, 1)]
"""Tokens, sequences, numbers of x, tokens of a chunk: one chunk, a last one that is shorter, chunks of one token."""


@pytest.mark.opencl
@pytest.mark.parametrize("cell", CELLS)
def test_layers_as_one_have_the_bits_of_layers_one_after_the_other(cell, device, monkeypatch) -> None:
    for seed, (tokens, batch, depth, length) in enumerate(SIZES):
        p = RecurrentStack(CELLS[cell], 2 + seed % 2, biased=seed != 1)
        lines = TicketRanges(-(-batch // 2), 2)
        with monkeypatch.context() as patch:
            patch.setattr(recurrent_stack, "waves_of", lambda q, n=length, each=lines: cut(q, each, n))
            given = draw(p, tokens, batch, depth, seed)
            found = as_one(p, given, device)
        for got, want in zip(found, apart(p, given, device), strict=True):
            np.testing.assert_array_equal(got.view(np.int32), want.view(np.int32), f"{tokens}x{batch}")


@pytest.mark.opencl
def test_a_stack_agrees_with_its_reference(engine) -> None:
    on_a_cpu(engine)
    p = RecurrentStack(RecurrentSteps("lstm", 20, present=("hidden",)), 2, True)
    shapes = list(shapes_of(p, 5, 3, 12).values())
    small = dict.fromkeys((1, 2, 3), lambda rng, shape: rng.uniform(-1, 1, shape) / 64)
    small |= dict.fromkeys((0, 4, 5), lambda rng, shape: rng.uniform(-1, 1, shape) / 4)
    # A layer as in test_recurrent.py: 32 units a token, times 3 for each later one. The second one gets 3 times what
    # the first is off by on top, at each of 5 tokens: 3^(5 - t) (32 + 3 * 32 * 3^t) in all, below 32 * 3^5 * 16.
    found = check_op(
        engine, p, *shapes, draw=small, ulps=32 * 3.0**5 * 16, scale=lambda *_: 1.0, families=("normal",),
        constant=(1, 2, 3),
    )  # fmt: skip
    assert set(found) == {"recurrent_stack.waves"}


def problem(p: RecurrentStack, tokens: int, batch: int = 1, workers: int = 2) -> Query:
    layouts = [
        Layout(DType.I32 if n == "lengths" else DType.F32, s) for n, s in shapes_of(p, tokens, batch, 64).items()
    ]
    device = DeviceInfo(workers=workers)
    return Query(p, tuple(layouts), p.infer(layouts), device, len(layouts), constant=frozenset({1, 2, 3}))


LSTM = RecurrentStack(RecurrentSteps("lstm", 128), 2, True)


def test_chunks_get_longer_where_workers_have_nobody_to_wait_for() -> None:
    two, one = waves_of(problem(LSTM, 100)), waves_of(problem(LSTM, 100, workers=1))
    assert (one.chunk_tokens, one.waves) == (100, 2)
    assert two.waves == -(-100 // two.chunk_tokens) + 1
    # Half of the time, and of a chunk more, and a begin for each wave.
    assert two.seconds < 0.5 * one.seconds * (1 + 1.2 * two.chunk_tokens / 100) + 1e-6 * two.waves
    # Both layers are under way in all waves but the first and the last; of three, two workers take two rounds.
    three = replace(LSTM, layers=3)
    each, lines = LSTM.steps.hidden, TicketRanges(1, 1)
    assert each == 128
    times = [cut(problem(p, 80), lines, 8) for p in (LSTM, three)]
    begins = [t.waves * DeviceInfo().costs.step_seconds for t in times]
    work = [t.seconds - begin for t, begin in zip(times, begins, strict=True)]
    # 11 rounds of two layers; of three 4 rounds of one or two and 8 waves of two rounds.
    np.testing.assert_allclose(work[1] / work[0], (4 + 2 * 8) / 11)


def test_each_layer_that_has_a_chunk_has_a_ticket_for_each_run_of_sequences() -> None:
    q = problem(LSTM, 100, batch=5, workers=8)
    waves = waves_of(q)
    assert (waves.lines.count, waves.lines.each) == (3, 2)
    tiles = RecurrentStackWaves.plan(q).steps
    assert [tile.descriptor.wave for tile in tiles] == list(range(waves.waves))
    assert [tile.tickets for tile in tiles] == [3, *[6] * (waves.waves - 2), 3]
    few = Waves(waves.lines, 50, 2 + 5 - 1, 0.0)
    assert [few.active(wave, 5) for wave in range(few.waves)] == [1, 2, 2, 2, 2, 1], "two chunks, five layers"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"direction": "reverse"}, "go forward"),
        ({"rounded": True}, "not rounded"),
        ({"hidden": 12}, "at least 16 hidden states"),
        ({"activations": (("scaled_tanh", 1.0, 1.0),) * 3}, "has no scaled_tanh"),
    ],
)
def test_other_layers_are_refused(changes, reason) -> None:
    assert reason in RecurrentStackWaves.refusal(problem(replace(LSTM, steps=replace(LSTM.steps, **changes)), 20))


def test_weights_that_are_no_constants_are_refused() -> None:
    q = replace(problem(LSTM, 20), constant=frozenset({1, 2}))
    assert RecurrentStackWaves.refusal(q) == "requires constant weights, for packed groups"


@pytest.mark.parametrize(("name", "shape"), [("others", (2, 512, 128)), ("r", (1, 512, 128)), ("cell", (1, 1, 128))])
def test_what_is_not_one_for_each_layer_is_refused(name, shape) -> None:
    p = replace(LSTM, steps=replace(LSTM.steps, present=("hidden", "cell")))
    shapes = shapes_of(p, 4, 1, 64) | {name: shape}
    with pytest.raises(ShapeError):
        p.infer([Layout(DType.F32, s) for s in shapes.values()])


@pytest.mark.opencl
def test_members_of_a_family_are_walked_in_chunks_of_their_own(device, engine) -> None:
    on_a_cpu(engine)
    model, _ = recurrent("LSTM", 20, hidden=64, layers=3)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "tokens"
    config = {"strict": True, "threads": 2}
    one = clgraph.compile(model, device=device, config=config)
    each = clgraph.compile(model, device=device, config=config | {"disable_passes": {"fuse_recurrent_layers"}})
    for tokens in (2, 3, 13, 14, 101):
        x = np.random.default_rng(tokens).standard_normal((tokens, 1, 64)).astype(np.float32)
        got, want = (made.run({"x": x})["y"] for made in (one, each))
        np.testing.assert_array_equal(got.view(np.int32), want.view(np.int32))
        assert "recurrent_stack.waves" in str(one.explain())
    assert all("bound in" in s for s in one.specialisations)
