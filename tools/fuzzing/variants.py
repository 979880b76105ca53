"""ONNX's own cases of single operators, each changed: other types, versions, sizes and numbers, constants for inputs.

What is made keeps the attributes of its case and need not be valid: clgraph may refuse what ONNX Runtime does, too.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import defs, helper, numpy_helper

from tools.fuzzing.operators import operator
from tools.fuzzing.seeds import Seed, single_nodes
from tools.fuzzing.single import CASES

Array = NDArray[Any]
Random = np.random.Generator

SIZES = (0, 1, 1, 2, 3, 5, 16, 17, 33)
STRANGE = (np.nan, np.inf, -np.inf, -0.0, 0.0, 0.5, 1.5, -2.5, 1e-38, 2.0**31, -(2.0**24) - 1)
MOST_ELEMENTS = 20_000
FINITE = {
    **dict.fromkeys(
        ("AffineGrid", "DeformConv", "Resize", "Upsample"), "0 times infinity, where others leave zeros out"
    ),
    **dict.fromkeys(("DFT", "STFT"), "the order of sums decides where infinity is subtracted from itself"),
    "Det": "the order of elimination does",
    "DynamicQuantizeLinear": "of a range without end nothing is said",
    "GridSample": "a place that is no number is any pixel",
    "LRN": "onnxruntime subtracts again what leaves a window",
    "MaxRoiPool": "onnxruntime's maxima begin with the least float",
}
"""Operators that get finite numbers only, with the reason."""
NUMBERS = ("GlobalMaxPool", "MaxPool", "NonMaxSuppression", "RoiAlign")
"""Operators that pass over what is not a number in ONNX Runtime, or sort it anywhere: they get infinity, but no NaN."""
NO_INTEGERS = {"ReduceLogSumExp": "onnxruntime truncates each exponential; opset 28 has none of them"}
"""Operators that get no integers, with the reason."""
RENAMED = {"constant_value": "value"}
"""Attributes of old versions that have other names than the inputs which they became; case and others are the same."""


def variant(number: int, seed: int = 0) -> tuple[Seed, list[str]]:
    """Return changed case *number* with its inputs, and the name of its operator and the changes made."""
    random = np.random.default_rng([seed, number, 3])
    by_operator = _cases()
    name = sorted({*by_operator, *CASES})[int(random.integers(len({*by_operator, *CASES})))]
    made = operator(number, seed, name)[0] if name in CASES and random.random() < 0.5 else None
    cases = by_operator.get(name, [])
    if made is not None and len(made.model.graph.node) == 1:
        chosen = made
    elif cases:
        chosen = cases[int(random.integers(len(cases)))]
    else:
        return operator(number, seed, name)
    model, feeds = onnx.ModelProto(), dict(chosen.feeds)
    model.CopyFrom(chosen.model)
    done = [name]
    for change, share in ((_retyped, 0.4), (_resized, 0.4), (_renumbered, 0.4), (_other_version, 0.4), (_fixed, 0.4)):
        if random.random() < share and change(model, feeds, random):
            done.append(change.__name__.strip("_"))
    return Seed(f"{chosen.name}-{number}", _told(model, feeds), feeds), done


@cache
def _cases() -> Mapping[str, Sequence[Seed]]:
    found: dict[str, list[Seed]] = defaultdict(list)
    for seed in single_nodes():
        if len(seed.model.graph.node) == 1 and seed.feeds.keys() == {v.name for v in seed.model.graph.input}:
            found[seed.model.graph.node[0].op_type].append(seed)
    return found


def _schema(model: onnx.ModelProto) -> defs.OpSchema:
    node = model.graph.node[0]
    (version,) = [o.version for o in model.opset_import if o.domain in (node.domain, node.domain or "ai.onnx")]
    return defs.get_schema(node.op_type, version, node.domain)


def _formal(schema: defs.OpSchema, at: int) -> Any:
    return schema.inputs[min(at, len(schema.inputs) - 1)]


def _retyped(model: onnx.ModelProto, feeds: dict[str, Array], random: Random) -> bool:
    """Give the inputs of one type variable another type that the operator has."""
    schema, node = _schema(model), model.graph.node[0]
    variables = {v.type_param_str: v.allowed_type_strs for v in schema.type_constraints}
    used = sorted({_formal(schema, i).type_str for i, n in enumerate(node.input) if n in feeds} & set(variables))
    if not used:
        return False
    variable = used[int(random.integers(len(used)))]
    types = sorted(
        t for t in variables[variable] if t.startswith("tensor(") and "complex" not in t and "string" not in t
    )
    if node.op_type in NO_INTEGERS:
        types = [t for t in types if "int" not in t]
    if not types:
        return False
    wanted = types[int(random.integers(len(types)))][7:-1].upper()
    names = {"FLOAT": np.float32, "DOUBLE": np.float64}
    dtype = names.get(wanted) or helper.tensor_dtype_to_np_dtype(getattr(onnx.TensorProto, wanted))
    for i, name in enumerate(node.input):
        if name in feeds and feeds[name].dtype.kind != "O" and _formal(schema, i).type_str == variable:
            feeds[name] = _cast(feeds[name], np.dtype(dtype))
    return True


def _cast(array: Array, dtype: np.dtype[Any]) -> Array:
    if dtype.kind in "biu" or (dtype.kind == "V" and "int" in dtype.name):
        low, high = (0, 1) if dtype.kind == "b" else _range(dtype)
        kept = np.clip(np.nan_to_num(array.astype(np.float64)), low, high) if array.dtype.kind not in "iub" else array
        kept = np.clip(kept, low, high) if kept.dtype.kind == "f" or high < 1 << 31 else kept
        return np.asarray(np.asarray(kept).astype(np.int64).astype(dtype))
    with np.errstate(over="ignore"):
        return np.asarray(array.astype(np.float32).astype(dtype))


def _range(dtype: np.dtype[Any]) -> tuple[int, int]:
    import ml_dtypes

    found = ml_dtypes.iinfo(dtype)
    return max(int(found.min), -(2**31)), min(int(found.max), 2**31)


def _resized(model: onnx.ModelProto, feeds: dict[str, Array], random: Random) -> bool:
    """Give all axes of one size another, in all inputs; integer inputs of one axis, and single numbers, stay."""
    data = {n: a for n, a in feeds.items() if a.ndim > 1 or (a.dtype.kind not in "i" and a.size != 1)}
    sizes = sorted({d for a in data.values() for d in a.shape})
    if not sizes:
        return False
    old, new = sizes[int(random.integers(len(sizes)))], SIZES[int(random.integers(len(SIZES)))]
    made = {n: tuple(new if d == old else d for d in a.shape) for n, a in data.items()}
    if old == new or any(math.prod(s) > MOST_ELEMENTS for s in made.values()):
        return False
    feeds.update({n: _to_shape(a, made[n]) for n, a in data.items()})
    return True


def _to_shape(array: Array, shape: tuple[int, ...]) -> Array:
    wanted = math.prod(shape)
    if not array.size:
        return np.full(shape, "" if array.dtype.kind == "O" else 0, array.dtype)
    return np.asarray(np.tile(array.reshape(-1), -(-wanted // array.size) or 1)[:wanted].reshape(shape))


def _renumbered(model: onnx.ModelProto, feeds: dict[str, Array], random: Random) -> bool:
    """Put numbers that are none, halves and large ones into one input of floats."""
    if model.graph.node[0].op_type in FINITE:
        return False
    floats = [n for n, a in feeds.items() if a.dtype.kind == "f" or a.dtype.name == "bfloat16"]
    if not floats:
        return False
    name = floats[int(random.integers(len(floats)))]
    array = feeds[name]
    with np.errstate(over="ignore"):
        strange = np.float64(STRANGE[model.graph.node[0].op_type in NUMBERS :]).astype(array.dtype)
        picked = strange[np.asarray(random.integers(0, len(strange), array.shape))]
    feeds[name] = np.asarray(np.where(random.random(array.shape) < 0.2, picked, array)).astype(array.dtype)
    return True


def _other_version(model: onnx.ModelProto, feeds: dict[str, Array], random: Random) -> bool:
    """Write the operator for another version of its set: inputs become the attributes that they were, or go."""
    node = model.graph.node[0]
    if node.domain:
        return False
    version = int(random.integers(1, defs.onnx_opset_version() + 1))
    try:
        schema = defs.get_schema(node.op_type, version, "")
    except defs.SchemaError:
        return False
    names = {n.lower(): n for n in schema.attributes}
    old = _schema(model)
    for at in reversed(range(len(node.input))):
        formal = _formal(old, at).name
        name = names.get(RENAMED.get(formal, formal).lower())
        if name is not None and node.input[at] in feeds:
            given = feeds.pop(node.input[at])
            kind = int(schema.attributes[name].type)
            floating = kind in (onnx.AttributeProto.FLOAT, onnx.AttributeProto.FLOATS)
            values = [float(v) if floating else int(v) for v in np.nan_to_num(given.astype(np.float64)).reshape(-1)]
            if kind in (onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS):
                node.attribute.append(helper.make_attribute(name, values, attr_type=kind))
            elif values:
                node.attribute.append(helper.make_attribute(name, values[0], attr_type=kind))
            del node.input[at]
    if schema.max_input < len(node.input):
        del node.input[schema.max_input :]
    for attribute in [a for a in node.attribute if a.name not in schema.attributes]:
        node.attribute.remove(attribute)
    if schema.max_output < len(node.output):
        del node.output[schema.max_output :]
    for name in [n for n in feeds if n not in node.input]:
        del feeds[name]
    for opset in model.opset_import:
        if not opset.domain:
            opset.version = version
    return True


def _fixed(model: onnx.ModelProto, feeds: dict[str, Array], random: Random) -> bool:
    """Make initializers of some inputs."""
    chosen = [n for n in feeds if random.random() < 0.5 and feeds[n].dtype.kind != "O"]
    for name in chosen:
        model.graph.initializer.append(numpy_helper.from_array(feeds.pop(name), name))
    return bool(chosen)


def _told(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> onnx.ModelProto:
    """Declare the inputs that are left as they are, and the outputs as whatever they become."""
    graph = model.graph
    del graph.input[:]
    for name, array in feeds.items():
        kind = onnx.TensorProto.STRING if array.dtype.kind in "OUS" else helper.np_dtype_to_tensor_dtype(array.dtype)
        graph.input.append(helper.make_tensor_value_info(name, kind, array.shape))
    del graph.output[:]
    graph.output.extend(helper.make_empty_tensor_value_info(n) for n in graph.node[0].output if n)
    return model
