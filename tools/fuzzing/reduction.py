"""The smallest part of a model that fails in the same way: one output, few nodes, constants for what is in front."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

Array = NDArray[Any]
Fails = Callable[[onnx.ModelProto, Mapping[str, Array]], bool]


def reduced(
    model: onnx.ModelProto, feeds: Mapping[str, Array], fails: Fails
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Return a part of *model* that fails still, and its inputs.

    First a single output is looked for, the earliest value of the graph with which it fails; then each value that
    ONNX Runtime computes becomes a constant, the last ones first, as long as it fails.
    """
    best = model, dict(feeds)
    values = [name for node in model.graph.node for name in node.output if name]
    for name in values:
        part = with_outputs(model, [name], feeds)
        if fails(*part):
            best = part
            break
    for name, array in reversed(list(_computed(*best).items())):
        made = {n for node in best[0].graph.node for n in node.output} - {o.name for o in best[0].graph.output}
        if name in made:
            part = _with_constant(best[0], name, array, best[1])
            if len(part[0].graph.node) < len(best[0].graph.node) and fails(*part):
                best = part
    return best


def with_outputs(
    model: onnx.ModelProto, names: Sequence[str], feeds: Mapping[str, Array]
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Return what *model* needs for the values *names*, as its outputs."""
    part = onnx.ModelProto()
    part.CopyFrom(model)
    graph, needed = part.graph, set(names)
    nodes = list(graph.node)
    kept = [node for node in reversed(nodes) if needed & set(node.output) and not needed.update(_read(node))]
    del graph.node[:], graph.output[:]
    graph.node.extend(reversed(kept))
    graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
    for things in (graph.initializer, graph.input):
        for thing in [t for t in things if t.name not in needed]:
            things.remove(thing)  # type: ignore[arg-type]  # of the field that it is in
    return part, {name: array for name, array in feeds.items() if name in needed}


def _read(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the names that *node* and its bodies read, some of them the bodies' own."""
    yield from node.input
    for attribute in node.attribute:
        for inner in attribute.g.node:
            yield from _read(inner)


def _with_constant(
    model: onnx.ModelProto, name: str, array: Array, feeds: Mapping[str, Array]
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Return *model* with the value *name* as an initializer."""
    part = onnx.ModelProto()
    part.CopyFrom(model)
    (maker,) = [node for node in part.graph.node if name in node.output]
    maker.output[list(maker.output).index(name)] = f"{name}_dropped"
    part.graph.initializer.append(numpy_helper.from_array(array, name))
    return with_outputs(part, [o.name for o in part.graph.output], feeds)


def _computed(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Return the values that ONNX Runtime computes, in their order; nothing where it does not run the model."""
    import onnxruntime

    known = {o.name for o in model.graph.output}
    names = [name for node in model.graph.node for name in node.output if name]
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    wide.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names if name not in known)
    try:
        session = onnxruntime.InferenceSession(wide.SerializeToString(), providers=["CPUExecutionProvider"])
        results = session.run(names, dict(feeds))
    except Exception:  # onnxruntime's errors have no class of their own in common
        return {}
    return {name: array for name, array in zip(names, results, strict=True) if isinstance(array, np.ndarray)}
