"""Models as ONNX Runtime's optimiser writes them at each of its levels, and what becomes of them here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

import clgraph
from clgraph.errors import ClgraphError, UnsupportedError
from clgraph.frontend.microsoft import NCHWC
from tests.support.oracle import Array

LEVELS = ("basic", "extended", "all")
NAMED = "level 'layout' or 'all'"
"""What a refusal of a file says that is not portable."""


def optimised(model: onnx.ModelProto | Path, level: str, folder: Path) -> onnx.ModelProto:
    """Return *model* as ONNX Runtime's optimiser writes it at *level*; *folder* is for its file."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level.upper()}")
    options.optimized_model_filepath = str(folder / f"{level}.onnx")
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    onnxruntime.InferenceSession(source, options, ["CPUExecutionProvider"])
    found = onnx.load(options.optimized_model_filepath)
    Path(options.optimized_model_filepath).unlink()
    return found


def optimised_transformer(
    model: onnx.ModelProto, folder: Path, *, heads: int, width: int, attention: str
) -> onnx.ModelProto:
    """Return an encoder as ``onnxruntime.transformers`` writes it, with *attention* as the operator of that."""
    from onnxruntime.transformers import optimizer
    from onnxruntime.transformers.fusion_options import FusionOptions

    options = FusionOptions("bert")
    options.use_multi_head_attention = attention == "MultiHeadAttention"
    onnx.save(model, folder / "encoder.onnx")
    source = str(folder / "encoder.onnx")
    found: onnx.ModelProto = optimizer.optimize_model(
        source, "bert", heads, width, optimization_options=options, opt_level=0
    ).model
    return found


def is_portable(model: onnx.ModelProto) -> bool:
    """Whether no operator of the model has its data in blocks for one processor."""
    return all(node.domain != NCHWC for node in model.graph.node)


def own_operators(model: onnx.ModelProto) -> Counter[str]:
    """Return how many nodes of each operator the model has that are ONNX Runtime's own."""
    return Counter(node.op_type for node in model.graph.node if node.domain not in ("", "ai.onnx"))


@dataclass(frozen=True)
class Row:
    """What became of a model at a level.

    Attributes:
        operators: ONNX Runtime's own.
        error: Worst difference to ONNX Runtime, relative to the range or largest value of an output; ``None``: not
            portable.
        wrong: Why it did not run, or was not refused as it should be.
    """

    model: str
    level: str
    operators: Counter[str]
    error: float | None
    wrong: str = ""


def rows(
    name: str, model: onnx.ModelProto | Path, feeds: Mapping[str, Array], folder: Path, device: str
) -> Iterator[Row]:
    """Yield what becomes of *model* at each level."""
    for level in LEVELS:
        made = optimised(model, level, folder)
        yield row_of(name, level, made, feeds, device)


def row_of(name: str, level: str, made: onnx.ModelProto, feeds: Mapping[str, Array], device: str) -> Row:
    """Return what becomes of the optimised model *made*."""
    operators = own_operators(made)
    shapes = {n: a.shape for n, a in feeds.items()}
    try:
        results = clgraph.compile(made, device, shapes=shapes).run(dict(feeds))
    except UnsupportedError as error:
        refused = not is_portable(made) and NAMED in str(error)
        return Row(name, level, operators, None, "" if refused else str(error))
    except ClgraphError as error:
        return Row(name, level, operators, None, str(error))
    return Row(name, level, operators, off(list(results.values()), made, feeds))


def off(results: Sequence[Array], model: onnx.ModelProto, feeds: Mapping[str, Array]) -> float:
    """Return how far *results* are from ONNX Runtime's: node by node or, if they are nearer, optimised.

    What is between DequantizeLinear and QuantizeLinear is floats node by node, and integers where it is optimised, here
    as there: sums beside a half are rounded to different sides.
    """
    levels = onnxruntime.GraphOptimizationLevel
    quantised = any(node.op_type == "QuantizeLinear" for node in model.graph.node)
    ways = (levels.ORT_DISABLE_ALL, levels.ORT_ENABLE_ALL) if quantised else (levels.ORT_DISABLE_ALL,)
    return min(worst(results, _expected(model, feeds, way)) for way in ways)


def _expected(
    model: onnx.ModelProto, feeds: Mapping[str, Array], level: onnxruntime.GraphOptimizationLevel
) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = level
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return list(session.run(None, dict(feeds)))


def worst(results: Sequence[Array], wanted: Sequence[Array]) -> float:
    """Return the worst difference of any output, relative to its range or largest finite value.

    Infinity where a shape or a type differs, or where something is not finite in only one of the two: a NaN among the
    differences would be dropped by ``max``.
    """
    errors = [0.0]
    for here, there in zip(results, wanted, strict=True):
        if (here.shape, here.dtype) != (there.shape, there.dtype):
            return float("inf")
        finite = np.isfinite(there)
        if not np.isfinite(here[finite]).all() or not np.array_equal(here[~finite], there[~finite], equal_nan=True):
            return float("inf")
        found, exact = (x[finite].astype(np.float64) for x in (here, there))
        scale = max(np.abs(exact).max(initial=0), np.ptp(exact) if exact.size else 0, 1e-30)
        errors.append(float(np.abs(found - exact).max(initial=0) / scale))
    return max(errors)
