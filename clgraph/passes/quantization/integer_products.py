"""Eligibility of quantised convolutions and matrix products for integer kernels, and their integer operands."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.graph.integers import Integers
from clgraph.graph.node import Fused, Node, Value
from clgraph.graph.primitive import Array, Primitive
from clgraph.graph.program import Program
from clgraph.ops.conv_transpose import ConvTranspose
from clgraph.ops.convolution import Convolution
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.matmul import MatMul
from clgraph.ops.quantized_conv_transpose import QuantizedConvTranspose
from clgraph.ops.quantized_convolution import QuantizedConvolution
from clgraph.ops.quantized_matmul import QuantizedMatMul
from clgraph.passes.base import Context
from clgraph.passes.quantization.steps import Steps, steps_of
from clgraph.passes.quantization.weight_bytes import bytes_of, less_zero, shift_of
from clgraph.selector.query import DeviceInfo, Query

Quantized = QuantizedConvolution | QuantizedMatMul | QuantizedConvTranspose
MOST = 2**23
"""Up to this sum of weights' sizes any sum of products with 8 bits, and its start, is an int."""
BANDWIDTH = 0.6
"""Share of a device's peak at which kernels move bytes. An estimate."""
_VECTOR = 16
"""Floats that a CPU's kernels take at a time."""
_ROOM = 2**22
"""Of a bias in it: what is left of an int."""


def byte_type(device: DeviceInfo) -> DType:
    """Return the bytes that the kernels of *device* multiply: ``vpdpbusd`` wants unsigned ones."""
    return DType.U8 if device.kind == "cpu" else DType.I8


def listed_seconds(device: DeviceInfo, value: Layout, operations: int) -> float:
    """Return what a product of floats takes for *operations* of a list on its result *value*, 0 but on CPUs."""
    vectors = value.count / _VECTOR / device.whole.workers
    return operations * vectors * device.costs.unit("copy.vector") if device.kind == "cpu" else 0.0


