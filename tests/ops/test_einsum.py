"""Products and sums over named axes."""

import numpy as np
import pytest

import clgraph
from tests.support.onnx_case import agree, one_node

CASES = {
    "ij,jk->ik": [(3, 4), (4, 5)],
    "bhid,bhjd->bhij": [(2, 3, 4, 5), (2, 3, 6, 5)],
    "bhij,bjhd->bihd": [(2, 3, 4, 5), (2, 5, 3, 6)],
    "...ij,...jk->...ik": [(2, 3, 4, 5), (2, 3, 5, 6)],
    "ij,ik->": [(3, 4), (3, 5)],
    "i,j->ij": [(3,), (4,)],
    "ij,ij->": [(3, 4), (3, 4)],
    "bij,jbi->b": [(2, 3, 4), (4, 2, 3)],
    "ii->i": [(4, 4)],
    "iji->j": [(3, 5, 3)],
    "abc->cb": [(2, 3, 4)],
    "ab,bc,cd->ad": [(2, 3), (3, 4), (4, 5)],
    "bij,bkj": [(2, 3, 4), (2, 5, 4)],
    "bnij,mij->bnm": [(2, 3, 4, 5), (6, 4, 5)],
}


@pytest.mark.parametrize("equation", CASES)
def test_einsum_agrees_with_onnxruntime(equation, rng):
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in CASES[equation]]
    agree("Einsum", arrays, opset=12, equation=equation)


@pytest.mark.opencl
@pytest.mark.parametrize("equation", ["bhid,bhjd->bhij", "iji->j", "bnij,mij->bnm", "bij,jbi->b"])
def test_einsum_runs_on_the_device(equation, device, rng):
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in CASES[equation]]
    source, feeds = one_node("Einsum", arrays, opset=12, equation=equation)
    model = clgraph.compile(source, device=device)
    # Sums of at most 20 products of numbers below 4: 20 * 2**-24 * 20 * 16 at the very most.
    np.testing.assert_allclose(model.run(feeds)["y0"], np.einsum(equation, *arrays), atol=4e-4)
    kinds = {node.primitive.kind for node in model.program}
    assert "einsum" not in kinds


@pytest.mark.parametrize(
    ("equation", "shapes"), [("ij,jk->ik", [(3, 4), (5, 6)]), ("ij->ji", [(2,)]), ("i->j", [(2,)])]
)
def test_what_does_not_fit_is_refused(equation, shapes):
    source, _ = one_node("Einsum", [np.zeros(s, np.float32) for s in shapes], opset=12, equation=equation)
    with pytest.raises(clgraph.errors.ShapeError, match="node"):
        clgraph.compile(source, device="null")
