"""What follows an operator and is fused with it: a sum behind a case of ONNX of each operator and type of floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import clgraph
from tests.support.node_cases import node_cases
from tests.support.onnx_case import ONNX_TYPES

pytestmark = pytest.mark.opencl

RANDOM = {"Bernoulli", "Multinomial", "RandomNormalLike", "RandomUniformLike"}
"""Operators that draw anew in each program."""


def _cases() -> dict[str, Any]:
    """Return the first case of each operator and type whose first result is floats, by a name."""
    found: dict[str, Any] = {}
    for case in node_cases():
        graph, (inputs, results) = case.model.graph, case.data_sets[0]
        plain = all(isinstance(one, np.ndarray) for one in (*inputs, results[0]))
        if plain and results[0].dtype in (np.float16, np.float32, np.float64) and results[0].size:
            kinds = {node.op_type for node in graph.node}
            name = f"{graph.node[-1].op_type}-{results[0].dtype}"
            domains = {entry.domain for entry in case.model.opset_import}
            if not kinds & RANDOM and "" in domains and not case.name.endswith("_expanded"):
                found.setdefault(name, case)
    return found


CASES = _cases()


@pytest.mark.parametrize("name", CASES)
def test_a_sum_behind_an_operator_is_of_its_results(name):
    case = CASES[name]
    source = case.model.graph
    feeds = dict(zip([i.name for i in source.input], case.data_sets[0][0], strict=False))
    alone = onnx.ModelProto()
    alone.CopyFrom(case.model)
    del alone.graph.output[1:]
    result = source.output[0].name
    with clgraph.compile(alone, "pocl") as compiled:
        wanted = compiled.run(feeds)[result]
    operand = np.random.default_rng(0).standard_normal(wanted.shape).astype(wanted.dtype)
    alone.graph.node.append(helper.make_node("Add", [result, "operand"], ["the_sum"]))
    kind = ONNX_TYPES[wanted.dtype]
    alone.graph.input.append(helper.make_tensor_value_info("operand", kind, wanted.shape))
    alone.graph.output[0].CopyFrom(helper.make_tensor_value_info("the_sum", kind, wanted.shape))
    with clgraph.compile(alone, "pocl") as compiled:
        found = compiled.run({**feeds, "operand": operand})["the_sum"]
    # Each of both programs rounds as the case allows; the sum itself is off by half a unit of its type.
    rounding = np.finfo(wanted.dtype).eps
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(found, wanted + operand, case.rtol, max(case.atol, 4 * rounding))
