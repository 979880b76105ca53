"""The models whose members are compared with whole compilations, by where they are from."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy

from clgraph.compilation.sources import read_source
from clgraph.errors import ClgraphError
from clgraph.graph.topology import Topology
from clgraph.passes.reference import random_feeds
from tests.support.halves import in_float16
from tests.support.members import Feeds, Tally, compare, opened, random_members
from tests.support.models import image, light_model, light_names, with_batch
from tests.support.open_branches import random_branching_model
from tests.support.open_graphs import random_picture_model, random_text_model
from tests.support.open_volumes import random_volume_model
from tests.support.random_nets import joined, networks
from tests.support.zoo import ZOO, zoo_names

Case = tuple[str, onnx.ModelProto | Topology, Feeds]
RANDOM = 40
"""How many random models there are of a kind, unless a number is given."""


def _zoo(_: range) -> Iterator[Case]:
    for name in zoo_names(small=True):
        yield name, *ZOO[name].make()


def _light(_: range) -> Iterator[Case]:
    for name in light_names():
        model = with_batch(light_model(name), 1)
        weights = {t.name for t in model.graph.initializer}
        value = next(v for v in model.graph.input if v.name not in weights)
        yield name, model, {value.name: image((1, *(d.dim_value for d in value.type.tensor_type.shape.dim[1:])))}


def _quantised(_: range) -> Iterator[Case]:
    from tests.models.test_quantised import quantised

    for name in ("residual", "small_encoder_open"):
        for form in ("QDQ", "QOperator", "dynamic"):
            with tempfile.TemporaryDirectory() as folder:
                yield f"{name} {form}", *quantised(name, form, Path(folder))


def _texts(which: range) -> Iterator[Case]:
    for seed in which:
        yield f"text {seed}", random_text_model(seed), {"x": image((2, 10, 24))}


def _pictures(which: range) -> Iterator[Case]:
    for seed in which:
        yield f"picture {seed}", random_picture_model(seed), {"x": image((2, 8, 24, 20))}


def _volumes(which: range) -> Iterator[Case]:
    for seed in which:
        yield f"volume {seed}", random_volume_model(seed), {"x": image((2, 4, 9, 10, 6))}


def _halves(which: range) -> Iterator[Case]:
    made = (random_text_model, (2, 10, 24)), (random_picture_model, (2, 8, 24, 20))
    for seed in which:
        model, shape = made[seed % 2]
        yield f"half {seed}", in_float16(model(seed)), {"x": image(shape).astype(np.float16)}


def _branches(which: range) -> Iterator[Case]:
    for seed in which:
        yield f"branches {seed}", random_branching_model(seed), {"x": image((2, 8, 24, 20))}


def _nets(which: range) -> Iterator[Case]:
    for strategy in (networks(), joined()):
        drawn = _drawn(strategy, which.stop)
        for i in which[: max(0, len(drawn) - which.start)]:
            net, outputs = drawn[i]
            for name in outputs:
                net.output(name)
            yield f"net {i}", net.plain(), random_feeds(net.build())


def _drawn(strategy: SearchStrategy[Any], count: int) -> list[Any]:
    """Return *count* examples of *strategy*, the same in every call."""
    found: list[Any] = []

    plain = settings(
        max_examples=count, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )

    @settings(plain, derandomize=True, deadline=None)
    @given(strategy)
    def collect(made: Any) -> None:
        found.append(made)

    collect()
    return found


def _nodes(which: range) -> Iterator[Case]:
    from tools.fuzzing.seeds import seeds

    step = max(1, 800 // len(which))
    for seed in islice(seeds(), which.start % step, None, step):
        yield seed.name, seed.model, {n: np.asarray(a) for n, a in seed.feeds.items()}


def _made(which: range) -> Iterator[Case]:
    from tools.fuzzing.graphs import graph

    for number in range(4 * which.start, 4 * which.stop):
        seed, _ = graph(number)
        yield seed.name, seed.model, {n: np.asarray(a) for n, a in seed.feeds.items()}


SOURCES: Mapping[str, Callable[[range], Iterator[Case]]] = {
    "zoo": _zoo,
    "light": _light,
    "quantised": _quantised,
    "texts": _texts,
    "pictures": _pictures,
    "volumes": _volumes,
    "halves": _halves,
    "branches": _branches,
    "nets": _nets,
    "nodes": _nodes,
    "graphs": _made,
}
"""Small models of the zoo, those of the onnx package, quantised ones; random models of texts, pictures and volumes, the
first two in float16, and pictures where sizes decide what is computed, nets of the hypothesis strategies, single nodes
of the onnx package's tests, and graphs of ``tools/fuzz``. Those that are random are numbered: a range says which."""


def tally_of(
    source: str, device: str, config: Mapping[str, Any], which: range = range(RANDOM), members: int = 4, seed: int = 0
) -> Tally:
    """Compare random members of the models of *source* with whole compilations; leaves out what has no open size."""
    total = Tally()
    for found in tallies_of(source, device, config, which, members, seed):
        total.add(found)
    return total


def tallies_of(
    source: str, device: str, config: Mapping[str, Any], which: range = range(RANDOM), members: int = 4, seed: int = 0
) -> Iterator[Tally]:
    """Yield the tally of each of these models, as soon as its members have run; those without members count as such."""
    for i, (name, model, feeds) in enumerate(SOURCES[source](which)):
        try:
            topology, groups = opened(read_source(model, None, None), feeds, seed + i)
        except ClgraphError:  # not everything in onnx's test suite is supported: that is listed elsewhere
            yield Tally(without=1)
            continue
        found = random_members(topology, groups, feeds, members, seed + i) if groups else []
        yield compare(name, topology, found, device, config) if found else Tally(without=1)


def numbers(*shape: int) -> np.ndarray:
    """Return normal numbers, the same for each rank."""
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)
