"""The weights of experts in 2, 4 or 8 bits, as ONNX Runtime's QMoE gives them: read, and made records or floats."""

from __future__ import annotations

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.graph.importing import OnnxNode
from clgraph.graph.primitive import Array
from clgraph.ops.block_records import Records, unpacked
from clgraph.ops.microsoft.block_quantised import constant_of, given

Form = tuple[str, int, int, int, int, bool]
"""Of weights as records: the layer's name, then columns, depth, bits, block and zero points of its products."""


_BLOCKS = (128, 64, 32)
"""Weights in a block, where each row has one scale."""


@frozen
class ExpertWeights:
    """The weights of one layer of every expert, in few bits.

    Attributes:
        name: Of the layer: ``fc1``, ``fc2`` or ``fc3``.
        data: Bytes ``[experts, N, K * bits / 8]``.
        scales, zeros: One a block, ``[experts, N, blocks]``; zero points may be absent.
    """

    name: str
    bits: int
    data: Array
    scales: Array
    zeros: Array | None

    @property
    def depth(self) -> int:
        return int(self.data.shape[2]) * 8 // self.bits

    @property
    def form(self) -> Form | None:
        """The form of the weights as records; ``None`` if records cannot have blocks of this size."""
        blocks = int(self.scales.shape[2])
        sizes = [n for n in _BLOCKS if self.depth % n == 0] if blocks == 1 else [self.depth // blocks]
        if not sizes or sizes[0] * self.bits % 32:
            return None
        return (self.name, int(self.data.shape[1]), self.depth, self.bits, sizes[0], self.zeros is not None)

    def records(self, form: Form) -> Array:
        """Return the weights as records ``[experts, *records]``."""
        more, of = self.depth // form[4] // self.scales.shape[2], Records(self.bits, form[4], form[5])
        scales = self.scales.repeat(more, 2)
        zeros = None if self.zeros is None else self.zeros.repeat(more, 2)
        made = [of.pack(d, scales[i], None if zeros is None else zeros[i]) for i, d in enumerate(self.data)]
        return np.stack(made)

    def floats(self) -> Array:
        """Return the weights as floats ``[experts, N, K]`` of the scales' type."""
        by_block = unpacked(self.data, self.bits).reshape(*self.scales.shape, -1).astype(np.float32)
        by_block -= (1 << (self.bits - 1)) if self.zeros is None else self.zeros[..., None].astype(np.float32)
        found: Array = by_block * self.scales[..., None].astype(np.float32)
        return found.reshape(*self.data.shape[:2], self.depth).astype(self.scales.dtype)


def expert_weights(node: OnnxNode, layer: int, at: int, zeros_at: int) -> ExpertWeights:
    """Return the weights of *layer*, the inputs from *at* on, with zero points at *zeros_at*; refuse other forms."""
    bits = node.attribute(f"fc{layer}_expert_weight_bits", None) or node.attribute("expert_weight_bits", 4)
    if bits not in (2, 4, 8):
        raise node.unsupported(f"weights have 2, 4 or 8 bits, not {bits}")
    packed, scales = constant_of(node, at), constant_of(node, at + 1)
    experts, rows, columns = (*packed.shape[:2], packed.shape[-1] * 8 // bits)
    blocks = scales.size // max(experts * rows, 1)
    if not blocks or scales.size != experts * rows * blocks or columns % blocks:
        raise node.unsupported(f"scales {scales.shape} are none of weights {(experts, rows, columns)}")
    zeros = None
    if given(node, zeros_at):
        found = constant_of(node, zeros_at)
        zeros = unpacked(found.reshape(-1, found.shape[-1]), bits)[:, : blocks if scales.ndim == 3 else rows]
        zeros = zeros.reshape(experts, rows, blocks)
    return ExpertWeights(f"fc{layer}", bits, packed, scales.reshape(experts, rows, blocks), zeros)
