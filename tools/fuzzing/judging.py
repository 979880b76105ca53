"""What must hold of any bytes given as a model: one error of one line, or results, which ONNX Runtime shares."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

import clgraph
from clgraph.errors import (
    ClgraphError,
    DeviceError,
    DeviceMemoryError,
    InputError,
    InternalError,
    ModelError,
    ProgramError,
    ShapeError,
    UnsupportedError,
)
from clgraph.frontend.onnx_loader import load_onnx
from clgraph.graph.signature import Signature
from tests.support.rounding import bounds, unfolded
from tools.fuzzing.peers import GENERATORS, OTHERWISE, SHARED, STRANGE, WINDOWS, flattened
from tools.fuzzing.reduction import with_outputs

Array = NDArray[Any]
Say = Callable[[str], None]
Allowed = Mapping[str, Array | None]

LEVELS = ("load", "null", "run", "files")
"""How far a model is taken: read and bound to shapes; compiled without a device; run and compared. Or other files."""

UNBOUNDED = {"DFT", "MelWeightMatrix", "STFT"}
"""Operators that no rule bounds: functions of integers, which are folded in one."""
WINDOW = 16 * 2.0**-24
"""Most that a window is off by, of terms up to 1 of angles up to 4 pi that three roundings have made."""

MOST_ELEMENTS = 1 << 20
"""Inputs of more elements are not made: the case counts as compiled."""

LIBRARY = "library"
"""What a child says when a library of kernels is compiled, which takes longer than a case."""
PEER = "onnxruntime"
"""What a child says before it asks ONNX Runtime, which may crash on what is broken."""

WRONG = ("raised", "internal error", "several lines", "differs", "reference differs", "damaged", "crashed", "hung")
"""Outcomes that must not be. A result differs from the device's own references, or these from ONNX Runtime."""

