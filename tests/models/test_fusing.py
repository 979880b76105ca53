"""What the passes leave of whole networks: no elementwise node alone, and next to no reorders."""

from __future__ import annotations

import numpy as np
import pytest

import clgraph
from clgraph.errors import UnsupportedError
from clgraph.frontend.onnx_loader import load_onnx
from clgraph.ops.reorder import Reorder
from clgraph.ops.slice import Slice
from clgraph.passes.base import Context
from clgraph.passes.manager import PassManager
from clgraph.passes.pipeline import default_pipeline
from tests.support.models import FEW, HEAVY, light_model, light_names
from tests.support.programs import Net
from tests.support.zoo_detection import yolov8n


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in HEAVY)) for n in light_names()])
def test_no_elementwise_node_and_at_most_one_reorder_are_left(name: str) -> None:
    program = load_onnx(light_model(name, hidden=256, drawn=FEW)).build({})
    passes = default_pipeline()
    last = next(i for i, p in enumerate(passes) if p.name == "add_required_reorders")
    PassManager(passes[: last + 1]).run(program, Context())
    alone = [n.name for n in program if n.primitive.elementwise and not isinstance(n.primitive, Reorder)]
    assert not alone, program.notes["prepare_primitive_fusing"]
    moved = [n for n in program if isinstance(n.primitive, Reorder) and not n.in_place]
    assert len(moved) <= 1, [(n.inputs[0].layout, n.output.layout) for n in moved]


def _reorders(program) -> list[Reorder]:
    return [n for n in program if isinstance(n.primitive, Reorder)]


def test_shufflenet_on_a_gpu_copies_more_without_remove_redundant_reorders() -> None:
    """Its last channel shuffle reads the vectors of four channels of a convolution as they are, in a plain view."""
    moved = {}
    for disabled in ((), ("remove_redundant_reorders",)):
        config = {"device_class": "gpu", "disable_passes": list(disabled), "split_batch": 0}
        found = _reorders(clgraph.compile(light_model("shufflenet", drawn=FEW), "null", config=config).program)
        moved[disabled] = len(found), sum(n.output.layout.nbytes for n in found)
    (without, more), (with_it, fewer) = moved["remove_redundant_reorders",], moved[()]
    # One of 272 channels of 7 x 7 floats.
    assert (without - with_it, more - fewer) == (1, 272 * 7 * 7 * 4)


def test_yolov8_on_a_cpu_is_not_served_without_add_required_reorders() -> None:
    """A split of channels behind a convolution in blocks, one half of which a 3x3 convolution reads with a halo.

    prepare_padding puts the halo around a result of the split, whose kernels write none.
    """
    passes = default_pipeline()
    program = load_onnx(yolov8n(64, 0.125, 5)).build()
    with pytest.raises(UnsupportedError, match=r"'Split_.*nothing serves split(.|\n)*writes no halo"):
        PassManager([p for p in passes if p.name != "add_required_reorders"]).run(program, Context())
    program = load_onnx(yolov8n(64, 0.125, 5)).build()
    last = next(i for i, p in enumerate(passes) if p.name == "add_required_reorders")
    PassManager(passes[:last]).run(program, Context())
    before = len(_reorders(program))
    passes[last].run(program, Context())
    assert len(_reorders(program)) > before


@pytest.mark.opencl
def test_the_focus_layer_has_the_results_of_slices(device) -> None:
    data = np.random.default_rng(3).standard_normal((1, 3, 6, 8)).astype(np.float32)
    for kernel in (1, 3):
        net = Net()
        x = net.input("x", (1, 3, 6, 8))
        for i, place in enumerate(((0, 0), (1, 0), (0, 1), (1, 1))):
            net.add(f"part{i}", Slice((0, 0, *place), (1, 3, 6, 8), (1, 1, 2, 2)), x)
        net.output("y", net.conv("y", net.concat("focus", *(f"part{i}" for i in range(4))), 12, 6, kernel))
        made, left = (
            clgraph.compile(net, device=device, config={"disable_passes": without}) for without in ((), ("decompose",))
        )
        # Sums of 108 products whose factors are below 4, in another order.
        want = left.run({"x": data})["y"]
        np.testing.assert_allclose(made.run({"x": data})["y"], want, rtol=0, atol=108 * 108 * 2.0**-24 * 16)
