"""The child of a campaign: judges the cases whose numbers it reads, a line each, until its input ends."""

from __future__ import annotations

import json
import logging
import resource
import sys
import warnings
from collections.abc import Callable
from dataclasses import asdict

import numpy as np

from clgraph.runtime import programs
from tools.fuzzing.graphs import graph
from tools.fuzzing.judging import LIBRARY, Outcome, judge
from tools.fuzzing.mutations import mutated
from tools.fuzzing.operators import operator
from tools.fuzzing.seeds import Seed, networks, seeds
from tools.fuzzing.variants import variant

CHECKED_EVERY = 200
"""After so many cases an unchanged network is run: it must still give the same bits."""


def case(number: int, seed: int, only: frozenset[int] | None = None) -> tuple[Seed, bytes, list[str]]:
    """Return the model that case *number* of a campaign starts from, the bytes it makes of it, and by what changes."""
    random = np.random.default_rng([seed, number])
    known = seeds()
    share = len(networks())
    chosen = known[int(random.integers(share if random.random() < 0.3 else len(known)))]
    data, names = mutated(chosen.model, random, only)
    return chosen, data, names


MADE = {"graphs": graph, "operators": operator, "variants": variant}
"""What makes valid models, by what a campaign is of."""


def made_case(number: int, seed: int, of: str) -> tuple[Seed, bytes, list[str]]:
    """Return what model *number* that is made is made of, as :func:`case` does."""
    chosen, names = MADE[of](number, seed)
    return chosen, chosen.model.SerializeToString(), names


def main() -> None:
    """Serve ``tools/fuzz``."""
    options = json.loads(sys.stdin.readline())
    limit = int(options["memory"])
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    level, device, seed = options["level"], options["device"], int(options["seed"])
    of, made = options["of"], options["of"] in MADE
    tell_of_libraries(_phase)
    known = networks()[0]
    if level == "files":
        _serve_files(device, seed)
        return
    before = _answer(known, device) if level == "run" else None
    for count, line in enumerate(sys.stdin, 1):
        number = int(line)
        _say({"begins": number})
        chosen, data, names = made_case(number, seed, of) if made else case(number, seed)
        outcome = judge(data, chosen.feeds, level, device, _phase, valid=made, single=of in ("operators", "variants"))
        if (
            before is not None
            and count % CHECKED_EVERY == 0
            and not outcome.is_wrong
            and _answer(known, device) != before
        ):
            outcome = Outcome("damaged", "an unchanged network gives other results than at the start")
        _say({"number": number, "seed": chosen.name, "changes": names, "inputs": len(chosen.feeds), **asdict(outcome)})


def tell_of_libraries(told: Callable[[str], None]) -> None:
    """Call *told* with the phase ``LIBRARY`` when a library of kernels is compiled, which programs log."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.getMessage().startswith("compiling library"):
                told(LIBRARY)

    logger = logging.getLogger(programs.__name__)
    logger.setLevel(logging.INFO)
    logger.addHandler(Handler())


def _serve_files(device: str, seed: int) -> None:
    from tools.fuzzing.files import files_of

    files = files_of(device)
    for line in sys.stdin:
        number = int(line)
        _say({"begins": number})
        kind, outcome = files.judge(np.random.default_rng([seed, number]))
        _say({"number": number, "seed": kind, "changes": [], **asdict(outcome)})


def _answer(seed: Seed, device: str) -> bytes:
    import clgraph

    with clgraph.compile(seed.model, device=device) as model:
        return b"".join(np.asarray(a).tobytes() for a in model.run(dict(seed.feeds)).values())


def _phase(phase: str) -> None:
    _say({"phase": phase})


def _say(what: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