@frozen
class IntegerProduct:
    """A product of floats, and what computes it from integers.

    Attributes:
        node: The product of floats; *x* is what it reads, on the steps *steps*.
        weights: Less their zero point and *shift*, I8, as the primitive takes them.
        scale, bias: As the primitive takes them, float32.
        whole: A bias of integers with the scale of the sums, int32; they start with it.
        shift: What is taken off weights that fit no I8: unsigned ones around no 128. All outputs have one scale then.
            Kernels of CPUs add it again; elsewhere a product with ones makes up for it.
    """

    node: Node
    x: Value
    steps: Steps
    primitive: Quantized
    integers: Integers
    weights: Array
    scale: Array
    bias: Array
    whole: Array
    shift: int = 0

    def query(self, context: Context, dtype: DType = DType.F32) -> Query[Primitive]:
        """Return its query on the device of its node, with a result in *dtype*."""
        outputs = self.scale.size
        device = context.device(self.node)
        start = (
            (*self.weights.shape[:-2], outputs) if isinstance(self.primitive, QuantizedConvTranspose) else (outputs,)
        )
        parameters = (Layout(DType.I32, start), *(Layout(DType.F32, (outputs,)),) * 2)
        inputs = (Layout(byte_type(device), self.x.layout.shape), Layout.of(self.weights), *parameters)
        primitive = replace(self.on(byte_type(device)), dtype=dtype)
        made = primitive.infer(inputs)
        q = Query[Primitive](primitive, inputs, made, device, 5, constant=frozenset({1, 2, 3, 4}))
        if not self.sums_apart(device):
            return q
        (sums,) = self.window_sums(context).outputs
        return replace(q, inputs=(*inputs, replace(sums, dtype=dtype)), fused=(Fused(Eltwise("add"), (5,)),))

    def sums_apart(self, device: DeviceInfo) -> bool:
        """Whether another product adds up the windows on *device*, because kernels there do not add the shift."""
        return self.shift != 0 and byte_type(device) != DType.U8

    def window_sums(self, context: Context) -> Query[Primitive]:
        """Return the query of what the shift of the weights adds: a multiple of what each window adds up to."""
        ones = self._ones()
        start, *numbers = (Layout(t, (windows_of(self.primitive),)) for t in (DType.I32, DType.F32, DType.F32))
        device = context.device(self.node)
        x = Layout(byte_type(device), self.x.layout.shape)
        inputs, primitive = (x, Layout.of(ones), start, *numbers), self.on(x.dtype)
        return Query(primitive, inputs, primitive.infer(inputs), device, 5, constant=frozenset({1, 2, 3, 4}))

    def _ones(self) -> Array:
        shape = list(self.weights.shape)
        shape[outputs_axis(self.primitive)] = windows_of(self.primitive)
        return np.ones(shape, np.int8)

    def shifted_by(self, program: Program, x: Value) -> list[Value]:
        """Return the inputs of the primitive that adds up the windows of the integers *x*."""
        ones = self._ones()
        count = ones.size // windows_of(self.primitive)
        numbers = {
            "ones": ones,
            "ones_start": np.full(windows_of(self.primitive), -self.steps.zero(x.layout.dtype) * count, np.int32),
            "shift": np.full(windows_of(self.primitive), self.scale[0] * np.float32(self.shift), np.float32),
            "no_bias": np.zeros(windows_of(self.primitive), np.float32),
        }
        return [x, *(program.constant(f"{self.node.name}/{n}", a) for n, a in numbers.items())]

    def on(self, dtype: DType) -> Quantized:
        """Return the primitive that reads bytes of *dtype*."""
        p = self.primitive
        if dtype == DType.U8 and not isinstance(p, QuantizedConvTranspose):
            p = replace(p, shift=self.shift)
        return replace(p, zero=self.steps.zero(dtype)) if isinstance(p, QuantizedConvolution) else p

    def inputs(self, program: Program, context: Context, x: Value) -> list[Value]:
        """Return the inputs of the primitive that reads the integers *x*."""
        name, w = self.node.name, self.weights
        zero = [] if self.integers.zero is None else [self.integers.zero]
        windows = isinstance(self.primitive, QuantizedConvTranspose)
        recipe = "integers of windows less their zero point" if windows else "integers less their zero point"
        recipe += f" and {self.shift}" * (self.shift != 0)
        w = context.packed.once(recipe, [self.integers.data, *zero], lambda: w)
        along = (2,) if windows else tuple(a for a in range(w.ndim) if a != outputs_axis(self.primitive))
        sums = w.sum(along, dtype=np.int64)
        if not self.sums_apart(context.device(self.node)):
            sums += self.shift * (w.size // sums.size)
        start = -self.steps.zero(x.layout.dtype) * sums
        parameters = {"start": (start + self.whole).astype(np.int32), "scale": self.scale, "bias": self.bias}
        return [
            x,
            program.constant(f"{name}/weights", w),
            *(program.constant(f"{name}/{n}", a) for n, a in parameters.items()),
        ]


def integer_product(node: Node) -> IntegerProduct | str | None:
    """Return what computes *node* from integers, why nothing does, or ``None``: its weights are no integers."""
    p = node.primitive
    if not isinstance(p, Convolution | MatMul | ConvTranspose) or node.fused or len(node.inputs) < 2:
        return None
    x, integers = node.inputs[0], node.inputs[1].integers
    if integers is None or integers.data.itemsize > 1:
        return None
    steps = steps_of(x)
    if steps is None:
        return "its input is not of 8 bits with one known scale"
    if isinstance(p, Convolution):
        if p.bands > 1 or p.shuffled > 1:
            return "its groups have been merged"
        made: Quantized = QuantizedConvolution(p.strides, p.dilations, p.pads, p.groups)
    elif isinstance(p, ConvTranspose):
        if not p.lies_side_by_side(integers.data.shape[2:]) or p.groups > 1:
            return "its windows do not lie side by side"
        made = QuantizedConvTranspose(p.strides)
    elif p.transpose_a or x.layout.rank < 2 or integers.data.ndim != 2:
        return "one matrix that is not transposed is wanted on the right of others"
    else:
        made = QuantizedMatMul(p.transpose_b)
    outputs = integers.data.shape[outputs_axis(made)]
    wide = less_zero(integers)
    shift = shift_of(wide)
    alike = (integers.scale == integers.scale.reshape(-1)[0]).all()
    if shift and (isinstance(p, ConvTranspose) or not alike or not one_window(made, outputs)):
        return "its weights less their zero point are no 8 bits"
    if (weights := bytes_of(wide - shift if shift else wide)) is None:
        return "its weights less their zero point are of more than 8 bits"
    rest = tuple(a for a in range(weights.ndim) if a != outputs_axis(made))
    if np.abs(wide, dtype=np.int64).sum(rest).max(initial=0) > MOST:
        return "its sums may be larger than an int"
    if isinstance(p, ConvTranspose):
        weights = np.ascontiguousarray(np.moveaxis(weights, (1, 0), (-2, -1)).reshape(-1, outputs, weights.shape[0]))
    if integers.scale.size != 1 and integers.axis != outputs_axis(made):
        return "its weights have scales along their inputs"
    scale = np.broadcast_to(integers.scale.reshape(-1).astype(np.float64) * np.float32(steps.scale), outputs)
    scale = np.array(scale, np.float32)
    bias = _bias(node, outputs)
    if isinstance(bias, str):
        return bias
    whole = _whole_bias(node, scale)
    if whole is None:
        whole = np.zeros(outputs, np.int32)
    else:
        bias = np.zeros_like(bias)
    return IntegerProduct(node, x, steps, made, integers, weights, scale, bias, whole, shift)


def outputs_axis(primitive: Primitive) -> int:
    """Return the axis of the weights of *primitive* that its outputs are on."""
    beside = isinstance(primitive, QuantizedMatMul) and not primitive.transpose_b
    return int(beside or isinstance(primitive, QuantizedConvTranspose))


def windows_of(primitive: Quantized) -> int:
    """Return how many windows of *primitive* lie at a place: one for each group."""
    return primitive.groups if isinstance(primitive, QuantizedConvolution) else 1


def one_window(primitive: Quantized, outputs: int) -> bool:
    """Whether each output has the one window of all, or one of its own."""
    return not isinstance(primitive, QuantizedConvolution) or primitive.groups in (1, outputs)


def _bias(node: Node, outputs: int) -> Array | str:
    if len(node.inputs) < 3:
        return np.zeros(outputs, np.float32)
    bias = node.inputs[2].constant
    if bias is None:
        return "its bias is computed"
    if bias.size != 1 and (bias.size != outputs or bias.shape[-1] != outputs):
        return "its bias is not one number an output"
    return np.array(np.broadcast_to(bias.reshape(-1), outputs), np.float32)


def _whole_bias(node: Node, scale: Array) -> Array | None:
    """Return the integers of a bias whose steps are those of the sums, where sums have room for them."""
    integers = node.inputs[2].integers if len(node.inputs) > 2 else None
    if integers is None or integers.data.size != scale.size or (integers.zero is not None and integers.zero.any()):
        return None
    # Quantisers multiply the scales in float32 or float64.
    alike = np.abs(integers.scale.reshape(-1) - scale) <= 2.0**-22 * scale
    fits = np.abs(integers.data, dtype=np.int64).max(initial=0) < _ROOM
    return np.asarray(integers.data.reshape(-1), np.int32) if alike.all() and fits else None