PACKAGE = Path(clgraph.__file__).parent


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a case: one word or two, and more about it."""

    kind: str
    detail: str = ""

    @property
    def is_wrong(self) -> bool:
        """Whether it must not be."""
        return self.kind in WRONG


def judge(
    data: bytes,
    feeds: Mapping[str, Array],
    level: str,
    device: str = "pocl",
    say: Say = lambda _: None,
    *,
    valid: bool = False,
    single: bool = False,
) -> Outcome:
    """Return what becomes of a model.

    Args:
        feeds: Inputs that the model took before it was changed; others are made up where they do not fit any more.
        say: Told ``PEER`` before ONNX Runtime is asked.
        valid: The model is one that should run: every refusal is compared with ONNX Runtime's opinion, and results may
            differ by no more than rounding explains (``tests.support.rounding``).
        single: It is one operator, whose results are to be the same where they are not finite.
    """
    try:
        if level == "load":
            topology = load_onnx(data)
            topology.build({s.name: a.shape for s, a in _inputs(topology.inputs.values(), feeds)})
            return Outcome("accepted")
        return _run(data, feeds, level, device, say, valid, single)
    except ClgraphError as error:
        outcome = judged(error)
        told = valid or isinstance(error, ModelError | ShapeError | InputError)
        if level == "run" and outcome.kind == "refused" and told:
            say(PEER)
            if _expected(data, feeds, as_written=valid)[0] is not None:
                return Outcome("only clgraph refuses", f"{type(error).__name__}: {error}")
        return outcome
    except Exception as error:  # anything else must not come out of clgraph: that is what is looked for
        return Outcome("raised", f"{place(error)} {type(error).__name__}: {error}")


def _run(
    data: bytes, feeds: Mapping[str, Array], level: str, device: str, say: Say, valid: bool, single: bool
) -> Outcome:
    model = clgraph.compile(data, device="null" if level == "null" else device)
    with model:
        inputs = dict(_inputs_of(model.inputs, feeds))
        if any(array is None for array in inputs.values()):
            return Outcome("compiled", "an input is too large to be made")
        arrays = {name: array for name, array in inputs.items() if array is not None}
        if level == "null":
            model.prepare({name: array.shape for name, array in arrays.items()})
            return Outcome("compiled")
        results = model.run(arrays)
    say(PEER)
    allowed = _allowed(data, arrays, results) if valid else {}
    expected, why = _expected(data, arrays, as_written=valid)
    outcome = compared(results, expected, why, allowed)
    asked = ("differs", "peer refused") if valid else ("differs",)
    if outcome.kind not in asked:
        return outcome
    return _explained(outcome, data, arrays, results, expected or {}, allowed, single)


def _allowed(data: bytes, feeds: Mapping[str, Array], results: Mapping[str, Array]) -> Allowed:
    """Return how far the results of *data* may be from exact ones; nothing of those for which that cannot be told."""
    model = onnx.load_from_string(data)
    found: dict[str, Array | None] = {}
    if all(n.op_type in WINDOWS for n in model.graph.node):
        return {name: np.full(array.shape, WINDOW) for name, array in results.items()}
    if any(n.op_type in UNBOUNDED.union(GENERATORS, WINDOWS) for n in model.graph.node) or any(
        not a.size for a in feeds.values()
    ):
        return found
    for output in model.graph.output:
        part, given = with_outputs(model, [output.name], feeds)
        try:
            found |= bounds(unfolded(load_onnx(part)), given)
        except (ClgraphError, ValueError):  # shapes that depend on data, control flow; or a rule wants elements
            continue
    return found


def _explained(
    outcome: Outcome,
    data: bytes,
    feeds: Mapping[str, Array],
    results: Mapping[str, Array],
    expected: Mapping[str, Any],
    allowed: Allowed,
    single: bool,
) -> Outcome:
    """Return whose results are the odd ones: the device's, the references', or ONNX Runtime's."""
    with clgraph.compile(data, device="host") as model:
        kinds = set(model.topology.op_types.values())
        if kinds & set(GENERATORS):
            return Outcome("peer differs", outcome.detail)
        own = compared(results, model.run(dict(feeds)), "", allowed)
    if outcome.kind == "peer refused":
        return own if own.kind == "differs" else outcome
    if own.kind == "differs":
        return Outcome("differs", f"{own.detail} by the references ({outcome.detail} by onnxruntime)")
    strange = " not finite" in outcome.detail
    if strange and not single:
        return Outcome("peer differs", outcome.detail)
    if (strange or kinds & set(SHARED)) and single:
        found = _by_onnx(data, feeds, results)
        if found and strange:
            found = {n: _where_strange(results[n], expected[n], a) for n, a in found.items()}
        if found and compared(results, found, "", allowed).kind == "equal":
            return Outcome("peer differs", outcome.detail)
    known = kinds & (set(OTHERWISE) | (set(STRANGE) if strange else set()))
    return Outcome("peer differs" if known else "reference differs", outcome.detail)


def _by_onnx(data: bytes, feeds: Mapping[str, Array], results: Mapping[str, Array]) -> dict[str, Any]:
    """Return what ONNX's own references compute, in the width of floats of *results*; nothing where they do not."""
    from onnx.reference import ReferenceEvaluator

    model = flattened(onnx.load_from_string(data), {name: array.shape for name, array in results.items()})
    try:
        found = ReferenceEvaluator(model).run(None, dict(feeds))
    except Exception:  # not every operator has one, for all types
        return {}
    named = dict(zip([o.name for o in model.graph.output], found, strict=True))
    return {n: a.astype(results[n].dtype) if _is_real(a) and _is_real(results[n]) else a for n, a in named.items()}


