from __future__ import annotations

import numpy as np
import pytest

from clgraph.errors import GenerationError, OptionError
from clgraph.generate.options import Options
from clgraph.generate.sampling import Sampler

LOGITS = np.array([0.5, 3.0, -1.0, 2.0, 2.5, -4.0], np.float32)


def drawn(count: int = 4000, **options: object) -> np.ndarray:
    """Return how often each token is drawn, of 1."""
    sampler = Sampler(Options(seed=7, **{"temperature": 1.0, **options}))  # type: ignore[arg-type]  # fields of Options
    tokens = [sampler.choose(LOGITS, [1, 2]) for _ in range(count)]
    return np.bincount(tokens, minlength=len(LOGITS)) / count


def shares(logits: np.ndarray, kept: list[int]) -> np.ndarray:
    weights = np.zeros(len(logits))
    weights[kept] = np.exp(logits[kept].astype(np.float64))
    return weights / weights.sum()


EVERY = list(range(6))


@pytest.mark.parametrize(
    ("options", "logits", "kept"),
    [
        ({}, LOGITS, EVERY),
        ({"temperature": 2.0}, LOGITS / 2, EVERY),
        ({"top_k": 2}, LOGITS, [1, 4]),
        ({"top_k": 9}, LOGITS, EVERY),
        ({"top_p": 0.5}, LOGITS, [1, 4]),  # the likeliest has 0.47
        ({"top_p": 0.4}, LOGITS, [1]),
        ({"top_p": 0.999999}, LOGITS, EVERY),
        ({"top_k": 3, "top_p": 0.8}, LOGITS, [1, 4]),  # 0.51 and 0.31 of the three
        ({"repetition_penalty": 2.0}, np.array([0.5, 1.5, -2.0, 2.0, 2.5, -4.0]), EVERY),
    ],
)
def test_tokens_are_drawn_by_the_probabilities_that_options_leave(options, logits, kept):
    want, count = shares(logits, kept), 4000
    found = drawn(count, **options)
    # Five standard deviations of a binomial share, at most sqrt(1 / 4 / count).
    np.testing.assert_allclose(found, want, rtol=0, atol=5 * np.sqrt(0.25 / count))
    assert (found[want == 0] == 0).all()


def test_greedy_takes_the_greatest_logit_and_knows_what_was_said():
    assert Sampler(Options()).choose(LOGITS, []) == 1
    assert Sampler(Options(repetition_penalty=1.5)).choose(LOGITS, [1]) == 4
    assert Sampler(Options(repetition_penalty=1.5)).choose(-np.abs(LOGITS), [0]) == 0  # -0.75 is the greatest still
    assert Sampler(Options(repetition_penalty=3.0)).choose(-np.abs(LOGITS), [0]) == 2


def test_a_seed_draws_the_same_and_its_texts_draw_apart():
    def texts(seed: int | None, number: int = 0) -> list[int]:
        sampler = Sampler(Options(temperature=1.5, seed=seed), number)
        return [sampler.choose(LOGITS, []) for _ in range(50)]

    assert texts(3) == texts(3)
    assert texts(3) != texts(4)
    assert texts(3) != texts(3, 1)
    assert texts(None) != texts(None)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_no_numbers_are_an_error(bad, temperature):
    logits = LOGITS.copy()
    logits[2] = bad
    with pytest.raises(GenerationError, match=r"logits of token 3 have"):
        Sampler(Options(temperature=temperature)).choose(logits, [1, 2, 3])
    with pytest.raises(GenerationError, match="no finite greatest"):
        Sampler(Options(temperature=temperature)).choose(np.full(4, -np.inf, np.float32), [])


@pytest.mark.parametrize(
    "option",
    [
        {"max_tokens": 0},
        {"temperature": -1.0},
        {"temperature": float("nan")},
        {"top_k": -1},
        {"top_p": 0.0},
        {"top_p": 1.5},
        {"repetition_penalty": 0.0},
        {"seed": -1},
        {"stop": "text"},
        {"stop": ("",)},
        {"stop": (3,)},
        {"max_tokens": "8"},
        {"max_tokens": 1.5},
        {"temperature": None},
        {"top_k": True},
        {"stop_tokens": (1, 2)},
        {"stop_tokens": {"a"}},
    ],
)
def test_options_outside_of_their_range_are_refused(option):
    with pytest.raises(OptionError, match=next(iter(option))):
        Options(**option)
