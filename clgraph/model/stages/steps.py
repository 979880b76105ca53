"""Steps of host plans: closures that compute one layer on the values of a run, addressed by index in a list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from clgraph.core.frozen import frozen

Step = Callable[[list[Any]], None]
"""Computes a layer, from and into the values of a run."""


@frozen
class PlanPart:
    """A layer of a plan: what computes it, and where its inputs and results stand among the values of the plan.

    Attributes:
        single: *compute* returns the only result, not a tuple of results.
        scalar: That may be a scalar of NumPy's.
    """

    compute: Callable[..., Any]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    single: bool = False
    scalar: bool = False

    def step(self, places: Sequence[int]) -> Step:
        """Return the step of the layer on values that stand at *places*, in the order of the plan's own."""
        inputs, outputs = ([places[i] for i in own] for own in (self.inputs, self.outputs))
        if self.single:
            return of_one(self.compute, inputs, outputs[0], scalar=self.scalar)
        return of_several(self.compute, inputs, outputs)


def of_one(compute: Callable[..., Any], inputs: Sequence[int], output: int, *, scalar: bool) -> Step:
    """Return the step of a layer with one result, which *compute* returns; *scalar*: maybe as a scalar of NumPy's."""
    if len(inputs) == 1:
        return _of_one_input(compute, inputs[0], output, scalar)
    if len(inputs) == 2:
        return _of_two_inputs(compute, inputs[0], inputs[1], output, scalar)

    def step(values: list[Any]) -> None:
        result = compute(*[values[i] for i in inputs])
        values[output] = np.asarray(result) if scalar else result

    return step


def _of_one_input(compute: Callable[..., Any], x: int, output: int, scalar: bool) -> Step:
    def step(values: list[Any]) -> None:
        values[output] = compute(values[x])

    def step_to_scalar(values: list[Any]) -> None:
        values[output] = np.asarray(compute(values[x]))

    return step_to_scalar if scalar else step


def _of_two_inputs(compute: Callable[..., Any], a: int, b: int, output: int, scalar: bool) -> Step:
    def step(values: list[Any]) -> None:
        values[output] = compute(values[a], values[b])

    def step_to_scalar(values: list[Any]) -> None:
        values[output] = np.asarray(compute(values[a], values[b]))

    return step_to_scalar if scalar else step


def of_several(compute: Callable[..., Sequence[Any]], inputs: Sequence[int], outputs: Sequence[int]) -> Step:
    """Return the step of a layer whose results *compute* returns, at least those that are wanted."""
    if len(outputs) == 1:
        (output,) = outputs

        def step_of_first(values: list[Any]) -> None:
            result = compute(*[values[i] for i in inputs])[0]
            values[output] = result if type(result) is np.ndarray else np.asarray(result)

        return step_of_first

    def step(values: list[Any]) -> None:
        results = compute(*[values[i] for i in inputs])
        for i, result in zip(outputs, results, strict=False):
            values[i] = result if type(result) is np.ndarray else np.asarray(result)

    return step
