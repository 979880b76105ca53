"""How far a quantised model is from the float model that it was made of, layer by layer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from clgraph.compilation.compiler import Compiler
from clgraph.core.frozen import frozen
from clgraph.core.layout import Shape
from clgraph.debugging.counterparts import Counterpart, counterparts
from clgraph.errors import InputError, OptionError, UnsupportedError
from clgraph.graph.node import Value
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.graph.topology import Topology
from clgraph.model.stages.split import needs_stages
from clgraph.passes.constants.constant_programs import logical
from clgraph.passes.reference import compute, run_reference
from clgraph.settings import Settings

_MUCH = 0.01
"""Share of elements beyond a range that is no matter of a few of them."""


@frozen
class Noise:
    """What a tensor differs by from the one that it stands for.

    Attributes:
        rms: Root of the mean square of the difference, as a share of that of the tensor.
        worst: The largest difference, as a share of the largest value.
    """

    rms: float
    worst: float

    @property
    def decibels(self) -> float:
        """The ratio of signal to noise; infinite where nothing differs."""
        return -20 * math.log10(self.rms) if self.rms else math.inf


@frozen
class LayerNoise:
    """How far the result of one layer is off.

    Attributes:
        layer, kind: The node of the float model, and its primitive.
        tensor: Its result.
        snr: ``total`` as a ratio of signal to noise, in dB.
        total: Against the float model.
        own: Against the float layer on what the layers in front give it in the quantised model: what this one adds.
        rounding: The part of ``own`` that rounding the result of the float layer would make alone; the others are
            weights, and what is rounded inside. 0 where the result is not rounded.
        beyond: Share of elements that lie beyond what the integers reach.
    """

    layer: str
    kind: str
    tensor: str
    snr: float
    total: Noise
    own: Noise
    rounding: float
    beyond: float


@frozen
class OutputNoise:
    """How far an output is off the float model's.

    Attributes:
        snr: Of ``device`` as a ratio of signal to noise, in dB.
        device: What the device makes of the quantised model.
        references: What its references make of it.
    """

    name: str
    snr: float
    device: Noise
    references: Noise


@dataclass(frozen=True)
class ModelNoise:
    """A quantised model beside the float model; layers in order of execution, inputs first."""

    layers: tuple[LayerNoise, ...]
    outputs: tuple[OutputNoise, ...]

    def verdict(self) -> str:
        """Return which layer adds most, and what of it does, in a sentence."""
        worst = max(self.layers, key=lambda layer: layer.own.rms)
        if not worst.own.rms:
            return "no layer differs from the float model's"
        said = f"{worst.layer!r} adds most: {worst.own.rms:.1%} of its result"
        if worst.beyond > _MUCH:
            return f"{said}; {worst.beyond:.1%} of its elements lie beyond the range that its integers were given"
        if worst.rounding > worst.own.rms / 2:
            return f"{said}, mostly by rounding it"
        return f"{said}, mostly in its weights or inputs"


def measure_noise(quantised: Topology, source: Topology, feeds: Mapping[str, Array], options: Settings) -> ModelNoise:
    """Run both models by their references, and *quantised* on the device of *options*, too; return what differs where.

    Args:
        source: The float model that it was made of.
        feeds: One array an input.

    Raises:
        InputError: The models do not have the same inputs.
        OptionError: They have no tensor and no output in common, or the device is ``null``, which runs nothing.
        UnsupportedError: Shapes inside one of them depend on data.
        ClgraphError: One of them does not fit the inputs, or the quantised one cannot be compiled.
    """
    shapes = {name: array.shape for name, array in feeds.items()}
    first, second = _program(quantised, "the quantised model", shapes), _program(source, "the float model", shapes)
    pairs = counterparts(first, second)
    names = [name for name, _ in second.outputs if name in dict(first.outputs)]
    if not names or not any(v.producer for v in pairs):
        raise OptionError(
            "the models have no tensor in common: compare a quantised model with the float model that it was made of "
            "(what quant_pre_process has written, where that was used)"
        )
    network = Compiler(options).specialise(quantised, shapes).network
    if network is None:
        raise OptionError(f"device {options.device!r} runs nothing: there is nothing to compare")
    made = network.run(feeds)
    labels = {c.value: f"tensor {i}" for i, c in enumerate(pairs.values())}
    first.outputs = [*first.outputs, *((label, value) for value, label in labels.items())]
    got = run_reference(first, feeds)
    rounded = {v: c.floats(got[labels[c.value]]) for v, c in pairs.items()}
    exact, layers = _compared(second, feeds, pairs, rounded)
    outputs = []
    for name in names:
        device, references = (noise(results[name], exact[name]) for results in (made, got))
        outputs.append(OutputNoise(name, device.decibels, device, references))
    return ModelNoise(tuple(layers), tuple(outputs))


def noise(found: Array, wanted: Array) -> Noise:
    """Return what *found* differs by from *wanted*, of the same shape; infinite where either alone is not a number."""
    a, b = found.astype(np.float64).ravel(), wanted.astype(np.float64).ravel()
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        difference = np.nan_to_num(np.where(same, 0.0, np.abs(a - b)), nan=np.inf)
    finite = np.abs(b[np.isfinite(b)])
    signal, scale = float(np.sqrt(np.mean(finite**2))) if finite.size else 0.0, float(np.max(finite, initial=0.0))
    rms, worst = float(np.sqrt(np.mean(difference**2))) if a.size else 0.0, float(np.max(difference, initial=0.0))
    return Noise(rms / signal if signal else rms, worst / scale if scale else worst)


def _program(topology: Topology, what: str, shapes: Mapping[str, Shape]) -> Program:
    if needs_stages(topology):
        raise UnsupportedError(f"{what} has shapes that depend on data: its layers cannot be compared with another's")
    if set(topology.fed) != set(shapes):
        raise InputError(
            f"{what} reads {', '.join(map(repr, topology.fed)) or 'no input'}, and the other one "
            f"{', '.join(map(repr, shapes)) or 'none'}: they are not two versions of one model"
        )
    return topology.build(shapes)


def _compared(
    program: Program, feeds: Mapping[str, Array], pairs: Mapping[Value, Counterpart], rounded: Mapping[Value, Array]
) -> tuple[dict[str, Array], list[LayerNoise]]:
    """Run the float *program*, and each layer on what the quantised model has in front of it; return the outputs, too.

    Args:
        rounded: What the quantised model has for the tensors of *pairs*.
    """
    exact: dict[Value, Array] = {v: feeds[v.name] for v in program.inputs if v.name in feeds}
    given, layers = dict(exact), []
    for value in program.inputs:
        if value in pairs:
            layers.append(_layer(value, "input", exact[value], given[value], rounded[value], pairs[value]))
            given[value] = rounded[value]
    last = {v: node for node in program for v in node.inputs}
    kept = {v for _, v in program.outputs}
    for node in program:
        for values in (exact, given):
            inputs = [logical(v) if v.constant is not None else values[v] for v in node.inputs]
            values.update(zip(node.outputs, compute(node, inputs), strict=True))
        for value in (v for v in node.outputs if v in pairs):
            kind = node.primitive.kind
            layers.append(_layer(value, kind, exact[value], given[value], rounded[value], pairs[value]))
            given[value] = rounded[value]
        for value in node.inputs:
            if last[value] is node and value not in kept:
                exact.pop(value, None)
                given.pop(value, None)
    return {name: logical(v) if v.constant is not None else exact[v] for name, v in program.outputs}, layers


def _layer(value: Value, kind: str, exact: Array, given: Array, found: Array, counterpart: Counterpart) -> LayerNoise:
    total, own, rounding = noise(found, exact), noise(found, given), noise(counterpart.rounded(given), given)
    name = value.name if value.producer is None else value.producer.name
    return LayerNoise(name, kind, value.name, total.decibels, total, own, rounding.rms, counterpart.beyond(given))
