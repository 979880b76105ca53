"""ONNX Runtime's functions that pack weights into few bits: they can be imported, and refuse to run."""

from typing import NoReturn

from clgraph.onnxruntime.statuses import NotImplemented as NotHere


def _refused(*_: object) -> NoReturn:
    raise NotHere("packing weights into few bits is ONNX Runtime's: quantise the model without clgraph, then run it")


quantize_matmul_2bits = quantize_matmul_4bits = quantize_matmul_8bits = quantize_matmul_bnb4 = _refused
quantize_qdq_matmul_2bits = quantize_qdq_matmul_4bits = pack_fp4_weights_for_cuda_moe_gemm = _refused
