"""Running products of plain tensors on CPU devices."""

from __future__ import annotations

from typing import ClassVar

from clgraph.implementations.cpu.cumulate_elements import ANY_NUMBERS, CumulatedElements
from clgraph.ops.cumulative_product import CumulativeProduct
from clgraph.selector.implementation import implements


@implements(CumulativeProduct, name="cumulative_product.elements", serves=ANY_NUMBERS)
class CumulativeProductElements(CumulatedElements):
    """Along any axis."""

    product: ClassVar[bool] = True
