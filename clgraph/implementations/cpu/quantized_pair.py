"""Sums and products of bytes with scales on CPU devices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from clgraph.implementations.cpu.element_functions import QUANTIZED, QUANTIZED_SLOW, Computation
from clgraph.implementations.cpu.element_types import PAIRS
from clgraph.implementations.cpu.elements import ELEMENTS, Elements
from clgraph.ops.byte_lookup import BYTES
from clgraph.ops.quantized_pair import QuantizedPair
from clgraph.selector.implementation import implements
from clgraph.selector.query import Query


@implements(
    QuantizedPair,
    name="quantized_pair.elements",
    serves=replace(ELEMENTS, dtypes=BYTES, mixed=False, fuses=frozenset()),
)
class QuantizedPairElements(Elements):
    """A function of plain bytes."""

    @classmethod
    def computation(cls, q: Query[QuantizedPair]) -> Computation:
        dtype, numbers = q.own[0].dtype, np.array(q.primitive.numbers, np.float32)
        first, second = (int(v) for v in numbers.view(np.int64))
        function = QUANTIZED[q.primitive.function]
        return Computation(function, PAIRS, (0, 1), dtype, dtype, first, second, QUANTIZED_SLOW)
