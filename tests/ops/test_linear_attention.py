from functools import partial

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError, UnsupportedError
from clgraph.frontend.onnx_loader import load_onnx
from clgraph.ops.linear_attention import OPTIONAL, LinearAttention
from tests.support.check_op import check_op
from tests.support.onnx_case import agree, one_node

F = np.float32
U = 2.0**-24
K, V, TOKENS = 5, 3, 4
MICROSOFT = {"domain": "com.microsoft", "opset": 1}


def shapes_of(queries, keys, values, given, by_row=False, betas=None, tokens=TOKENS):
    every = {
        "past_state": (2, values, K, V),
        "decay": (2, tokens, values * (K if by_row else 1)),
        "beta": (2, tokens, betas or values),
    }
    return [(2, tokens, n) for n in (queries * K, keys * K, values * V)] + [every[name] for name in given]


def sizes(primitive, *inputs):
    """Return the largest number that sums of products of the inputs' sizes come to."""
    decay = 3 + primitive.given.index("decay") if "decay" in primitive.given else None
    y, state = primitive.reference(*(-abs(x) if i in (1, decay) else abs(x) for i, x in enumerate(inputs)))
    return max(1e-30, abs(y).max(), abs(state).max(), abs(inputs[2]).max())


@pytest.mark.opencl
@pytest.mark.parametrize(
    ("heads", "rule", "given", "more", "dtypes"),
    [
        ((2, 2, 2), "linear", (), {}, [DType.F32] * 3),
        ((4, 2, 2), "gated", ("past_state", "decay"), {"by_row": True}, [DType.F32] * 5),
        ((1, 1, 2), "delta", ("beta",), {"betas": 1}, [DType.F16] * 4),
        ((2, 2, 4), "gated_delta", OPTIONAL, {}, [DType.F16] * 3 + [DType.F32] + [DType.F16] * 2),
    ],
    ids=["linear", "gated", "delta", "gated_delta"],
)
def test_every_implementation_rounds_as_often_as_a_state_is_made(engine, heads, rule, given, more, dtypes):
    p = LinearAttention(heads[0], heads[2], rule, 0.5 if given else 0.0, given)
    decays = {3 + i: lambda rng, shape: -abs(rng.standard_normal(shape)) for i, n in enumerate(given) if n == "decay"}
    # A token's state has a decay of an exponential with 4 ulps, a sum of K products, a difference, a product and a sum
    # of two, and its error goes on to the next one; a result is a sum of K products, scaled.
    bound = TOKENS * (K + 8) + K + 2
    shapes, scale = shapes_of(*heads, given, **more), partial(sizes, p)
    check_op(engine, p, *shapes, ulps=bound, scale=scale, dtype=dtypes, draw=decays, families=("normal", "zeros"))


@pytest.mark.parametrize("domain", ["", "com.microsoft"])
@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
def test_states_and_results_are_onnxruntimes(rule, domain, rng):
    given = ["past_state", *(["decay"] if "gated" in rule else []), *(["beta"] if "delta" in rule else [])]
    for heads, scale in (((2, 2, 2), 0.0), ((4, 2, 2), 0.25), *([((2, 2, 4), 1.0)] if domain else [])):
        shapes = shapes_of(*heads, given)
        arrays = {n: rng.standard_normal(s).astype(F) / 4 for n, s in zip("qkv", shapes, strict=False)}
        arrays |= {n: rng.uniform(-1, 0, s).astype(F) for n, s in zip(given, shapes[3:], strict=True)}
        inputs = [*(arrays[n] for n in "qkv"), *(arrays.get(n) for n in OPTIONAL)]
        while inputs[-1] is None:
            inputs.pop()
        p = LinearAttention(heads[0], heads[2], rule, scale, tuple(given))
        bound = 2 * (TOKENS * (K + 8) + K + 2) * U * float(sizes(p, *(x for x in inputs if x is not None)))
        more = {**MICROSOFT, "state_window": 0} if domain else {"opset": 27}
        agree(
            "LinearAttention",
            inputs,
            q_num_heads=heads[0],
            kv_num_heads=heads[2],
            update_rule=rule,
            scale=scale,
            outputs=2,
            rtol=0,
            atol=bound,
            by_definition=False,
            **more,
        )


def test_of_no_text_there_is_nothing():
    arrays = [np.zeros((0, *shape[1:]), F) for shape in shapes_of(4, 2, 2, OPTIONAL)]
    p = LinearAttention(4, 2, "gated_delta", 0.5, OPTIONAL)
    assert [y.shape for y in p.reference(*arrays)] == [y.shape for y in p.infer([*map(Layout.of, arrays)])]


def test_what_does_not_fit_is_refused():
    good = [Layout(DType.F32, s) for s in shapes_of(2, 2, 2, OPTIONAL)]
    assert [x.shape for x in LinearAttention(2, 2).infer(good)] == [(2, TOKENS, 2 * V), (2, 2, K, V)]
    for slot, shape, what in (
        (0, (2, TOKENS, 9), "by the rule 'gated_delta'"),
        (1, (2, TOKENS, 9), "and values .* differ"),
        (1, (2, TOKENS, 3 * K), "do not share 3 of keys"),
        (3, (2, 2, V, K), "past_state is"),
        (5, (2, TOKENS, 3), r"beta is \[2, 4, 3\]; it must be \[2, 4, 2\] or \[2, 4, 1\]"),
    ):
        wrong = [Layout(DType.F32, shape) if i == slot else x for i, x in enumerate(good)]
        with pytest.raises(ShapeError, match=what):
            LinearAttention(2, 2).infer(wrong)
    model, _ = one_node(
        "LinearAttention",
        [np.zeros(s, F) for s in shapes_of(2, 2, 2, OPTIONAL)],
        q_num_heads=2,
        kv_num_heads=2,
        state_window=3,
        outputs=2,
        **MICROSOFT,
    )
    with pytest.raises(UnsupportedError, match="state_window=3"):
        load_onnx(model)
