"""Graphs of one operator: odd and empty sizes, axes from the end, numbers that are none, and what overflows.

What a compiler does between operators is not looked at here, but every operator is, in every element type that ONNX
Runtime has a kernel for.
"""

from __future__ import annotations

import numpy as np

from tools.fuzzing import single_moves, single_numbers, single_steps, single_windows  # noqa: F401  # they register
from tools.fuzzing.making import Making
from tools.fuzzing.seeds import Seed
from tools.fuzzing.single import CASES


def operator(number: int, seed: int = 0, name: str = "") -> tuple[Seed, list[str]]:
    """Return graph *number*, of the operator *name* or of any, with its inputs, and the name of its operator."""
    random = np.random.default_rng([seed, number, 2])
    chosen = str(random.choice(list(CASES)))
    name = name or chosen
    g = Making(random, (0.0, 0.0, 0.3)[number % 3])
    CASES[name](g)
    made = [t for t in g.values if any(t.name in node.output for node in g.nodes[-1:])]
    return Seed(f"{name}-{number}", g.model(made), g.feeds), [name]
