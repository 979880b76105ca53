from __future__ import annotations

import gc

import numpy as np
import pytest

from clgraph.passes.packed_weights import BUDGET, SMALL_BYTES, PackedWeights


def large(seed: int = 0, size: int = SMALL_BYTES) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(size).astype(np.float32)


def test_what_was_computed_of_a_constant_is_found_again() -> None:
    packed, weights = PackedWeights(), large()
    packed.register([weights])
    made = packed.once("double", [weights], lambda: weights * 2)
    assert packed.once("double", [weights], lambda: pytest.fail("computed again")) is made
    np.testing.assert_array_equal(made, weights * 2)
    assert packed.once("triple", [weights], lambda: weights * 3) is not made
    assert not made.flags.writeable


def test_recipes_go_through_results_and_tell_slots_apart() -> None:
    packed, weights, other = PackedWeights(), large(0), large(1)
    packed.register([weights, other])
    made = packed.once("double", [weights], lambda: weights * 2)
    assert packed.recipe("sum", [made, other]) is not None
    assert packed.recipe("sum", [made, other]) != packed.recipe("sum", [other, made])
    assert packed.recipe("sum", [made, other]) != packed.recipe("sum", [weights, other])


def test_small_arrays_are_known_by_their_content() -> None:
    packed = PackedWeights()
    a, b = np.arange(4, dtype=np.int64), np.arange(4, dtype=np.int64)
    assert packed.recipe("f", [a]) == packed.recipe("f", [b])
    assert packed.recipe("f", [a]) != packed.recipe("f", [a.reshape(2, 2)])
    assert packed.recipe("f", [a]) != packed.recipe("f", [a.view(np.float64)])
    assert packed.recipe("f", [a]) != packed.recipe("f", [a + 1])


def test_an_array_that_nobody_registered_has_no_recipe() -> None:
    packed, weights = PackedWeights(), large()
    assert packed.recipe("f", [weights]) is None
    first = packed.once("double", [weights], lambda: weights * 2)
    weights *= 3
    assert packed.once("double", [weights], lambda: weights * 2)[0] == 3 * first[0]


def test_a_new_array_in_the_place_of_one_that_is_gone_is_another() -> None:
    """``id`` is given again."""
    packed = PackedWeights()
    for seed in range(50):
        weights = large(seed)
        packed.register([weights])
        made = packed.once("double", [weights], lambda weights=weights: weights * 2)  # type: ignore[misc]
        np.testing.assert_array_equal(made, weights * 2)
        del weights, made


def test_intermediate_results_live_as_long_as_they_are_used_unless_they_are_kept() -> None:
    packed, weights = PackedWeights(), large()
    packed.register([weights])
    gc.disable()
    try:
        packed.once("double", [weights], lambda: weights * 2)
        assert packed.find(packed.recipe("double", [weights])) is None
        packed.keeps_steps = True
        packed.once("double", [weights], lambda: weights * 2)
        assert packed.find(packed.recipe("double", [weights])) is not None
    finally:
        gc.enable()


def test_what_nobody_uses_is_kept_within_the_budget_and_what_was_found_last_stays() -> None:
    packed, weights = PackedWeights(), large()
    packed.register([weights])
    recipes = [packed.recipe(("times", i), [weights]) for i in range(3 * BUDGET)]
    for i, recipe in enumerate(recipes):
        packed.remember(recipe, weights * i)
        assert packed.find(recipes[0]) is not None
        assert packed.nbytes <= BUDGET * weights.nbytes
    found = [packed.find(r) is not None for r in recipes]
    assert found == [True, *[False] * (2 * BUDGET), *[True] * (BUDGET - 1)]


def test_a_result_in_use_is_found_whatever_the_budget() -> None:
    packed, weights = PackedWeights(), large()
    packed.register([weights])
    recipe = packed.recipe("first", [weights])
    used = packed.remember(recipe, weights + 1)
    for i in range(3 * BUDGET):
        packed.remember(packed.recipe(i, [weights]), weights * i)
    assert packed.find(recipe) is used


def test_the_array_itself_as_the_result_stays_what_it_was() -> None:
    packed, weights = PackedWeights(), large()
    packed.register([weights])
    recipe = packed.recipe("f", [weights])
    assert packed.once("identity", [weights], lambda: weights) is weights
    assert weights.flags.writeable
    assert packed.recipe("f", [weights]) == recipe


def test_a_chain_of_results_that_are_read_twice_is_known_in_linear_time() -> None:
    """By what recipes hold, the last one would be compared and hashed 2^200 times."""
    packed, weights = PackedWeights(), large()
    packed.register([weights])
    packed.keeps_steps = True
    for _ in range(2):
        made = [weights]
        for _ in range(200):
            last = made[-1]
            made.append(packed.once("mean", [last, last], lambda last=last: (last + last) / 2))  # type: ignore[misc]
    assert packed.find(packed.recipe("mean", [made[-2], made[-2]])) is made[-1]
