"""Index of the modules by the ONNX operators and primitives they register, for lazy import.

What is not listed is found by importing all modules; ``tests/ops/test_index.py`` keeps the tables complete.
"""

from __future__ import annotations

from collections.abc import Mapping

ONNX: Mapping[str, str] = {
    "activation": "Abs Ceil Celu Cos Elu Erf Exp Floor Gelu HardSigmoid HardSwish LeakyRelu Log Mish Neg Not "
    "Reciprocal Relu Round Selu Sigmoid Sign Sin Softplus Softsign Sqrt Swish Tanh",
    "affine_grid": "AffineGrid",
    "arg": "ArgMax ArgMin",
    "batch_normalization": "BatchNormalization",
    "bits": "BitCast BitShift BitwiseNot",
    "cast_like": "CastLike",
    "center_crop_pad": "CenterCropPad",
    "col2im": "Col2Im",
    "compress": "Compress",
    "concat": "Concat",
    "conv_transpose": "ConvTranspose",
    "convolution": "Conv",
    "cumulative_product": "CumProd",
    "cumulative_sum": "CumSum",
    "deformable_convolution": "DeformConv",
    "determinant": "Det",
    "dynamic_quantize": "DynamicQuantizeLinear",
    "einsum": "Einsum",
    "eltwise": "Add And BitwiseAnd BitwiseOr BitwiseXor Clip Div Equal Greater GreaterOrEqual Less LessOrEqual Max "
    "Mean Min Mod Mul Or PRelu Pow Sub Sum Xor",
    "expand": "Expand Tile",
    "fill": "ConstantOfShape",
    "gather": "Gather",
    "gather_elements": "GatherElements",
    "gather_nd": "GatherND",
    "grid_sample": "GridSample",
    "hardmax": "Hardmax",
    "identity": "Dropout Identity",
    "if_else": "If",
    "integer_convolution": "ConvInteger",
    "integer_matmul": "MatMulInteger",
    "is_special": "IsInf IsNaN",
    "layer_normalization": "InstanceNormalization LayerNormalization",
    "loop": "Loop",
    "lp_norm": "GlobalLpPool LpNormalization LpPool",
    "lrn": "LRN",
    "matmul": "Gemm MatMul",
    "max_pool_indices": "MaxPool MaxUnpool",
    "moment_normalization": "GroupNormalization MeanVarianceNormalization RMSNormalization",
    "multi_head_attention": "Attention",
    "non_max_suppression": "NonMaxSuppression",
    "non_zero": "NonZero",
    "one_hot": "OneHot",
    "pad": "Pad",
    "pooling": "AveragePool",
    "qlinear": "DequantizeLinear QGemm QLinearAdd QLinearAveragePool QLinearConcat QLinearConv "
    "QLinearGlobalAveragePool QLinearLeakyRelu QLinearMatMul QLinearMul QLinearSigmoid QLinearSoftmax "
    "QuantizeLinear",
    "quantize": "DequantizeLinear QuantizeLinear",
    "recurrent": "GRU LSTM RNN",
    "reduce": "GlobalAveragePool GlobalMaxPool ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean "
    "ReduceMin ReduceProd ReduceSum ReduceSumSquare",
    "reorder": "Cast",
    "reshape": "Flatten Reshape Squeeze Unsqueeze",
    "resize": "Resize Upsample",
    "reverse_sequence": "ReverseSequence",
    "roi_align": "MaxRoiPool RoiAlign",
    "rotary_embedding": "RotaryEmbedding",
    "scan": "Scan",
    "scatter": "Scatter ScatterElements ScatterND TensorScatter",
    "sequence": "Range",
    "shape": "Shape Size",
    "slice": "Slice",
    "softmax": "LogSoftmax Softmax",
    "space": "DepthToSpace SpaceToDepth",
    "spectrum": "BlackmanWindow DFT HammingWindow HannWindow MelWeightMatrix STFT",
    "split": "Split",
    "swiglu": "SwiGLU",
    "tensor_sequence": "ConcatFromSequence SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert "
    "SequenceLength SplitToSequence",
    "threshold": "Shrink ThresholdedRelu",
    "top_k": "TopK",
    "transpose": "Transpose",
    "triangle": "EyeLike Trilu",
    "trigonometry": "Acos Acosh Asin Asinh Atan Atanh Cosh Sinh Tan",
    "unique": "Unique",
    "where": "Where",
}
"""ONNX's operators that a module imports."""

KINDS: Mapping[str, str] = {
    "bits": "bit_cast bit_shift bitwise_not",
    "expand": "repeat repeat_along",
    "is_special": "is_inf",
    "layer_normalization": "moments",
    "lp_norm": "lp_normalization lp_pool",
    "max_pool_indices": "max_unpool",
    "moment_normalization": "group_normalization mean_variance_normalization rms_normalization",
    "qlinear": "qlinear_convolution qlinear_matmul",
    "quantize": "dequantize",
    "reshape": "flatten squeeze unsqueeze",
    "roi_align": "max_roi_pool",
    "scatter": "scatter_elements scatter_nd tensor_scatter",
    "shape": "size",
    "space": "shuffle",
    "spectrum": "fourier_transform mel_weights short_time_fourier_transform window",
    "static_quantize": "dequantize_add",
    "tensor_sequence": "concat_from_sequence sequence_at sequence_construct sequence_erase sequence_insert "
    "sequence_length split_to_sequence",
    "triangle": "eye_like",
}
"""Primitives of modules that are not called like them."""
