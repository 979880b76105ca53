"""Graphs made at random of what exporters and quantizers write, most of them over constants.

A graph is a few steps; each has random numbers of its own and adds some nodes. All are valid models, so that whatever
ONNX Runtime makes of one, clgraph must: a refusal is looked at too.
"""

from __future__ import annotations

import numpy as np

from tools.fuzzing import steps, steps_control, steps_integers, steps_products  # noqa: F401  # they register steps
from tools.fuzzing.making import STEPS, Making
from tools.fuzzing.seeds import Seed

MOST_STEPS = 7


def graph(number: int, seed: int = 0) -> tuple[Seed, list[str]]:
    """Return graph *number* with its inputs, and the names of its steps.

    Half of the graphs have no inputs but constants, a quarter hardly any others, a quarter mostly others.
    """
    random = np.random.default_rng([seed, number, 1])
    share = (1.0, 1.0, 0.75, 0.3)[number % 4]
    names = [str(n) for n in random.choice(list(STEPS), int(random.integers(1, MOST_STEPS + 1)))]
    g = Making(random, share)
    for name, stream in zip(names, random.spawn(len(names)), strict=True):
        g.random = stream
        STEPS[name](g)
    read = {name for node in g.nodes for name in node.input}
    ends = [t for t in g.values if t.name not in read and any(t.name in node.output for node in g.nodes)]
    inner = [t for t in g.values if t.name in read and any(t.name in node.output for node in g.nodes)]
    if inner and random.random() < 0.2:
        ends.append(inner[int(random.integers(len(inner)))])
    return Seed(f"graph-{number}", g.model(ends), g.feeds), names
