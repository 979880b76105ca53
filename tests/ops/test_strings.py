"""Operators of strings against ONNX Runtime: text to numbers and back, parts, words, n-grams."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import clgraph
from clgraph.core.dtype import DType
from clgraph.errors import InputError, ModelError, ShapeError, UnsupportedError
from clgraph.ops import regex_full_match
from clgraph.ops.microsoft import tokenizer
from clgraph.ops.string_cast import StringCast
from clgraph.ops.string_split import StringSplit
from tests.support import oracle

TEXT = TensorProto.STRING
CODES = {
    np.dtype(np.float16): TensorProto.FLOAT16,
    np.dtype(np.float32): TensorProto.FLOAT,
    np.dtype(np.float64): TensorProto.DOUBLE,
    np.dtype(np.int64): TensorProto.INT64,
    np.dtype(np.int32): TensorProto.INT32,
    np.dtype(np.uint8): TensorProto.UINT8,
    np.dtype(np.bool_): TensorProto.BOOL,
    np.dtype(object): TEXT,
}


def model_of(operator: str, feeds: list[np.ndarray[Any, Any]], *results: int, **attributes: Any) -> onnx.ModelProto:
    """Return a model of one node."""
    names = [f"x{i}" for i in range(len(feeds))]
    outputs = [f"y{i}" for i in range(len(results))]
    graph = helper.make_graph(
        [helper.make_node(operator, names, outputs, name="node", **attributes)],
        "g",
        [helper.make_tensor_value_info(n, CODES[a.dtype], a.shape) for n, a in zip(names, feeds, strict=True)],
        [helper.make_tensor_value_info(name, code, None) for name, code in zip(outputs, results, strict=True)],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)], ir_version=9
    )


def computed(operator: str, feeds: list[np.ndarray[Any, Any]], *results: int, **attributes: Any) -> list[Any]:
    model = model_of(operator, feeds, *results, **attributes)
    return list(clgraph.compile(model, "host").run({f"x{i}": a for i, a in enumerate(feeds)}).values())


def check(operator: str, feeds: list[np.ndarray[Any, Any]], *results: int, **attributes: Any) -> None:
    """Compare a node with ONNX Runtime's, to the last bit."""
    session = oracle.session(model_of(operator, feeds, *results, **attributes), threads=1)
    wanted = session.run(None, {f"x{i}": a for i, a in enumerate(feeds)})
    for found, expected in zip(computed(operator, feeds, *results, **attributes), wanted, strict=True):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_array_equal(found, expected)


def texts(*given: str) -> np.ndarray[Any, Any]:
    return np.array(given, object)


def test_numbers_become_strings_that_read_back() -> None:
    floats = [0, -0.0, 1, 0.1, -2.5, 1e-7, 123456789, 3e38, 1 / 3, np.nan, np.inf, -np.inf]
    for dtype in (np.float32, np.float64):
        x = np.array(floats).astype(dtype)
        (found,) = computed("Cast", [x], TEXT, to=TEXT)
        (back,) = computed("Cast", [found], CODES[x.dtype], to=CODES[x.dtype])
        np.testing.assert_array_equal(back, x)
        assert found.tolist()[-3:] == ["NaN", "INF", "-INF"]
    short = np.array([0, -0.0, 1, 0.1, -2.5, 1e-7, 1e8, 1.25e20, 0.333, np.nan, np.inf, -np.inf])
    for dtype in (np.float16, np.float32, np.float64):
        with np.errstate(over="ignore"):
            check("Cast", [short.astype(dtype)], TEXT, to=TEXT)
    for dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn):
        found = StringCast().reference(np.array([0.5, -1.25, 3, np.nan], dtype))[0]
        assert found.tolist() == ["0.5", "-1.25", "3", "NaN"]
        (back,) = StringCast(DType.of(dtype)).reference(found)
        np.testing.assert_array_equal(back.astype(np.float32), np.array([0.5, -1.25, 3, np.nan], np.float32))
    for x in (np.array([[1, -7, 2**60]]), np.array([3, 250], np.uint8), np.array(5, np.int32)):
        check("Cast", [x], TEXT, to=TEXT)
    assert computed("Cast", [np.array([True, False])], TEXT, to=TEXT)[0].tolist() == ["1", "0"]
    assert computed("Cast", [texts("a")], TEXT, to=TEXT)[0].tolist() == ["a"]


