"""What the passes leave of whole networks: no elementwise node alone, and next to no reorders."""

from __future__ import annotations

import pytest

from clgraph.frontend.onnx_loader import load_onnx
from clgraph.ops.reorder import Reorder
from clgraph.passes.base import Context, PassManager
from clgraph.passes.pipeline import default_pipeline
from tests.support.models import light_model, light_names


@pytest.mark.parametrize("name", light_names())
def test_no_elementwise_node_and_at_most_one_reorder_are_left(name: str) -> None:
    program = load_onnx(light_model(name)).build({})
    passes = default_pipeline()
    last = next(i for i, p in enumerate(passes) if p.name == "add_required_reorders")
    PassManager(passes[: last + 1]).run(program, Context())
    alone = [n.name for n in program if n.primitive.elementwise and not isinstance(n.primitive, Reorder)]
    assert not alone, program.notes["prepare_primitive_fusing"]
    moved = [n for n in program if isinstance(n.primitive, Reorder) and not n.in_place]
    assert len(moved) <= 1, [(n.inputs[0].layout, n.output.layout) for n in moved]
