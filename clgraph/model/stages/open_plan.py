"""Host plans of stages that hold for any sizes, specialised for element types and ranks.

A stage whose sizes are new in every run would bind each layer anew, which takes longer than to compute it on a few
numbers. Most layers are bound to the same whatever the sizes, and NumPy refuses sizes that do not fit as they do.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import RunCancelledError
from clgraph.graph.interpret import ControlFlow, Spend, compute
from clgraph.graph.layer import Layer
from clgraph.graph.primitive import Array, Primitive
from clgraph.graph.topology import Inlinable, Topology
from clgraph.handlers import pass_on

_KEPT = 16
"""Element types and ranks whose plans are kept."""

_TINY = 1 << 14
"""Operations that are counted together, and elements of all inputs of a layer, multiplied, up to which it is tiny."""

_SAFE_PRODUCT = 1e6
"""Elements of all inputs of a layer, multiplied, up to which it is computed first and counted then."""


@frozen
class _Step:
    """A layer.

    Attributes:
        unbound, primitive: As the layer has it, and as *computation* does.
        kept: Where among the values the inputs of *computation* stand.
        computation: What computes it at any sizes; ``None``: it is bound in each run.
        counted: Whether its arithmetic is other than an operation an element.
        ranks: Of the results, where elements or sizes may decide them; else ``None``.
    """

    unbound: Primitive
    primitive: Primitive
    inputs: tuple[int, ...]
    kept: tuple[int, ...]
    outputs: tuple[int, ...]
    computation: Callable[..., tuple[Array, ...]] | None
    counted: bool
    ranks: tuple[int, ...] | None

    def operations(self, arguments: Sequence[Array], results: Sequence[Array], product: int) -> float:
        """Return the arithmetic of a run; *product*, of the elements of all *arguments*, stands for that of a tiny one.

        To ask the primitive takes as long as such a run.
        """
        if product <= _TINY:
            return float(product)
        return self.primitive.flops([Layout.of(a) for a in arguments], [Layout.of(np.asarray(r)) for r in results])


class OpenPlan:
    """The layers of a stage for inputs of some element types and ranks."""

    def __init__(self, topology: Topology, arrays: Mapping[str, Array], spend: Spend) -> None:
        """Compute the layers on *arrays*, none of them empty, and remember what sizes do not decide.

        Raises:
            Exception: A layer does not fit them.
        """
        places = {name: i for i, name in enumerate(dict.fromkeys((*arrays, *topology.constants)))}
        self._values: list[Any] = [topology.constants.get(name) for name in places]
        steps = list[_Step]()
        known, values = set(topology.constants), dict[str, Array](topology.constants) | dict(arrays)
        for layer in topology.layers:
            results = compute(layer.primitive, [values[name] for name in layer.inputs], spend)
            values.update(zip(layer.outputs, results, strict=False))
            for name in layer.outputs:
                places.setdefault(name, len(places))
            self._values += [None] * (len(places) - len(self._values))
            if known.issuperset(layer.inputs):
                known.update(layer.outputs)
                for name in layer.outputs:
                    self._values[places[name]] = values[name]
            else:
                steps.append(_step(layer, values, places, known))
        self._steps = tuple(steps)
        self._outputs = [(name, places[source]) for name, source in topology.outputs]
        self._first: dict[str, Array] | None = {name: values[source] for name, source in topology.outputs}

    def first(self) -> dict[str, Array] | None:
        """Return the outputs of the arrays that the plan was made with, once."""
        results, self._first = self._first, None
        return results

    def run(self, arrays: Sequence[Array], spend: Spend) -> dict[str, Array] | None:
        """Return the outputs by name; ``None`` where there are tensors without an element or of other ranks.

        *spend* as for ``interpret``; *arrays* are the inputs in their order, and none is empty.
        """
        values = self._values.copy()
        values[: len(arrays)] = arrays
        operations = 0.0
        for step in self._steps:
            arguments = [values[i] for i in step.kept]
            product = 1
            for a in arguments:
                product *= a.size
            if step.computation is None or product > _SAFE_PRODUCT:
                results = compute(step.unbound, [values[i] for i in step.inputs], spend)
            else:
                results = step.computation(*arguments)
                operations += step.operations(arguments, results, product) if step.counted else results[0].size
                if operations > _TINY:
                    spend(operations)
                    operations = 0.0
            for i, result in zip(step.outputs, results, strict=False):
                values[i] = result if type(result) is np.ndarray else np.asarray(result)
                if not result.size:
                    return None
            if step.ranks is not None and tuple([r.ndim for r in results]) != step.ranks:
                return None
        spend(operations)
        return {name: values[i] for name, i in self._outputs}


def _step(layer: Layer, values: Mapping[str, Array], places: Mapping[str, int], known: Collection[str]) -> _Step:
    """Return the step of *layer*, whose inputs and results are among *values*; *known* are the same in each run."""
    inputs, outputs = (tuple(places[name] for name in names) for names in (layer.inputs, layer.outputs))
    ranks: tuple[int, ...] | None = tuple(np.ndim(values[name]) for name in layer.outputs)
    own, kept, computation = layer.primitive, inputs, None
    layouts = [Layout.of(np.asarray(values[name])) for name in layer.inputs]
    bound = None
    if not own.data_dependent and not isinstance(own, Inlinable):
        bound = own.at_any_size(layouts, [values[name] if name in known else None for name in layer.inputs])
    if bound is not None:
        own, kept = bound.primitive, tuple(inputs[i] for i in bound.keep)
        rounded = any(layouts[i].dtype == DType.BF16 for i in bound.keep)
        computation = own.computed if rounded else own.reference
        ranks = ranks if own.computes_unbound else None
    counted = type(own).flops is not Primitive.flops
    return _Step(layer.primitive, own, inputs, kept, outputs, computation, counted, ranks)


class OpenPlans:
    """The plans of one stage, each for element types and ranks of its inputs, made when these come for the second time.

    Where there cannot be one, or something is empty, which layers may refuse, the stage is computed without.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._plans: OrderedDict[Hashable, OpenPlan | None] = OrderedDict()
        self._met: Hashable = None

    def run(self, arrays: Mapping[str, Any], spend: Spend) -> dict[str, Array] | None:
        """Return the outputs by name; ``None`` where there is no plan for *arrays*, or they do not fit it."""
        given = list(arrays.values())
        for a in given:
            if type(a) is not np.ndarray or not a.size:
                return None
        key = tuple([(a.ndim, a.dtype) for a in given])
        if key not in self._plans:
            if key != self._met:
                self._met = key
                return None
            plan = self._plans[key] = self._made(arrays, spend)
            if len(self._plans) > _KEPT:
                self._plans.popitem(last=False)
            return None if plan is None else plan.first()
        plan = self._plans[key]
        return None if plan is None else plan.run(given, spend)

    def _made(self, arrays: Mapping[str, Any], spend: Spend) -> OpenPlan | None:
        if any(isinstance(layer.primitive, ControlFlow) for layer in self._topology.layers):
            return None
        try:
            return OpenPlan(self._topology, arrays, spend)
        except RunCancelledError:
            raise
        except Exception as error:  # references may raise of any class; the layer is named by what comes next
            pass_on(error)
            return None
