"""Models cut into stages, without a cluster: where they are cut, what each part reads and makes, refusals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest

import clgraph
from clgraph.compilation.sources import read_source
from clgraph.errors import ClgraphError, MemoryLimitError, OptionError, UnsupportedError
from clgraph.graph.topology import Topology
from clgraph.ops.activation import Activation
from clgraph.ray import Stage, pipeline
from clgraph.ray.cluster import options_for
from clgraph.ray.cutting import Part, by_memory, by_patterns
from clgraph.ray.stage_actor import StageActor
from tests.support.models import image, small_model
from tests.support.zoo import ZOO


def through(parts: Sequence[Part], topology: Topology, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """Run parts one after the other, as actors would."""
    values = dict(feeds)
    for part in parts:
        made = StageActor({"device": "host"}).run([part], *(values[name] for name in part.reads))
        values |= dict(zip(part.makes, [made] if len(part.makes) == 1 else made, strict=True))
    return {name: values[value] for name, value in topology.outputs}


@pytest.mark.parametrize("name", ["small_yolov8", "small_encoder_open", "small_mobilenet_v3"])
def test_parts_of_any_size_compute_what_the_whole_does_and_hold_what_they_may(name: str) -> None:
    source, feeds = ZOO[name].make()
    topology = read_source(source, None, None)
    want = clgraph.compile(source, device="host").run(feeds)
    total, counts = sum(a.nbytes for a in topology.constants.values()), []
    largest = max(sum(topology.constants.get(n, np.empty(0)).nbytes for n in x.inputs) for x in topology.layers)
    for limit in sorted({total, max(total // 2, largest), max(total // 4, largest)}, reverse=True):
        parts = by_memory(topology, limit)
        counts.append(len(parts))
        assert all(part.nbytes <= limit for part in parts)
        assert len(parts) >= total / limit
        for result, value in through(parts, topology, feeds).items():
            np.testing.assert_array_equal(value, want[result])
    assert counts[0] == 1 < counts[-1]


def test_no_fewer_parts_keep_to_the_limit_and_they_are_cut_where_fewest_values_cross() -> None:
    """Two branches of four layers that meet, with a constant in each layer: the cut in front of them has one value."""
    topology = Topology()
    x = topology.input("x", (4,))
    for layer in range(2):
        x = _scaled(topology, f"s{layer}", x)
    ends = []
    for branch in "ab":
        y = x
        for layer in range(3):
            y = _scaled(topology, f"{branch}{layer}", y)
        ends.append(y)
    from clgraph.ops.eltwise import Eltwise

    topology.output(topology.add("y", Eltwise("add"), *ends))
    assert [len(p.topology.layers) for p in by_memory(topology, 8 * 16)] == [9]
    assert [len(p.topology.layers) for p in by_memory(topology, 6 * 16)] == [2, 7]
    assert [p.nbytes for p in by_memory(topology, 4 * 16)] == [64, 64]


def _scaled(topology: Topology, name: str, x: str) -> str:
    from clgraph.ops.eltwise import Eltwise

    return topology.add(name, Eltwise("mul"), x, topology.constant(f"k {name}", np.full(4, 2, np.float32)))


def annotated() -> onnx.ModelProto:
    model = small_model(size="n")
    for node in model.graph.node:
        if node.name in ("first", "second"):
            entry = node.metadata_props.add()
            entry.key, entry.value = "layer_ann", {"first": "stem:0", "second": "body:1"}[node.name]
    return model


def test_annotations_cut_a_model_and_what_none_names_is_with_what_it_reads() -> None:
    topology = read_source(annotated(), None, None)
    parts = by_patterns(topology, ["stem*", "body*"])
    assert [[layer.name for layer in part.topology.layers] for part in parts] == [
        ["first", "relu", "pool"],
        ["second", "residual", "last"],
    ]
    assert [(part.reads, part.makes) for part in parts] == [(("x",), ("p0",)), (("p0",), ("y",))]
    x = image((1, 3, 12, 12))
    want = clgraph.compile(annotated(), device="host")(x)
    np.testing.assert_array_equal(through(parts, topology, {"x": x})["y"], want)


def test_a_stage_is_compiled_once_for_all_sizes_and_again_for_other_types() -> None:
    part = by_patterns(read_source(annotated(), None, None), ["stem*", "body*"])[1]
    runner = StageActor({"device": "host"})
    for size in (5, 7, 5):
        assert runner.run([part], image((1, 8, size, size))).shape == (1, 8, size, size)
    assert len(runner._models) == 1
    report = runner.report()
    assert (report.runs, len(report.spans), report.node) == (3, 3, "")
    with pytest.raises(UnsupportedError, match="'p0' is a list; only tensors"):
        runner.run([part], [1.0])


def test_options_fit_what_is_reserved() -> None:
    assert options_for({}, 2, None) == {"device": "cpu", "threads": 2}
    assert options_for({"threads": 1, "precision": "bf16"}, 2, None) == {
        "device": "cpu",
        "threads": 1,
        "precision": "bf16",
    }
    # Workers are a CPU's: elsewhere threads= is refused.
    assert options_for({}, 2, 0.5) == {"device": "gpu"}
    assert options_for({"device": "gpu:1"}, 2, None) == {"device": "gpu:1"}


def test_what_cannot_be_cut_is_refused_by_name() -> None:
    topology = read_source(annotated(), None, None)
    cycle = Topology()
    a = cycle.add("a", Activation("relu"), cycle.input("x", (4,)), annotation="one")
    b = cycle.add("b", Activation("relu"), a, annotation="two")
    cycle.output(cycle.add("c", Activation("relu"), b, annotation="one"))
    refused: list[tuple[type[ClgraphError], str, Callable[[], Any]]] = [
        (OptionError, "stage 'head' fits no annotation", lambda: by_patterns(topology, ["stem*", "head"])),
        (OptionError, r"stage 'body\*' has no node", lambda: by_patterns(topology, ["*", "body*"])),
        (
            OptionError,
            "node 'c' is in stage 'one' and reads 'b' of stage 'two'",
            lambda: by_patterns(cycle, ["one", "two"]),
        ),
        (MemoryLimitError, "node 'first' has 896 bytes", lambda: by_memory(topology, 100)),
        (OptionError, "by stages=.* or by memory_limit", lambda: pipeline(b"")),
        (OptionError, "give one of them", lambda: pipeline(b"", [Stage("a")], memory_limit=4)),
        (OptionError, "in_flight=0", lambda: pipeline(b"", [Stage("a")], in_flight=0)),
        (OptionError, "num_cpus=0", lambda: options_for({}, 0, None)),
    ]
    for kind, said, act in refused:
        with pytest.raises(kind, match=said):
            act()
