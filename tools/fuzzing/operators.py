"""Graphs of one operator: odd and empty sizes, axes from the end, numbers that are none, and what overflows.

What a compiler does between operators is not looked at here, but every operator is, in every element type that ONNX
Runtime has a kernel for.
"""

from __future__ import annotations

import numpy as np

from tools.fuzzing import single_moves, single_numbers  # noqa: F401  # they register operators
from tools.fuzzing.making import Making
from tools.fuzzing.seeds import Seed
from tools.fuzzing.single import CASES


def operator(number: int, seed: int = 0) -> tuple[Seed, list[str]]:
    """Return graph *number* with its inputs, and the name of its operator."""
    random = np.random.default_rng([seed, number, 2])
    name = str(random.choice(list(CASES)))
    g = Making(random, (0.0, 0.0, 0.3)[number % 3])
    CASES[name](g)
    made = [t for t in g.values if any(t.name in node.output for node in g.nodes[-1:])]
    return Seed(f"{name}-{number}", g.model(made), g.feeds), [name]