def _is_real(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.dtype.kind == "f"


def _where_strange(here: Any, there: Any, by_onnx: Any) -> Any:
    """Return *here*, but *by_onnx* where two results differ and one of them is not finite."""
    if not all(_is_real(a) and a.shape == here.shape for a in (here, there, by_onnx)):
        return by_onnx
    differ = ~((here == there) | (np.isnan(here) & np.isnan(there))) & ~(np.isfinite(here) & np.isfinite(there))
    return np.where(differ, by_onnx, here)


def judged(error: ClgraphError) -> Outcome:
    """Return what an error of clgraph comes to: a refusal, if it is of the right class and of one line.

    Only what lists the kernels that do not serve an operator has several.
    """
    if isinstance(error, InternalError) and (cause := error.__cause__) is not None:
        return Outcome("raised", f"{place(cause)} {type(cause).__name__}: {cause}")
    name, text = type(error).__name__, str(error)
    told = isinstance(error, DeviceMemoryError) or text.startswith("no device is called")
    internal = isinstance(error, InternalError | ProgramError | DeviceError) and not told
    if internal:
        return Outcome("internal error", f"{place(error)} {name}: {text}")
    if ("\n" in text and not isinstance(error, UnsupportedError)) or not text or len(text) > 20_000:
        return Outcome("several lines", f"{place(error)} {name}: {text[:300]!r}")
    return Outcome("refused", name)


def place(error: BaseException) -> str:
    """Return the file and line of clgraph that *error* came from."""
    places = [(Path(f.filename), f.lineno) for f in traceback.extract_tb(error.__traceback__)]
    own = [(path.relative_to(PACKAGE), line) for path, line in places if path.is_relative_to(PACKAGE)]
    return f"{own[-1][0].as_posix()}:{own[-1][1]}" if own else "outside"


def _inputs(signatures: Any, feeds: Mapping[str, Array]) -> list[tuple[Signature, Array]]:
    found = zip(signatures, (a for _, a in _inputs_of(signatures, feeds)), strict=True)
    return [(s, a) for s, a in found if a is not None]


def _inputs_of(signatures: Any, feeds: Mapping[str, Array]) -> list[tuple[str, Array | None]]:
    """Return an array for each input: of *feeds* where that fits, ``None`` where it would be too large."""
    sizes: dict[str, int] = {}
    random = np.random.default_rng(0)
    made: list[tuple[str, Array | None]] = []
    for signature in signatures:
        given = feeds.get(signature.name)
        if given is not None and given.dtype.kind in "OSU" and signature.dtype is None and _fits(signature, given):
            made.append((signature.name, given))
            continue
        dtype = np.dtype(np.float32) if signature.dtype is None else signature.dtype.numpy
        if given is not None and given.dtype == dtype and _fits(signature, given):
            made.append((signature.name, given))
            continue
        shape = given.shape if given is not None and _fits(signature, given) else None
        if shape is None:
            dims = () if signature.shape is None else signature.shape
            shape = tuple(d if isinstance(d, int) else sizes.setdefault(str(d), 2) for d in dims)
        if int(np.prod(shape, dtype=object)) > MOST_ELEMENTS:
            made.append((signature.name, None))
        else:
            values = random.integers(0, 2, shape) if dtype.kind in "iub" else random.normal(size=shape)
            made.append((signature.name, np.asarray(values).astype(dtype)))
    return made


def _fits(signature: Signature, array: Array) -> bool:
    if signature.shape is None:
        return True
    pairs = list(zip(signature.shape, array.shape, strict=False))
    return len(signature.shape) == array.ndim and all(not isinstance(d, int) or d == size for d, size in pairs)


def _expected(
    data: bytes, feeds: Mapping[str, Array], *, as_written: bool = False
) -> tuple[dict[str, Array] | None, str]:
    """Return ONNX Runtime's results, or ``None`` and what it says against the model.

    Args:
        as_written: Let it optimize nothing: it quantizes the first input of products with quantized weights.
    """
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    if as_written:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        results = session.run(None, dict(feeds))
    except Exception as error:  # onnxruntime's errors have no class of their own in common
        return None, str(error).splitlines()[0] if str(error) else type(error).__name__
    outputs = session.get_outputs()
    return {o.name: _typed(array, o.type) for o, array in zip(outputs, results, strict=True)}, ""


def _typed(array: Any, spelled: str) -> Any:
    """Return *array* with the element type of the output: ONNX Runtime gives the bytes of one type of 8 bits."""
    is_bytes = spelled == "tensor(float8e4m3fn)" and array.dtype == np.uint8
    return array.view(helper.tensor_dtype_to_np_dtype(onnx.TensorProto.FLOAT8E4M3FN)) if is_bytes else array


def compared(
    results: Mapping[str, Array], wanted: Mapping[str, Any] | None, why: str, allowed: Allowed | None = None
) -> Outcome:
    """Return how *results* agree with those *wanted*; where there are none, *why* not.

    Args:
        allowed: How far each side may be from the exact result, where that is known.
    """
    if wanted is None:
        return Outcome("peer refused", why)
    if set(results) != set(wanted):
        return Outcome("differs", f"outputs are {sorted(results)}, not {sorted(wanted)}")
    for name, there in wanted.items():
        if isinstance(there, list):  # of a sequence's tensors, or what a map's keys and values are
            outcome = compared(_numbered(results[name]), _numbered(there), "")
            if outcome.kind != "equal":
                return Outcome(outcome.kind, f"in output {name!r}: {outcome.detail}")
            continue
        if not isinstance(there, np.ndarray):
            continue
        here = np.asarray(results[name])
        if (here.shape, here.dtype) != (there.shape, there.dtype):
            what = f"{here.dtype} {list(here.shape)}, not {there.dtype} {list(there.shape)}"
            return Outcome("differs", f"output {name!r} is {what}")
        bound = (allowed or {}).get(name)
        narrow = here.dtype.itemsize < 4 and here.dtype.kind in "fV"  # whose roundings are not in the bounds
        wrong = _difference(here, there) if bound is None or narrow else _beyond(here, there, bound)
        if wrong is not None:
            return Outcome("differs", f"output {name!r}: {wrong}")
    return Outcome("equal")


def _numbered(parts: Sequence[Any]) -> dict[str, Any]:
    return {str(i): part for i, part in enumerate(parts)}


def _beyond(here: Array, there: Array, bound: Array) -> str | None:
    """Return where two results differ by more than twice *bound*, which each of them keeps."""
    exact = bound < 2.0**-120
    with np.errstate(all="ignore"):
        distance = np.abs(here.astype(np.float64) - there.astype(np.float64))
        near = (distance <= 2 * bound) & ~(exact & (here.dtype.kind != "f"))
    wrong = ~((here == there) | near)
    if here.dtype.kind == "f":
        wrong &= ~(np.isnan(here) & np.isnan(there))
        finite = np.isfinite(here) & np.isfinite(there)
        if (strange := wrong & ~finite).any():
            return f"{here[strange][0]}, not {there[strange][0]}: not finite"
        wrong &= finite
    wrong &= np.isfinite(bound)
    if not wrong.any():
        return None
    at = np.unravel_index(np.argmax(np.where(wrong, distance, -1)), here.shape)
    what = f"{int(wrong.sum())} of {here.size} elements, {here[at]}, not {there[at]}"
    return f"{what}: off by {distance[at]:.3g}, at most {2 * bound[at]:.3g}"


def _difference(here: Array, there: Array) -> str | None:
    """Return how two results differ.

    Numbers may by 2e-4 of the largest: each side is within 1e-4 of it, which is what kernels promise (halves and
    bfloat16: 8 ulps).
    """
    most = {"float16": 2.0**-8, "bfloat16": 2.0**-5}.get(here.dtype.name, 2e-4)
    if here.dtype.kind == "V":  # a type of ``ml_dtypes``
        here, there = here.astype(np.float32), there.astype(np.float32)
    if here.dtype.kind != "f":
        wrong = here != there
        return (
            f"{int(wrong.sum())} of {here.size} elements, {here[wrong][0]}, not {there[wrong][0]}"
            if wrong.any()
            else None
        )
    finite = np.isfinite(there)
    if not np.array_equal(here[~finite], there[~finite], equal_nan=True) or not np.isfinite(here[finite]).all():
        wrong = ~((here == there) | (np.isnan(here) & np.isnan(there)) | (finite & np.isfinite(here)))
        return f"{here[wrong][0]}, not {there[wrong][0]}: not finite"
    if not finite.any():
        return None
    exact = there[finite].astype(np.float64)
    error = np.abs(here[finite].astype(np.float64) - exact)
    scale = float(np.abs(exact).max())
    return f"off by {error.max():.3g} of {scale:.3g}" if error.max() > most * scale + 1e-30 else None
