"""What runs in the process that compiles a library: ``python -m clgraph.runtime.compile_child``, the work on stdin."""

from __future__ import annotations

import json
import sys

from clgraph.errors import ClgraphError
from clgraph.runtime.device import find_device
from clgraph.runtime.engine import Engine
from clgraph.runtime.executor import arguments
from clgraph.selector.library import ENTRY


def main() -> int:
    """Compile the library and leave it in the cache; print the error and return 1 when it does not compile."""
    work = json.load(sys.stdin)
    try:
        engine = Engine(find_device(work["device"]))
        engine.compile_library(work["text"], work["what"])
        memory = engine.allocate(4096, "nothing")
        bound = arguments(memory, (0, 0), memory, memory, 0, 0, memory, [memory])
        kernel = engine.kernel(work["text"], ENTRY, bound, library=True, what=work["what"])
        # PoCL generates code at the first enqueue of a work-group size: here of a range of no steps.
        kernel.on(engine.stream, (engine.info.workers,), (1,))()
        engine.stream.finish()
        engine.keep_code(work["text"], ENTRY)
    except ClgraphError as error:
        sys.stdout.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
