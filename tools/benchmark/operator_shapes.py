"""Models of one operator on shapes of models: few columns, short rows, broadcasts on both sides, middle axes."""

from __future__ import annotations

import numpy as np

from tools.benchmark.operator_cases import Cases, OperatorCase, draw, drawn

BOXES = {"small": (20, 30), "large": (300, 900)}
TOKENS = {"small": 64, "large": 8400}


def cases_of_shapes(size: str) -> Cases:
    """Yield each case by its title."""
    yield from _of_models(size)
    yield from _drawn_once(size)


def _drawn_once(size: str) -> Cases:
    """Yield kinds that ``--random`` has found to take more than twice as long as in ONNX Runtime."""
    queries, tokens = BOXES[size][0], TOKENS[size]
    rows = np.random.default_rng(4).integers(0, queries, queries)
    odd = ("i8", (queries, 3415))
    yield "Gather i8 odd rows", drawn("Gather", odd, rows)
    yield "GatherND i8 odd rows", drawn("GatherND", odd, rows[:, None])
    for name, shape, axes in (
        ("Sum", (queries, 2, 56, 12), (1, 3)),
        ("Max", (queries, 2, 56, 6), (1, 3)),
        ("Mean", (queries, 56, 40), (0, 2)),
    ):
        yield f"Reduce{name} f32 apart {shape[-1]}", drawn(f"Reduce{name}", ("f32", shape), constants=(np.array(axes),))
    yield "Softmax f32 one behind", drawn("Softmax", ("f32", (tokens, 16, 1)), attributes={"axis": 1})
    for dtype in ("f32", "i64"):
        repeats = (np.array([3, 2, 3]),)
        yield f"Tile {dtype} of tiles", drawn("Tile", (dtype, (4, tokens, 3)), constants=repeats)
        wanted = (np.array([4, tokens, 2, 6, 4, 2]),)
        yield f"Expand {dtype} of blocks", drawn("Expand", (dtype, (1, tokens, 2, 1, 4, 1)), constants=wanted)


def _of_models(size: str) -> Cases:
    (queries, keys), tokens = BOXES[size], TOKENS[size]
    for dtype in ("f32", "f16", "i64"):
        pair = ((queries, 1, 4), (1, keys, 4))
        yield f"Sub {dtype} boxes", lambda d=dtype, p=pair: OperatorCase("Sub", tuple(draw(d, s) for s in p))
        for width in (3, 32, 96):
            yield (
                f"Mul {dtype} {width} mask",
                lambda d=dtype, w=width: OperatorCase("Mul", (draw(d, (1, tokens, w)), draw(d, (1, tokens, 1)))),
            )
    yield (
        "Where f32 boxes",
        lambda: OperatorCase("Where", (draw("bool", (queries, keys, 1)), draw("f32", (keys, 4)), draw("f32", ()))),
    )
    angles = ((tokens, 1), (1, 64))
    yield "Pow f32 outer", lambda: OperatorCase("Pow", tuple(draw("f32", s, 0.1) for s in angles))
    heads = ((8, 12, tokens // 32 or 1, 64), (8, 1, tokens // 32 or 1, 64))
    yield "Add f32 heads", lambda: OperatorCase("Add", tuple(draw("f32", s) for s in heads))
    for dtype in ("f32", "u8"):
        yield (
            f"Expand {dtype} boxes",
            lambda d=dtype: OperatorCase("Expand", (draw(d, (queries, 1, 4)),), (np.array([queries, keys, 4]),)),
        )
    for dtype in ("f32", "f16", "f64", "i64"):
        for columns in (1, 2, 4, 16):
            yield (
                f"MatMul {dtype} {columns} columns",
                lambda d=dtype, n=columns: OperatorCase("MatMul", (draw(d, (tokens // 8, 256)), draw(d, (256, n)))),
            )
    yield "MatMul i32", lambda: OperatorCase("MatMul", (draw("i32", (tokens // 32, 128)), draw("i32", (128, 128))))
    for inner in (3, 8, 32, 256):
        shape = (4, tokens // 8, inner)
        for name in ("ReduceMean", "ReduceMax"):
            yield (
                f"{name} f32 middle {inner}",
                lambda n=name, s=shape: OperatorCase(n, (draw("f32", s),), (np.array([1]),)),
            )
        yield (
            f"Softmax f32 middle {inner}",
            lambda s=shape: OperatorCase("Softmax", (draw("f32", s),), attributes={"axis": 1}),
        )
        yield (
            f"ArgMax f32 middle {inner}",
            lambda s=shape: OperatorCase("ArgMax", (draw("f32", s),), attributes={"axis": 1}),
        )
        yield f"CumSum f32 middle {inner}", lambda s=shape: OperatorCase("CumSum", (draw("f32", s),), (np.array(1),))
        yield (
            f"TopK f32 last {inner}",
            lambda s=shape: OperatorCase("TopK", (draw("f32", s),), (np.array([2]),), outputs=2),
        )
    for width in (1, 4, 16):
        lines = (tokens, width)
        for dtype in ("f32", "i64"):
            yield (
                f"CumSum {dtype} last {width}",
                lambda d=dtype, s=lines: OperatorCase("CumSum", (draw(d, s),), (np.array(1),)),
            )
        yield (
            f"ReduceMean i32 last {width}",
            lambda s=lines: OperatorCase("ReduceMean", (draw("i32", s),), (np.array([1]),)),
        )
    for shape, axis in (
        ((tokens // 8, 16), 1),
        ((tokens, 80), 1),
        ((4, tokens // 8, 8), 1),
        ((4, 64, tokens // 32), 1),
    ):
        yield (
            f"TopK f32 best {'x'.join(map(str, shape[1:]))}",
            lambda s=shape, a=axis: OperatorCase("TopK", (draw("f32", s),), (np.array([1]),), {"axis": a}, outputs=2),
        )
    yield (
        "ReduceMean i32 middle",
        lambda: OperatorCase("ReduceMean", (draw("i32", (tokens // 64, 3, 128)),), (np.array([1]),)),
    )
    yield "MatMul f32 points", lambda: OperatorCase("MatMul", (draw("f32", (tokens, 4)), draw("f32", (4, 4))))
