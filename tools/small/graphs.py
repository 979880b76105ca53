"""Small graphs as programs write them by hand: loops, scans, branches, sequences, texts, shapes that data decide."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from onnx import parser

from tools.benchmark.small import SMALL
from tools.small.made import Made, Makers

_RNG = np.random.default_rng(0)


def _normal(*shape: int) -> Any:
    return _RNG.standard_normal(shape).astype(np.float32)


YES = "c = Constant<value = bool {1}>()"
LOOP = "body = b (int64 i, bool k"
ON = "kk = Identity(k)"

GRAPHS: dict[str, tuple[str, dict[str, Any]]] = {
    "scan_average": ("""g (float[4] s, float[T,4] x) => (float[4] z, float[T,4] y) {
        z, y = Scan<num_scan_inputs = 1, body = b (float[4] a, float[4] i) => (float[4] o, float[4] p) {
            h = Constant<value_float = 0.5>() d = Sub(i, a) e = Mul(d, h) o = Add(a, e) p = Identity(o) }>(s, x) }""",
        {"s": _normal(4), "x": _normal(6, 4)}),
    "scan_back": ("""g (float[3] s, float[T,3] x) => (float[3] z, float[T,3] y) {
        z, y = Scan<num_scan_inputs = 1, scan_input_directions = [1], scan_output_directions = [1],
            body = b (float[3] a, float[3] i) => (float[3] o, float[3] p) {
            m = Max(a, i) o = Identity(m) p = Sub(m, i) }>(s, x) }""", {"s": _normal(3), "x": _normal(9, 3)}),
    "viterbi": ("""g (float[5] s, float[T,5] x, float[5,5] w) => (float[5] z, int64[T,5] y) {
        z, y = Scan<num_scan_inputs = 1, body = b (float[5] a, float[5] i) => (float[5] o, int64[5] p) {
            k = Constant<value_ints = [1]>() u = Unsqueeze(a, k) q = Add(u, w)
            r = ReduceMax<axes = [0], keepdims = 0>(q) o = Add(r, i) p = ArgMax<axis = 0, keepdims = 0>(q)
        }>(s, x) }""", {"s": _normal(5), "x": _normal(7, 5), "w": _normal(5, 5)}),
    "loop_append": (f"""g (int64 n, float[2] x) => (float[K] y) {{ {YES} e = Constant<value = float[0] {{}}>()
        y = Loop<{LOOP}, float[L] a) => (bool kk, float[M] r) {{ {ON} f = Cast<to = 1>(i) t = Add(x, f)
            r = Concat<axis = 0>(a, t) }}>(n, c, e) }}""", {"n": np.array(6), "x": _normal(2)}),
    "loop_while": (f"""g (int64 x) => (int64 y, int64[K] t) {{ {YES} m = Constant<value = int64 {{1000}}>()
        y, t = Loop<{LOOP}, int64 a) => (bool kk, int64 r, int64 s) {{
            one = Constant<value = int64 {{1}}>() two = Constant<value = int64 {{2}}>() q = Mod(a, two)
            three = Constant<value = int64 {{3}}>() e = Equal(q, one) u = Mul(a, three) v = Add(u, one) w = Div(a, two)
            r = Where(e, v, w) s = Identity(a) kk = Greater(r, one) }}>(m, c, x) }}""", {"x": np.array(6)}),
    "loop_beam": (f"""g (int64 n, float[3,8] p) => (float[3] s, int64[K,3] t) {{ {YES}
        z = Constant<value = float[3] {{0, 0, 0}}>()
        s, t = Loop<{LOOP}, float[3] a) => (bool kk, float[3] r, int64[3] o) {{ {ON} ax = Constant<value_ints = [1]>()
            u = Unsqueeze(a, ax) q = Add(u, p) sh = Constant<value_ints = [-1]>() f = Reshape(q, sh)
            k3 = Constant<value_ints = [3]>() r, ix = TopK(f, k3) e = Constant<value = int64 {{8}}>() o = Mod(ix, e)
        }}>(n, c, z) }}""", {"n": np.array(5), "p": _normal(3, 8)}),
    "loop_branch": (f"""g (int64 n, float x) => (float y) {{ {YES}
        y = Loop<{LOOP}, float a) => (bool kk, float r) {{ {ON} z = Constant<value = float {{0}}>() p = Greater(a, z)
            r = If<then_branch = t () => (float d) {{ h = Constant<value = float {{0.7}}>() d = Sub(a, h) }},
                else_branch = e () => (float f) {{ w = Constant<value = float {{1.5}}>() f = Add(a, w) }}>(p)
        }}>(n, c, x) }}""", {"n": np.array(8), "x": np.array(1, np.float32)}),
    "loop_in_loop": (f"""g (int64 n, float[2] x) => (float[2] y) {{ {YES}
        y = Loop<{LOOP}, float[2] a) => (bool kk, float[2] r) {{ {ON} three = Constant<value = int64 {{3}}>()
            r = Loop<body = bb (int64 j, bool l, float[2] d) => (bool ll, float[2] o) {{ ll = Identity(l)
                h = Constant<value = float {{0.9}}>() e = Mul(d, h) o = Add(e, x) }}>(three, k, a) }}>(n, c, x) }}""",
        {"n": np.array(4), "x": _normal(2)}),
    "branch_found": ("""g (float[N,4] x) => (float[M] y) { z = Constant<value = float {0.5}>() h = Greater(x, z)
        i = NonZero(h) s = Shape(i) one = Constant<value_ints = [1]>() n = Gather(s, one) m = Squeeze(n)
        o = Constant<value = int64 {0}>() p = Greater(m, o)
        y = If<then_branch = t () => (float[A] a) { it = Transpose<perm = [1, 0]>(i) a = GatherND(x, it) },
            else_branch = e () => (float[B] b) { b = Constant<value = float[1] {-1}>() }>(p) }""",
        {"x": _normal(5, 4)}),
    "sequence_parts": ("""g (float[N,3] x, int64[K] p) => (float[M,3] y, int64 l) { s = SplitToSequence<axis = 0>(x, p)
        l = SequenceLength(s) i = Constant<value = int64 {0}>() f = SequenceAt(s, i) e = SequenceErase(s, i)
        q = SequenceInsert(e, f) y = ConcatFromSequence<axis = 0>(q) }""",
        {"x": _normal(6, 3), "p": np.array([1, 2, 3])}),
    "sequence_map": ("""g (float[N,3] x) => (float[M,3] y) { one = Constant<value_int = 1>()
        s = SplitToSequence<axis = 0>(x, one) r = SequenceMap<body = b (float[K,3] t) => (float[K,3] o) {
            m = ReduceMean<axes = [1]>(t) d = Sub(t, m) q = ReduceL2<axes = [1]>(d) o = Div(d, q) }>(s)
        y = ConcatFromSequence<axis = 0>(r) }""", {"x": _normal(5, 3)}),
    "sequence_loop": (f"""g (seq(float[K]) s) => (float t) {{ n = SequenceLength(s) {YES}
        z = Constant<value = float {{0}}>() t = Loop<{LOOP}, float a) => (bool kk, float r) {{ {ON} e = SequenceAt(s, i)
            m = ReduceSum<keepdims = 0>(e) r = Add(a, m) }}>(n, c, z) }}""",
        {"s": [_normal(3), _normal(4), _normal(1)]}),
    "texts_split": ('g (string[N] s) => (string[N,M] y, int64[N] k) { y, k = StringSplit<delimiter = " ">(s) }',
        {"s": np.array(["a b c", "d e"], object)}),
    "suppression": ("""g (float[1,20,4] b, float[1,2,20] s) => (int64[K,3] y) { m = Constant<value_ints = [5]>()
        i = Constant<value = float {0.5}>() t = Constant<value = float {0.2}>()
        y = NonMaxSuppression(b, s, m, i, t) }""", {"b": abs(_normal(1, 20, 4)), "s": abs(_normal(1, 2, 20))}),
    "unique": ("g (int64[N] x) => (int64[K] u, int64[K] i, int64[N] j, int64[K] n) { u, i, j, n = Unique(x) }",
        {"x": np.array([3, 1, 3, 2])}),
    "optional": ("g (optional(float[N]) o) => (bool h) { h = OptionalHasElement(o) }", {"o": _normal(3)}),
    "slice_and_pad": ("""g (float[N] x, int64[1] a, int64[1] b) => (float[M] y) { s = Slice(x, a, b)
        p = Constant<value_ints = [1, 1]>() q = Pad(s, p) y = Mul(q, q) }""",
        {"x": _normal(8), "a": np.array([2]), "b": np.array([6])}),
}  # fmt: skip
"""Graphs in ONNX's text form with what they are run on, by name."""


def makers() -> Makers:
    """Return what makes each graph, and the streaming models of ``tools/bench --set small``."""
    found: dict[str, Callable[[], Made]] = {name: partial(_parsed, name) for name in GRAPHS}
    return found | {title.replace(",", "").replace(" ", "_"): make for title, make in SMALL.items()}


def _parsed(name: str) -> Made:
    text, feeds = GRAPHS[name]
    return parser.parse_model(f'<ir_version: 9, opset_import: ["" : {20 if "texts" in name else 17}]>\n{text}'), feeds
