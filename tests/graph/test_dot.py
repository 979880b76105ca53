from __future__ import annotations

import re

from clgraph.graph.dot import print_dot
from clgraph.graph.topology import Topology
from clgraph.ops.activation import Activation
from clgraph.ops.transpose import Transpose


def test_a_legend_tells_one_colour_a_kind_and_lines_are_short() -> None:
    topology = Topology()
    last = topology.input("x", (1, 2, 3, 4))
    for i in range(3):
        last = topology.add(f"name/{'deep/' * 20}{i}", Activation("relu"), last)
    topology.output("y", topology.add("t", Transpose((0, 2, 3, 1)), last))
    text = print_dot(topology.build())
    (legend,) = (line for line in text.splitlines() if line.startswith("  legend "))
    colours = dict(re.findall(r'<td bgcolor="(#\w{6})">(\w+)</td>', legend))
    assert list(colours.values()) == ["activation", "transpose"]
    assert re.findall(r"</td><td>(\d+)</td>", legend) == ["3", "1"]
    fills = re.findall(r'^  n\d .*fillcolor="(#\w+)"', text, re.MULTILINE)
    assert [colours[fill] for fill in fills] == ["activation"] * 3 + ["transpose"]
    labels = re.findall(r'^  n\d \[label="([^"]*)"', text, re.MULTILINE)
    assert max(len(line) for label in labels for line in label.split("\\n")) <= 56
