"""What is written for GPUs runs on no CPU, whatever element type a model has."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
from onnx import TensorProto

from clgraph.compilation.entry import compile_model
from clgraph.errors import ClgraphError
from clgraph.passes.selection import choice_of
from tests.support.operator_types import models_of, operators

FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
PRODUCTS = ("Attention", "Conv", "Einsum", "GRU", "Gemm", "LSTM", "MatMul", "RMSNormalization")


def kernels(operator: str) -> Iterator[str]:
    """Yield the implementations that a CPU takes for the newest cases of *operator*, with their types of floats."""
    for code in FLOATS:
        for model in models_of(operator, code):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    program = compile_model(model, "null").prepare()
                except ClgraphError:  # shapes that data decide; what test_operator_types has as refused
                    continue
            for node in program:
                yield f"{TensorProto.DataType.Name(code)} {choice_of(node).implementation.name}"


@pytest.mark.parametrize("operator", PRODUCTS)
def test_no_product_runs_by_a_kernel_for_gpus(operator: str) -> None:
    found = set(kernels(operator))
    assert found
    assert not {name for name in found if "gpu" in name}


@pytest.mark.slow
def test_no_operator_runs_by_a_kernel_for_gpus() -> None:
    found = {(operator, name) for operator in operators() for name in kernels(operator) if "gpu" in name}
    assert not found
