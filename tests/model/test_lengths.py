"""The arithmetic of lengths: what it computes, and how it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from clgraph.errors import InternalError, ShapeError
from clgraph.graph.topology import Topology
from clgraph.model.state.lengths import Lengths
from clgraph.ops.eltwise import Eltwise


def test_a_layer_that_cannot_be_computed_is_named(monkeypatch):
    t = Topology()
    t.output("y", t.add("total", Eltwise("add"), t.input("past", ("n",)), t.input("new", ("m",))))
    lengths = Lengths(t)
    feeds = {"past": np.ones(2, np.float32), "new": np.full(2, 3, np.float32)}
    assert lengths.values(feeds)["y"].tolist() == [4, 4]
    with pytest.raises(ShapeError, match=r"^node 'total' .*does not fit"):
        lengths.values({**feeds, "new": np.ones(3, np.float32)})

    def broken(*inputs):
        raise RuntimeError("nothing to do with shapes")

    monkeypatch.setattr(Eltwise, "reference", broken)
    with pytest.raises(InternalError, match=r"the arithmetic of lengths failed at node 'total'.*nothing to do with"):
        lengths.values(feeds)
