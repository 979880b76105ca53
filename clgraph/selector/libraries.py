"""Which tile functions are compiled together, and which library each step of a program runs in.

A library takes as long to build as it is large, so that what not every network needs is in libraries of its own, built
when a program first needs one. Steps of different libraries are different launches; where such steps would take turns
with those of ``core``, the library holds the functions of ``core``, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

CORE = "core"

LIBRARIES = {
    CORE: "tensors of floats as rows: products, attention, normalisation; elementwise functions, moving elements",
    "convolution": "images in blocks of channels: convolutions, pooling, resizing",
    "bytes": "8-bit integers: products, pooling, resizing, quantising",
    "blocks": "products with weights of a few bits, quantised in blocks",
    "bfloat": "products of bfloat16",
    "weights": "constants brought into the order that products read, while a model is compiled",
    "rare": "what few networks have, or have once: orders, scatters, running sums, recurrent layers, pictures",
}
"""The libraries of clgraph's own tile functions, and what those compute; plugins may declare others."""

_WITH_CORE = ("convolution", "bytes", "blocks", "bfloat")
SHARED = {
    CORE: _WITH_CORE,
    "direct": ("convolution", "bytes"),
    "blocked": (CORE, *_WITH_CORE, "weights"),
    "moves": (CORE, *_WITH_CORE, "rare"),
}
"""Functions that several libraries hold, too: of ``core``; ``direct``, images of floats that stand between quantised
ones wherever a tool leaves some in floats; ``blocked``, which brings tensors, weights among them, into blocks;
``moves``, which copies, picks and converts elements, as scatters, searches for the best and what computes
halves as floats do first, and makes planes of images, which networks of any kind begin with.

No library has the name of the last three: where no other is needed that holds them, the first of their holders is.
"""


def holds(library: str, declared: str) -> bool:
    """Whether *library* has the tile functions that are declared for *declared*."""
    return library == declared or library in SHARED.get(declared, ())


def run_in(declared: Sequence[str]) -> list[str]:
    """Return the library that each of some steps runs in; steps in a row run in one where one holds their functions.

    Args:
        declared: What the tile functions of the steps are declared for, in the order in which they run.
    """
    needed = _needed(dict.fromkeys(declared))
    if len(needed) == 1:
        return needed * len(declared)
    found = []
    for name in declared:
        latest = next(library for library in needed if holds(library, name))
        needed.remove(latest)
        needed.insert(0, latest)
        found.append(latest)
    return found


def _needed(declared: Iterable[str]) -> list[str]:
    """Return the fewest libraries that hold all functions of what is *declared*."""
    parts = [name for name in declared if name in SHARED and name not in LIBRARIES]
    needed = [name for name in declared if name not in parts]
    for part in parts:
        if not any(holds(library, part) for library in needed):
            needed.append(SHARED[part][0])
    return [name for name in needed if not any(other != name and holds(other, name) for other in needed)]
