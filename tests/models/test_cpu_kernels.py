"""What is written for GPUs runs on no CPU, whatever element type a model has."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto

from clgraph.compilation.entry import compile_model
from clgraph.core.dtype import DType
from clgraph.errors import ClgraphError
from clgraph.ops.matmul import MatMul
from clgraph.passes.chosen import choice_of
from tests.support.operator_types import models_of, operators
from tests.support.programs import ADD, MUL, Net, compile_all

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


@pytest.mark.parametrize(("numpy", "dtype"), [(np.float16, DType.F16), (ml_dtypes.bfloat16, DType.BF16)])
def test_what_is_folded_into_narrow_weights_is_of_the_type_of_the_result(numpy, dtype) -> None:
    net, rng = Net(), np.random.default_rng(0)
    x = net.input("x", (2, 32), dtype)
    for name in "abc":
        net.constant(f"{name}_w", rng.standard_normal((32, 24)).astype(numpy))
        net.constant(f"{name}_b", rng.standard_normal(24).astype(numpy))
        net.add(name, ADD, net.add(f"{name}_product", MatMul(), x, f"{name}_w"), f"{name}_b")
    net.constant("k", np.float32(6e4).astype(numpy))
    net.add("scaled", MUL, "c", "k")
    program = compile_all(net.program("a", "b", "scaled"))
    found = {choice_of(node).implementation.name for node in program if isinstance(node.primitive, MatMul)}
    assert found == {"matmul.narrow", "matmul.rows"}
    assert all(np.isfinite(v.constant.astype(np.float32)).all() for v in program.constants)


@pytest.mark.slow
def test_no_operator_runs_by_a_kernel_for_gpus() -> None:
    found = {(operator, name) for operator in operators() for name in kernels(operator) if "gpu" in name}
    assert not found
