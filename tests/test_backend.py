"""ONNX's own test cases of single nodes through :mod:`clgraph.backend`: all that clgraph imports must pass.

The default run takes the first two cases of each operator; ``-m slow`` takes all.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from functools import cache

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import clgraph.backend
from clgraph.errors import InputError, UnsupportedError

STRINGS = "strings are no tensors of numbers"
TRAINING = "clgraph runs models, it does not train them"
RANDOM = "results at random are no function of the inputs"
SEQUENCES = "sequences and optionals are held inside of a model only"
NEWEST = "of an operator set that no exporter writes yet; the operator's expansion into others is run"

WITHOUT: dict[str, str] = {
    "StringSplit": STRINGS,
    "StringNormalizer": STRINGS,
    "StringConcat": STRINGS,
    "RegexFullMatch": STRINGS,
    "TfIdfVectorizer": STRINGS,
    "ai.onnx.ml.LabelEncoder": STRINGS,
    "ImageDecoder": "files of pictures are read before a model is run",
    "SoftmaxCrossEntropyLoss": TRAINING,
    "NegativeLogLikelihoodLoss": TRAINING,
    "ai.onnx.preview.training.Adam": TRAINING,
    "ai.onnx.preview.training.Adagrad": TRAINING,
    "ai.onnx.preview.training.Momentum": TRAINING,
    "Bernoulli": RANDOM,
    "RandomUniformLike": RANDOM,
    "SequenceMap": SEQUENCES,
    "Optional": SEQUENCES,
    "OptionalHasElement": SEQUENCES,
    "OptionalGetElement": SEQUENCES,
    "LinearAttention": NEWEST,
    "CausalConvWithState": NEWEST,
    "ai.onnx.preview.FlexAttention": NEWEST,
    "ai.onnx.ml.ArrayFeatureExtractor": "of ONNX's operators for trees and tables",
    "ai.onnx.ml.Binarizer": "of ONNX's operators for trees and tables",
    "ai.onnx.ml.TreeEnsemble": "of ONNX's operators for trees and tables",
}
"""Operators that clgraph does not import, and why."""

REFUSED: dict[str, str] = {
    r"has element type \w+, which clgraph does not hold": "bfloat16, types of 8 bits and less, strings",
    r"is a (sequence|optional), not a tensor": SEQUENCES,
    r"training_mode": TRAINING,
    r"extrapolation_value": "what lies outside of the image is 0",
}
"""What else is refused, by the message, and why."""

OTHERWISE: dict[str, str] = {
    "test_resize_downsample_scales_linear_align_corners": "the result's size is a whole number, as in ONNX Runtime",
    "test_resize_downsample_scales_cubic_align_corners": "the result's size is a whole number, as in ONNX Runtime",
}
"""Cases whose expected results are not what others compute either."""

MISSING = re.compile(r"operators that clgraph does not have: ([^;]*)")


@cache
def cases():
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name: case for case in collect_testcases(None)}


def operators(case):
    return {node.op_type for node in case.model.graph.node}


def few():
    """Return the first two cases of each operator, not of expansions of one."""
    seen, found = Counter(), []
    for name, case in cases().items():
        (operator, *more) = sorted(operators(case))
        if not more and seen[operator] < 2:
            seen[operator] += 1
            found.append(name)
    return found


def tolerances(case):
    """Return the case's own, but where sums of halves are rounded at every step there: two of a half's ulps."""
    halves = any(
        value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT16
        for value in (*case.model.graph.input, *case.model.graph.output)
    )
    return max(case.rtol, 2.0**-9 if halves else 0.0), max(case.atol, 1e-6)


def as_array(value):
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def outcome(case, device):
    """Return ``None`` when the case passes, else why it is refused; raises ``AssertionError`` when it is wrong."""
    rtol, atol = tolerances(case)
    try:
        prepared = clgraph.backend.prepare(case.model, device)
        for inputs, outputs in case.data_sets:
            results = prepared.run([as_array(a) for a in inputs])
            for got, want in zip(results, map(as_array, outputs), strict=True):
                assert (got.shape, got.dtype) == (want.shape, want.dtype)
                if want.dtype.kind in "fc":
                    np.testing.assert_allclose(got, want, rtol, atol)
                else:
                    np.testing.assert_array_equal(got, want)
    except UnsupportedError as error:
        return str(error)
    return None


def explained(why):
    """Return the reasons that the lists above have for a refusal."""
    missing = MISSING.search(why)
    if missing:
        names = [
            re.sub(r"-\d+$", "", part.split(" (")[0]) for part in re.sub(r"\(read[^)]*\) ", "", missing[1]).split(", ")
        ]
        return [WITHOUT[name] for name in names if name in WITHOUT]
    return [reason for pattern, reason in REFUSED.items() if re.search(pattern, why)]


def holds(name, device):
    if name in OTHERWISE:
        with pytest.raises(AssertionError):
            outcome(cases()[name], device)
        return
    why = outcome(cases()[name], device)
    assert why is None or explained(why), why


@pytest.mark.opencl
@pytest.mark.filterwarnings("ignore")
def test_the_first_cases_of_each_operator_pass_or_are_refused_for_a_reason(device):
    for name in few():
        try:
            holds(name, device)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.filterwarnings("ignore")
def test_every_case_passes_or_is_refused_for_a_reason(device):
    used: Counter[str] = Counter()
    wrong = []
    for name, case in cases().items():
        if name in OTHERWISE:
            holds(name, device)
            continue
        try:
            why = outcome(case, device)
        except AssertionError as error:
            wrong.append(f"{name}: {str(error)[:300]}")
            continue
        used.update(["passed"] if why is None else explained(why))
        if why is not None and not explained(why):
            wrong.append(f"{name}: {why[:300]}")
    print(dict(used))
    assert not wrong, "\n".join(wrong)
    assert used["passed"] > 1400
    assert set(used) >= {*WITHOUT.values(), *REFUSED.values()}, "a reason that nothing needs any more"


def relu():
    inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2])]
    outputs = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2])]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "relu", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.opencl
def test_inputs_come_in_order_by_name_or_alone():
    x = np.array([-1, 2], np.float32)
    prepared = clgraph.backend.prepare(relu(), device="CPU")
    for inputs in ([x], {"x": x}, x):
        np.testing.assert_array_equal(prepared.run(inputs).y, [0, 2])
    np.testing.assert_array_equal(clgraph.backend.run_model(relu(), [x])[0], [0, 2])
    with pytest.raises(InputError, match="2 inputs"):
        prepared.run([x, x])
    with pytest.raises(InputError, match="speed"):
        prepared.run([x], speed=9)


def test_devices_and_models_that_are_not_there_are_told_apart():
    assert clgraph.backend.supports_device("CPU")
    assert clgraph.backend.supports_device("host")
    assert not clgraph.backend.supports_device("VPU")
    assert clgraph.backend.is_compatible(relu())
    model = relu()
    model.graph.node[0].op_type = "StringNormalizer"
    assert not clgraph.backend.is_compatible(model)
    with pytest.raises(UnsupportedError, match="run_model"):
        clgraph.backend.run_node(relu().graph.node[0], [np.zeros(2, np.float32)])