def test_many_floats_have_the_fewest_digits_from_eight_on_that_tell_them() -> None:
    rng = np.random.default_rng(0)
    for dtype, bits in ((np.float32, np.uint32), (np.float64, np.uint64), (np.float16, np.uint16)):
        x = rng.integers(0, np.iinfo(bits).max, 3000, bits, endpoint=True).view(dtype)
        found = StringCast().reference(x)[0].tolist()
        for text, number in zip(found, x, strict=True):
            if np.isfinite(number):
                digits = max(8, sum(c.isdigit() for c in text.partition("e")[0].replace(".", "").lstrip("-0")))
                assert dtype(float(text)) == number
                assert digits == 8 or dtype(float(f"{float(number):.{digits - 1}g}")) != number
        np.testing.assert_array_equal(StringCast(DType.of(np.dtype(dtype))).reference(np.array(found, object))[0], x)


def test_digits_of_many_floats_are_those_of_each() -> None:
    rng = np.random.default_rng(1)
    for dtype in (np.float32, np.float16, ml_dtypes.bfloat16, np.float64):
        families = (
            10.0 ** rng.uniform(-6, 10, 20000) * rng.choice([-1, 1], 20000),
            np.arange(-3000, 3000) / 64,
            np.arange(1, 3000) / 1e4,
            10.0 ** np.repeat(np.arange(-5, 9), 100) * np.float32(1 + rng.choice([-6e-8, 0, 6e-8, 1.2e-7], 1400)),
            np.full(600, 99999992.0),
            rng.choice([0.0, -0.0, np.nan, np.inf, -np.inf, 1.5, 1e-4, 1e8], 3000),
        )
        for numbers in families:
            with np.errstate(over="ignore"):
                x = numbers.astype(dtype)
            few = np.concatenate([StringCast().reference(part)[0] for part in np.array_split(x, len(x) // 300 + 1)])
            assert StringCast().reference(x)[0].tolist() == few.tolist()


def test_doubles_have_exponents_where_digits_end() -> None:
    texts_of = {801113111930.0: "8.0111311193e+11", 123456789.0: "123456789", -0.1: "-0.1", 1 / 3: "0.3333333333333333"}
    texts_of |= {123456789012.5: "123456789012.5", 1.5e-7: "1.5e-07", 2.0**60: "1.152921504606847e+18", 100.0: "100"}
    assert StringCast().reference(np.array([*texts_of]))[0].tolist() == [*texts_of.values()]


@pytest.mark.parametrize("dtype", ["int64", "uint64", "int8", "bool"])
def test_integers_near_each_other_and_far_apart_are_written_in_full(dtype: str) -> None:
    ends = (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    for numbers in (
        [*ends],
        [],
        [ends[1]] * 9,
        [ends[1] - 1, ends[1]] * 9,
        [ends[0], ends[0] + 1] * 9,
        [*range(ends[1] - 6, ends[1] + 1)] * 2,
        [ends[1] - 1, ends[1]] * 300,
        [ends[0], ends[0] + 1] * 300,
        [0, 1] * 300,
        [0, 1, 1, ends[1]],
    ):
        x = np.array(numbers, dtype)
        assert StringCast().reference(x)[0].tolist() == [str(int(number)) for number in x.tolist()]


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint64"])
def test_many_integers_of_up_to_six_digits_are_written_in_full(dtype: str) -> None:
    ends = [0, 1, 9, 10, 99, 100, 999, 1000, 1001, 1999, 2000, 9999, 10000, 100000, 999000, 999999]
    drawn = np.random.default_rng(0).integers(0, 1000000, 700).tolist()
    for more in ([], [1000000]):  # which are written one by one
        x = np.array([*ends, *drawn, *more], dtype)
        for numbers in (x,) if dtype == "uint64" else (x, -x):
            assert StringCast().reference(numbers)[0].tolist() == [str(number) for number in numbers.tolist()]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_numbers_that_are_not_finite_are_written_among_few_and_many(dtype: Any) -> None:
    texts_of = {np.nan: "NaN", np.inf: "INF", -np.inf: "-INF", 0.5: "0.5", -2.0: "-2"}
    for count in (1, 200):
        x = np.array([*texts_of] * count, dtype)
        assert StringCast().reference(x)[0].tolist() == [*texts_of.values()] * count


def test_parts_are_those_of_each_string() -> None:
    x = np.array([["a b c", "", " b "], ["a,b  c", "abc", ",,"]], object)
    for delimiter, most in ((" ", None), ("", None), (",", 1), ("", 1), ("b ", 2), (",", 0)):
        y, counts = StringSplit(delimiter, most).reference(x)
        cuts = -1 if most is None else most
        wanted = [(s.split(delimiter, cuts) if s else []) if delimiter else s.strip().split(None, cuts) for s in x.flat]
        assert counts.dtype == np.int64
        assert counts.shape == x.shape
        assert counts.ravel().tolist() == [*map(len, wanted)]
        assert y.shape == (*x.shape, max(map(len, wanted)))
        assert y.reshape(6, -1).tolist() == [parts + [""] * (y.shape[-1] - len(parts)) for parts in wanted]


def test_strings_become_numbers() -> None:
    check("Cast", [texts("0.5", "-1e-3", "1e10", "NaN", "-INF", "7")], TensorProto.FLOAT, to=TensorProto.FLOAT)
    check("Cast", [texts("0.1", "-2.5e-300")], TensorProto.DOUBLE, to=TensorProto.DOUBLE)
    check("Cast", [texts("12", "-9223372036854775808")], TensorProto.INT64, to=TensorProto.INT64)
    (found,) = computed("CastLike", [texts("12", "3"), np.array([0.5])], TensorProto.DOUBLE)
    assert (found.dtype, found.tolist()) == (np.float64, [12.0, 3.0])
    assert computed("CastLike", [np.array([12]), texts("a")], TEXT)[0].tolist() == ["12"]


@pytest.mark.parametrize(
    ("text", "to"), [("x", TensorProto.FLOAT), ("1.5", TensorProto.INT64), ("300", TensorProto.UINT8)]
)
def test_a_text_that_is_no_such_number_is_an_error_that_names_the_node(text: str, to: int) -> None:
    with pytest.raises(InputError, match=rf"node 'node' .* the text '{text}' is no \w+ number"):
        computed("Cast", [texts("1", text)], to, to=to)


def test_strings_are_put_together_and_cut() -> None:
    check("StringConcat", [np.array([["a"], ["é"]], object), texts("x", "", "z")], TEXT)
    x = np.array([["a,b,,c", "", " a  b "], [",", "a", "b,c"]], object)
    for delimiter in (",", " ", "", "b,"):
        for most in (None, 1, 2):
            more = {} if most is None else {"maxsplit": most}
            check("StringSplit", [x], TEXT, TensorProto.INT64, delimiter=delimiter, **more)
    with pytest.raises(ShapeError, match="do not broadcast"):
        computed("StringConcat", [texts("a", "b"), texts("a", "b", "c")], TEXT)


def test_whole_strings_match_expressions() -> None:
    x = np.array([["www.google.com", "google"], ["12-34", ""]], object)
    for pattern in (r"www\.[\w.]+", r"\d+-\d+", r".*", r"(google|)", r"[^a-z]+"):
        check("RegexFullMatch", [x], TensorProto.BOOL, pattern=pattern)
    with pytest.raises(UnsupportedError, match="is not one that Python reads"):
        computed("RegexFullMatch", [x], TensorProto.BOOL, pattern="(")


EXPRESSIONS = (
    *(
        r"\w+",
        r"\W",
        r"[\w-]+",
        r"[\W_]+",
        r"\S+",
        r"[^\s]*",
        r"\D+",
        r"[\d.]+",
        r"\bab\b",
        r"a$",
        r"(?m)^a$\n?",
        r"\z",
    ),
    *("[[:alpha:]]+", "[^[:space:]]*", "[[]a[]]", "[]a[]+", "[a-z&&b]+", r"\Qa.b\E", "(?<n>a)b", "(?i)É", "(?i:foo)1"),
)


def test_expressions_are_those_of_re2() -> None:
    x = texts(
        "abc", "é", "É", "a\nb", "a\n", "", "foo1", "FOO1", "x-y", "[a]", "3.14", "\x0b", "_", "a.b", "&", "日", "ab"
    )
    for pattern in EXPRESSIONS:
        check("RegexFullMatch", [x], TensorProto.BOOL, pattern=pattern)
    for pattern in (r"\pL", r"[\pL]", "(?U)a+", "[[:^alpha:]]", r"\101"):
        with pytest.raises(UnsupportedError, match=r"is not one that Python reads: the (escape|flag|class)"):
            computed("RegexFullMatch", [x], TensorProto.BOOL, pattern=pattern)


def test_texts_are_cut_into_tokens() -> None:
    x = texts("Hello World", "I love  computer science!", "", "é日 ab")
    names = {"domain": "com.microsoft", "pad_value": "#"}
    for how in (
        *({"separators": s} for s in ([" "], ["o", "[ ]"], [""], ["ab|a", "o+|or"])),
        *({"tokenexp": t} for t in (".", "[a-zA-Z]+", "l|lo|love|[a-z]*", r"\w\w+")),
    ):
        for least in (1,) if "" in how.get("separators", ()) or how.get("tokenexp") == "." else (1, 3):
            for mark in (0, 1):
                check("Tokenizer", [x], TEXT, **names, **how, mincharnum=least, mark=mark)
    check("Tokenizer", [x.reshape(2, 2)], TEXT, **names, separators=[" "], mincharnum=1, mark=1)
    nothing = texts(" ", "")  # which is not marked
    check("Tokenizer", [nothing], TEXT, **names, separators=[" "], mincharnum=1, mark=1)
    with pytest.raises(ShapeError, match=r"neither \[C\] nor \[N, C\]"):
        computed("Tokenizer", [x.reshape(1, 2, 2)], TEXT, **names, separators=[" "], mincharnum=1, mark=0)


@pytest.mark.parametrize(
    ("how", "what"),
    [
        ({}, "there is neither"),
        ({"separators": ["b*"]}, "matches between any two letters"),
        ({"separators": ["b"], "mincharnum": 0}, "mincharnum is 0"),
        ({"separators": [""], "mincharnum": 2}, "letters are one letter long"),
        ({"tokenexp": "."} | {"mincharnum": 2}, "letters are one letter long"),
        ({"tokenexp": r"a\b|ab"}, "has alternatives and asks for what is behind them"),
    ],
)
def test_what_says_nothing_of_tokens_is_refused(how: dict[str, Any], what: str) -> None:
    names = {"domain": "com.microsoft", "pad_value": "", "mark": 0, "mincharnum": 1}
    with pytest.raises(UnsupportedError, match=what):
        computed("Tokenizer", [texts("a")], TEXT, **{**names, **how})


def test_words_are_left_out_and_put_into_one_case() -> None:
    words = texts("Monday", "TUESDAY", "monday", "ä", "Friday")
    for x in (words, words[np.newaxis]):
        for action in ("NONE", "LOWER", "UPPER"):
            for sensitive in (0, 1):
                for stop in ([], ["monday", "friday"], ["Monday", "TUESDAY", "monday", "ä", "Friday"]):
                    more = {"case_change_action": action, "is_case_sensitive": sensitive, "locale": "C.UTF-8"}
                    check("StringNormalizer", [x], TEXT, **more, **({"stopwords": stop} if stop else {}))
    with pytest.raises(ShapeError, match=r"neither \[words\] nor \[1, words\]"):
        computed("StringNormalizer", [np.array([["a"], ["b"]], object)], TEXT)


GRAMS: dict[str, Any] = {
    "ngram_counts": [0, 3, 9],
    "ngram_indexes": [1, 0, 4, 2, 3, 5, 6],
    "weights": [0.5, 1, 2, 0.25, 3, 1.5, 4],
}
"""Three n-grams of one item, three of two, one of three."""

NUMBERS, WORDS = [1, 2, 3, 1, 2, 2, 3, 3, 3, 1, 2, 3], ["a", "b", "c", "a", "b", "b", "c", "c", "c", "a", "b", "c"]


def test_n_grams_are_counted_and_weighted() -> None:
    random = np.random.default_rng(2)
    counted = np.array([[1, 2, 3, 1, 2, 3], [3, 3, 3, 2, 9, 1]])
    spelt = np.array([[{9: "?"}.get(n, WORDS[n - 1]) for n in row] for row in counted.tolist()], object)
    for mode in ("TF", "IDF", "TFIDF"):
        for least, most in ((1, 1), (1, 3), (2, 2), (2, 3)):
            for skips in (0, 1, 3):
                more = {"mode": mode, "min_gram_length": least, "max_gram_length": most, "max_skip_count": skips}
                x = counted if random.integers(2) else counted[int(random.integers(2))]
                check("TfIdfVectorizer", [x], TensorProto.FLOAT, pool_int64s=NUMBERS, **GRAMS, **more)
        check("TfIdfVectorizer", [spelt], TensorProto.FLOAT, pool_strings=WORDS, **GRAMS, **more)


def test_a_pool_that_is_cut_wrongly_is_refused() -> None:
    more = {"mode": "TF", "min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0, "pool_int64s": NUMBERS}
    for counts, columns in (([0, 2, 9], GRAMS["ngram_indexes"]), ([0, 3, 9], [1, 2])):
        with pytest.raises(ModelError, match="n-grams"):
            computed("TfIdfVectorizer", [np.array([1])], 1, ngram_counts=counts, ngram_indexes=columns, **more)


def test_pictures_are_decoded_and_others_refused() -> None:
    from io import BytesIO

    from PIL import Image

    pixels = np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3)
    file = BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    data = np.frombuffer(file.getvalue(), np.uint8)
    assert computed("ImageDecoder", [data], TensorProto.UINT8)[0].tolist() == pixels.tolist()
    (turned,) = computed("ImageDecoder", [data], TensorProto.UINT8, pixel_format="BGR")
    assert turned.tolist() == pixels[:, :, ::-1].tolist()
    assert computed("ImageDecoder", [data], TensorProto.UINT8, pixel_format="Grayscale")[0].shape == (4, 5, 1)
    for damaged in (data[:40], data[:0], data[::-1].copy()):
        with pytest.raises(InputError, match=r"node 'node' .* its input is not a picture that Pillow reads"):
            computed("ImageDecoder", [damaged], TensorProto.UINT8)


@pytest.mark.parametrize(
    ("module", "of"),
    [
        (tokenizer, tokenizer.Tokenizer(separators=(" ", ","))),
        (tokenizer, tokenizer.Tokenizer(expression="[a-z]+")),
        (regex_full_match, regex_full_match.RegexFullMatch("[a-z]+ .*")),
    ],
)
def test_patterns_are_translated_once(module, of, monkeypatch):
    """To translate and compile one takes longer than it takes on a few words."""
    texts = np.array(["one two,three", "", "four"], object)
    (first,) = of.reference(texts)
    monkeypatch.setattr(module, "translated", None)
    (second,) = of.reference(texts)
    np.testing.assert_array_equal(first, second)
