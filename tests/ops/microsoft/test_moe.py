"""Experts with weights of 4 and 8 bits, against ONNX Runtime; forms that its CPU does not have, by their definition."""

from __future__ import annotations

import numpy as np
import pytest

import clgraph
from clgraph.errors import UnsupportedError
from clgraph.frontend.onnx_loader import load_onnx
from clgraph.model.stages.model import StagedModel
from tests.support.graph_writer import GraphWriter
from tests.support.onnx_case import one_node, onnxruntime_outputs, reference_outputs

F16 = np.float16
MICROSOFT = {"opset": 17, "domain": "com.microsoft"}
EXPERTS, WIDTH, INNER = 4, 32, 96


def packed(rng, bits, block, rows, columns):
    """Return weights, their scales and their zero points."""
    blocks = columns // block if block else 1
    weights = rng.integers(0, 256, (EXPERTS, rows, columns * bits // 8)).astype(np.uint8)
    scales = rng.uniform(0.005, 0.02, (EXPERTS, rows, blocks)).astype(F16)
    zeros = rng.integers(0, 256, (EXPERTS, rows, -(-blocks * bits // 8))).astype(np.uint8)
    return weights, scales if block else scales[..., 0], zeros if block else None


def quantised(rng, bits, block, *, biased, with_zeros, shares, rows=3, lean=0.0, normal=1):
    """Return inputs and attributes; the more the router's numbers *lean*, the more rows choose the last experts."""
    first = packed(rng, bits, block, 2 * INNER, WIDTH)
    second = packed(rng, bits, block, WIDTH, INNER)
    router = (rng.standard_normal((rows, EXPERTS)) + lean * np.arange(EXPERTS)).astype(F16)
    biases = [rng.standard_normal((EXPERTS, n)).astype(F16) if biased else None for n in (2 * INNER, WIDTH)]
    inputs = [rng.standard_normal((rows, WIDTH)).astype(F16), router, *first[:2], biases[0], *second[:2], biases[1]]
    inputs += [None] * 3
    inputs += [first[2], second[2]] if with_zeros else [None] * 2
    inputs += [None, rng.uniform(0, 1, router.shape).astype(F16)] if shares else []
    attributes = {"activation_type": "swiglu", "swiglu_fusion": 1, "k": 2, "expert_weight_bits": bits}
    attributes |= {
        "normalize_routing_weights": normal,
        "activation_alpha": 1.7,
        "activation_beta": 1.0,
        "weights_prepacked": 0,
    }
    return inputs, attributes | ({"block_size": block} if block else {})


@pytest.mark.parametrize(
    ("bits", "block", "more"),
    [
        (4, 0, {"biased": True, "with_zeros": False, "shares": False}),
        (4, 32, {"biased": False, "with_zeros": True, "shares": True}),
        (8, 0, {"biased": True, "with_zeros": False, "shares": True}),
        # Many rows stand in runs of one expert each.
        (4, 32, {"biased": True, "with_zeros": True, "shares": False, "rows": 70}),
        (4, 0, {"biased": False, "with_zeros": False, "shares": True, "rows": 70, "lean": 9.0}),
        # Shares add up to 1 unless they are given.
        (4, 32, {"biased": False, "with_zeros": False, "shares": False, "normal": 0}),
        (4, 32, {"biased": False, "with_zeros": False, "shares": True, "normal": 0}),
    ],
)
def test_quantised_experts_are_onnxruntimes(bits, block, more, rng):
    inputs, attributes = quantised(rng, bits, block, **more)
    while inputs[-1] is None:
        inputs.pop()
    constant = [i for i in range(2, len(inputs)) if inputs[i] is not None and i != 14]
    model, feeds = one_node("QMoE", inputs, **MICROSOFT, constant=constant, **attributes)
    (own,), (theirs,) = reference_outputs(load_onnx(model).build(), feeds), onnxruntime_outputs(model, feeds)
    # Sums of up to 96 products of halves: each is rounded to 11 bits here, ONNX Runtime has floats in between.
    np.testing.assert_allclose(own, theirs, 0, 16 * 2.0**-11 * np.abs(theirs).max())


def test_gate_and_value_apart_or_one_behind_the_other_are_the_interleaved_ones(rng):
    x, router = (rng.standard_normal((5, n)).astype(np.float32) for n in (6, EXPERTS))
    gate, value, second = (rng.standard_normal((EXPERTS, *s)).astype(np.float32) for s in ((4, 6), (4, 6), (6, 4)))
    forms = {
        0: [gate, None, second, None, value],
        1: [np.stack([gate, value], 2).reshape(EXPERTS, 8, 6), None, second],
        2: [np.concatenate([gate, value], 1), None, second],
    }
    made = []
    for fusion, weights in forms.items():
        given = {"activation_type": "swiglu", "swiglu_fusion": fusion, "k": 2}
        model, feeds = one_node("MoE", [x, router, *weights], **MICROSOFT, **given)
        made += reference_outputs(load_onnx(model).build(), feeds)
    for y in made[1:]:
        np.testing.assert_allclose(y, made[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        ({"activation_type": "geglu"}, "activation_type is one of .*, not 'geglu'"),
        ({"activation_type": "swiglu"}, "swiglu_fusion=0 without fc3 is not a swiglu"),
        ({"swiglu_limit_after_activation": 1}, "swiglu_limit_after_activation=1 is not supported"),
    ],
)
def test_other_forms_are_refused_by_name(attributes, why):
    zeros = [np.zeros(s, np.float32) for s in ((1, 2), (1, 2), (2, 2, 2), (2, 2, 2))]
    model, _ = one_node("MoE", [*zeros[:3], None, zeros[3]], **MICROSOFT, **attributes)
    with pytest.raises(UnsupportedError, match=why):
        load_onnx(model)


def test_weights_of_few_bits_stay_packed_where_records_have_their_blocks(rng):
    for block, kind in ((32, np.uint8), (4, F16)):
        inputs, attributes = quantised(rng, 4, block, biased=False, with_zeros=False, shares=False)
        constant = [i for i in range(2, 11) if inputs[i] is not None]
        model, _ = one_node("QMoE", inputs[:8], **MICROSOFT, constant=constant, **attributes)
        weights = [a for a in load_onnx(model).constants.values() if a.ndim > 2]
        assert {a.dtype for a in weights} == {np.dtype(kind)}


@pytest.mark.opencl
@pytest.mark.parametrize("quantised_weights", [False, True])
def test_any_number_of_rows_is_one_program(device, rng, quantised_weights):
    """What the router chooses is no size: a first run of floats and records is compiled as any other model's."""
    g = GraphWriter("experts", opset=17)
    x = g.input("x", ("rows", WIDTH))
    scores = g.add("MatMul", x, g.weight(WIDTH, EXPERTS, fan_in=WIDTH, gain=1.0))
    if quantised_weights:
        (w1, s1, _), (w2, s2, _) = packed(rng, 4, 32, INNER, WIDTH), packed(rng, 4, 32, WIDTH, INNER)
        reads = [g.constant(a) for a in (w1, s1.astype(np.float32))] + [""]
        reads += [g.constant(a) for a in (w2, s2.astype(np.float32))]
        y = g.add(
            "QMoE",
            x,
            scores,
            *reads,
            k=2,
            activation_type="silu",
            expert_weight_bits=4,
            block_size=32,
            domain="com.microsoft",
        )
    else:
        shapes = ((EXPERTS, INNER, WIDTH), (EXPERTS, INNER), (EXPERTS, WIDTH, INNER), (EXPERTS, WIDTH))
        reads = [g.constant(rng.standard_normal(s).astype(np.float32)) for s in shapes]
        y = g.add("MoE", x, scores, *reads, k=2, activation_type="silu", domain="com.microsoft")
    model = g.model(y)
    model.opset_import.add(domain="com.microsoft", version=1)
    compiled = clgraph.compile(model, device)
    assert not isinstance(compiled, StagedModel)
    for rows in (1, 2, 9, 40):
        feeds = {"x": rng.standard_normal((rows, WIDTH)).astype(np.float32)}
        (own,), (theirs,) = compiled.run(feeds).values(), onnxruntime_outputs(model, feeds)
        # As below: up to 96 terms in each sum, whose magnitudes together are below four times the largest result.
        np.testing.assert_allclose(own, theirs, 0, 512 * 2.0**-24 * np.abs(theirs).max())


@pytest.mark.opencl
@pytest.mark.parametrize("lean", [0.0, 9.0])
def test_experts_of_a_device_are_onnxruntimes_for_any_number_of_rows(device, rng, lean):
    """One program for few, whose pairs take copies of weights, and one for many, in runs; in float32."""
    inputs, attributes = quantised(rng, 4, 32, biased=True, with_zeros=False, shares=False, rows=75, lean=lean)
    inputs = [None if a is None else a.astype(np.float32) if a.dtype == F16 else a for a in inputs[:8]]
    constant = [i for i in range(2, 8) if inputs[i] is not None]
    for rows in (1, 6, 75):
        first = [a[:rows] for a in inputs[:2]]
        made, feeds = one_node("QMoE", [*first, *inputs[2:]], **MICROSOFT, constant=constant, **attributes)
        (theirs,) = onnxruntime_outputs(made, feeds)
        (own,) = clgraph.compile(made, device).run(feeds).values()
        # A layer has up to 96 roundings of its sums in ONNX Runtime, 8 and the digits' half steps here, each 2^-24 of
        # a sum of magnitudes that is at most four times the largest result; the second one's meet the first one's.
        np.testing.assert_allclose(own, theirs, 0, 512 * 2.0**-24 * np.abs(theirs).max())
